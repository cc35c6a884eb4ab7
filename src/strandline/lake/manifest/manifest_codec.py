"""Manifest object <-> bytes. Pure.

An object is two lines of JSON, each with a newline at its end. The first is the header:

    format    1
    kind      "full": names every live file. "delta": what changed since the number before
    topic_id
    number
    base      the newest full manifest up to this one: its own number when it is full
    parent    checksum of the manifest before this one, "" for the first
    attempt   random, so that a writer recognizes its own object
    checksum  xxh3-64 of the whole object without these 16 digits and the three bytes after them.
              Last in the line. The seed is made of store id, topic id and number: an object under
              the key of another one fails the check

The second is the body, a ``_Full`` or a ``_Delta``: structures by name, files and removed files as
arrays in the order of their fields, bitmaps as base64 of a 64-bit roaring bitmap.

A version is read from its base and the deltas after it. Each names its parent's checksum: deltas of
two histories cannot be mixed. A full one is due every ``DELTAS_MAX`` numbers, and as soon as the
deltas are larger than the last full one, so reading takes few objects and few bytes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
from pyroaring import BitMap64
from xxhash import xxh3_64, xxh3_64_intdigest

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import (
    Manifest,
    RemovedFile,
    difference,
    find_disorder,
    merge,
)
from strandline.lake.object_keys import manifest_key
from strandline.schema import Schema

FORMAT = 1
DELTAS_MAX = 15
_DELTAS_SIZE_MIN = 64 * 1024  # smaller deltas are never too large
_FULL: Literal["full"] = "full"
_DELTA: Literal["delta"] = "delta"
_CHECKSUM_DIGITS = 16
_HEADER_SIZE_MAX = 1024
_END = b'"}'


class ManifestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an object. The checksum is last: it is cut out of what it covers."""

    format: int
    kind: Literal["full", "delta"]
    topic_id: int
    number: int
    base: int
    parent: str
    attempt: str
    checksum: str


class ManifestKey(NamedTuple):
    """The key under which an object was read: its content must belong there."""

    store_id: bytes
    topic_id: int
    number: int

    @property
    def path(self) -> str:
        return manifest_key(self.topic_id, self.number)

    @property
    def seed(self) -> int:
        numbers = self.topic_id.to_bytes(8, "little") + self.number.to_bytes(8, "little")
        return xxh3_64_intdigest(self.store_id + numbers)


class ManifestVersion(NamedTuple):
    """A manifest, and the facts about its object that the next one needs."""

    manifest: Manifest
    base: int
    checksum: str
    full_size: int
    deltas_size: int


class _Full(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    epoch: int
    term: int
    created_us: int
    floor: int
    oldest: int
    dropped: bool
    deleted: bytes
    removed: tuple[RemovedFile, ...]
    files: tuple[LakeFile, ...]
    schemas: tuple[Schema, ...] = ()


class _Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    epoch: int
    term: int
    created_us: int
    floor: int
    oldest: int
    dropped: bool
    hidden: bytes
    """Seqs that became deleted."""
    purged: bytes
    """Seqs that are no longer in ``deleted``, because no file holds them."""
    removed: tuple[RemovedFile, ...]
    forgotten: tuple[str, ...]
    """Names that are no longer in ``removed``."""
    left: tuple[int, ...]
    """First seqs of files that left."""
    files: tuple[LakeFile, ...]
    """Files that became live."""
    schemas: tuple[Schema, ...] | None = None
    """All schemas; None when they are unchanged."""


_HEADER = msgspec.json.Decoder(ManifestHeader)
_FULL_BODY = msgspec.json.Decoder(_Full)
_DELTA_BODY = msgspec.json.Decoder(_Delta)


def encode(
    manifest: Manifest,
    before: ManifestVersion | None,
    *,
    store_id: bytes,
    attempt: str,
    full: bool = False,
) -> tuple[bytes, ManifestVersion]:
    """The object of a manifest that follows ``before``, or is the first."""
    place = ManifestKey(store_id, manifest.topic_id, manifest.number)
    if before is not None and not full:
        assert manifest.number == before.manifest.number + 1
        body = msgspec.json.encode(_difference(before.manifest, manifest))
        deltas_size = before.deltas_size + len(body)
        too_large = deltas_size > max(before.full_size, _DELTAS_SIZE_MIN)
        if manifest.number - before.base <= DELTAS_MAX and not too_large:
            data, checksum = _object(place, _DELTA, before.base, before.checksum, attempt, body)
            return data, ManifestVersion(
                manifest, before.base, checksum, before.full_size, deltas_size
            )
    body = msgspec.json.encode(_full(manifest))
    parent = before.checksum if before is not None else ""
    data, checksum = _object(place, _FULL, manifest.number, parent, attempt, body)
    return data, ManifestVersion(manifest, manifest.number, checksum, len(body), 0)


def header_of(data: bytes, place: ManifestKey) -> ManifestHeader:
    """The header of an object, whose checksum is verified; raises Corrupt."""
    line, body = _lines(data)
    stored = line[-_CHECKSUM_DIGITS - len(_END) : -len(_END)]
    is_complete = line.endswith(_END) and data.endswith(b"\n") and len(body) > 0
    if not is_complete or stored != _checksum(line, body, place).encode():
        raise Corrupt("a manifest fails its checksum", path=place.path)
    try:
        if (version := msgspec.json.decode(line)["format"]) != FORMAT:
            raise UnsupportedFormat(
                f"{place.path} has manifest format {version}: upgrade to read it"
            )
        header = _HEADER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise Corrupt(f"a manifest cannot be read ({error})", path=place.path) from error
    if (header.topic_id, header.number) != (place.topic_id, place.number):
        raise Corrupt("a manifest is in another's place", path=place.path)
    is_full = header.base == header.number
    if is_full != (header.kind == _FULL) or not 1 <= header.base <= header.number:
        raise Corrupt(f"a manifest builds on number {header.base}", path=place.path)
    return header


def apply_object(
    before: ManifestVersion | None, data: bytes, place: ManifestKey
) -> ManifestVersion:
    """Apply an object to the version before it. A full object needs none before it."""
    header = header_of(data, place)
    if before is not None and header.parent != before.checksum:
        raise Corrupt("a manifest does not follow the one before it", path=place.path)
    body = _lines(data)[1]
    try:
        if header.kind == _FULL:
            manifest = _from_full(_FULL_BODY.decode(body), place)
            version = ManifestVersion(manifest, header.number, header.checksum, len(body) - 1, 0)
        else:
            if before is None or before.base != header.base:
                raise ValueError("a delta without its base")
            manifest = _apply_delta(before.manifest, _DELTA_BODY.decode(body))
            size = before.deltas_size + len(body) - 1
            version = ManifestVersion(
                manifest, header.base, header.checksum, before.full_size, size
            )
    except (msgspec.MsgspecError, ValueError, IndexError, KeyError) as error:
        raise Corrupt(f"a manifest cannot be read ({error})", path=place.path) from error
    return version


def _object(
    place: ManifestKey,
    kind: Literal["full", "delta"],
    base: int,
    parent: str,
    attempt: str,
    body: bytes,
) -> tuple[bytes, str]:
    header = ManifestHeader(
        format=FORMAT,
        kind=kind,
        topic_id=place.topic_id,
        number=place.number,
        base=base,
        parent=parent,
        attempt=attempt,
        checksum="0" * _CHECKSUM_DIGITS,
    )
    line = msgspec.json.encode(header)
    body += b"\n"
    checksum = _checksum(line, body, place)
    start = line[: -_CHECKSUM_DIGITS - len(_END)]
    return b"".join((start, checksum.encode(), _END, b"\n", body)), checksum


def _lines(data: bytes) -> tuple[bytes, memoryview]:
    """Both lines, the second one as a view: it may be large. Without a newline it is empty."""
    size = data.find(b"\n") if b"\n" in data[:_HEADER_SIZE_MAX] else len(data)
    return data[:size], memoryview(data)[size + 1 :]


def _checksum(line: bytes, body: bytes | memoryview, place: ManifestKey) -> str:
    digest = xxh3_64(line[: -_CHECKSUM_DIGITS - len(_END)], seed=place.seed)
    digest.update(body)
    return digest.hexdigest()


def _full(manifest: Manifest) -> _Full:
    return _Full(
        name=manifest.name,
        epoch=manifest.epoch,
        term=manifest.term,
        created_us=manifest.created_us,
        floor=manifest.floor,
        oldest=manifest.oldest,
        dropped=manifest.dropped,
        deleted=_encode_bitmap(manifest.deleted),
        removed=manifest.removed,
        files=manifest.files,
        schemas=manifest.schemas,
    )


def _from_full(body: _Full, place: ManifestKey) -> Manifest:
    problem = find_disorder(body.files)
    if problem:
        raise ValueError(problem)
    return Manifest(
        number=place.number,
        topic_id=place.topic_id,
        name=body.name,
        epoch=body.epoch,
        term=body.term,
        created_us=body.created_us,
        floor=body.floor,
        oldest=body.oldest,
        files=body.files,
        deleted=_decode_bitmap(body.deleted),
        removed=body.removed,
        dropped=body.dropped,
        schemas=body.schemas,
    )


def _difference(old: Manifest, new: Manifest) -> _Delta:
    left, added = difference(old.files, new.files)
    old_names = {entry.name for entry in old.removed}
    new_names = {entry.name for entry in new.removed}
    old_hidden, new_hidden = old.deleted or BitMap64(), new.deleted or BitMap64()
    return _Delta(
        epoch=new.epoch,
        term=new.term,
        created_us=new.created_us,
        floor=new.floor,
        oldest=new.oldest,
        dropped=new.dropped,
        hidden=_encode_bitmap(new_hidden - old_hidden),
        purged=_encode_bitmap(old_hidden - new_hidden),
        removed=tuple(entry for entry in new.removed if entry.name not in old_names),
        forgotten=tuple(entry.name for entry in old.removed if entry.name not in new_names),
        left=tuple(file.first_seq for file in left),
        files=tuple(added),
        schemas=None if new.schemas == old.schemas else new.schemas,
    )


def _apply_delta(old: Manifest, delta: _Delta) -> Manifest:
    left = set(delta.left)
    files = list(old.files)
    if left:
        files = [file for file in files if file.first_seq not in left]
    if len(files) + len(left) != len(old.files):
        raise ValueError("a file left that was not live")
    merged, problem = merge(files, delta.files)
    if problem:
        raise ValueError(problem)
    removed = {entry.name: entry for entry in old.removed}
    for name in delta.forgotten:
        del removed[name]
    removed.update((entry.name, entry) for entry in delta.removed)
    hidden = (old.deleted or BitMap64()) - (_decode_bitmap(delta.purged) or BitMap64())
    hidden |= _decode_bitmap(delta.hidden) or BitMap64()
    return Manifest(
        number=old.number + 1,
        topic_id=old.topic_id,
        name=old.name,
        epoch=delta.epoch,
        term=delta.term,
        created_us=delta.created_us,
        floor=delta.floor,
        oldest=delta.oldest,
        files=merged,
        deleted=hidden or None,
        removed=tuple(removed.values()),
        dropped=delta.dropped,
        schemas=old.schemas if delta.schemas is None else delta.schemas,
    )


def _encode_bitmap(seqs: BitMap64 | None) -> bytes:
    if not seqs:
        return b""
    packed = BitMap64(seqs)
    packed.run_optimize()
    return bytes(packed.serialize())


def _decode_bitmap(data: bytes) -> BitMap64 | None:
    return (BitMap64.deserialize(data) or None) if data else None
