"""Manifests of lake and tables, and checkpoints: any body under a right checksum is a version or
``Corrupt``. A version that is written again reads the same."""

from __future__ import annotations

import contextlib

from strandline.errors import StrandlineError
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files import checkpoint_codec as root_file

_STORE = bytes(range(16))
_PLACE = manifest_codec.ManifestKey(_STORE, 5, 1)
_NEXT = manifest_codec.ManifestKey(_STORE, 5, 2)
_EMPTY = manifest_codec._from_full(
    manifest_codec._FULL_BODY.decode(
        b'{"name":"t","epoch":1,"term":1,"created_us":1,"floor":1,"oldest":1,"dropped":false,'
        b'"deleted":"","removed":[],"files":[]}'
    ),
    _PLACE,
)
_FILE = b'["%016x.parquet",1,9,9,90,1,2,3,4,"","","",[],[]]' % 1

SEEDS = (
    b"\0"
    + bytes(
        manifest_codec._lines(manifest_codec.encode(_EMPTY, None, store_id=_STORE, attempt="a")[0])[
            1
        ]
    ),
    b'\x01{"epoch":1,"term":1,"created_us":1,"floor":1,"oldest":1,"dropped":false,"hidden":"",'
    b'"purged":"","removed":[],"forgotten":[],"left":[],"files":[]}',
    b'\0{"name":"t","epoch":1,"term":1,"created_us":1,"floor":1,"oldest":1,"dropped":false,'
    b'"deleted":"AAAA","removed":[],"files":[' + _FILE + b"]}",
    b"\x02" + root_file.encode(root_file.empty_checkpoint(_STORE))[root_file._HEADER.size :],
)


def check(data: bytes) -> None:
    kind, body = data[:1], data[1:]
    with contextlib.suppress(StrandlineError):
        if kind == b"\x02":
            _check_root(body)
        elif kind == b"\x01":
            before = manifest_codec.encode(_EMPTY, None, store_id=_STORE, attempt="a")[1]
            stored, _ = manifest_codec._object(_NEXT, "delta", 1, before.checksum, "a", body)
            _check_again(manifest_codec.apply_object(before, stored, _NEXT).manifest)
        else:
            stored, _ = manifest_codec._object(_PLACE, "full", 1, "", "a", body)
            _check_again(manifest_codec.apply_object(None, stored, _PLACE).manifest)
    with contextlib.suppress(StrandlineError):
        manifest_codec.apply_object(None, data, _PLACE)


def _check_again(manifest: Manifest) -> None:
    place = manifest_codec.ManifestKey(_STORE, manifest.topic_id, manifest.number)
    stored, _ = manifest_codec.encode(manifest, None, store_id=_STORE, attempt="b")
    assert manifest_codec.apply_object(None, stored, place).manifest == manifest


def _check_root(body: bytes) -> None:
    checksum = root_file._checksum(body, 0, root_file.FORMAT_VERSION)
    header = (root_file._MAGIC, root_file.FORMAT_VERSION, 0, len(body), checksum, 0)
    root = root_file.decode(root_file._HEADER.pack(*header) + body, "checkpoint")
    assert root_file.decode(root_file.encode(root), "checkpoint") == root
