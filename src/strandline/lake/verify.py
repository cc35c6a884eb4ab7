"""Reads the objects of a lake and reports what is not as it was written.

Each function yields steps, the number of bytes read or an error, so that a caller can limit the
rate and show progress. Bits also flip in transit: only the second bad response counts as damage. An
object store that is unreachable raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from xxhash import xxh3_128

from strandline.errors import Corrupt, NotFound, UnknownTopic, UnsupportedFormat
from strandline.lake import object_keys, topic_names
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.manifest import fencing, manifest_codec
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_codec import ManifestVersion
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.platform.objectstore.protocol import Objects

VerifyStep: TypeAlias = int | Corrupt
"""The number of bytes that were read, or an error."""

_ATTEMPTS = 2


def check_head(objects: Objects, store_id: bytes) -> Iterator[VerifyStep]:
    """Check the identity of the lake, its terms and its markers."""

    def identity(data: bytes) -> None:
        owner = bytes.fromhex(fencing.decode_identity(data, objects.name).store_id)
        if owner != store_id:
            raise Corrupt(fencing.foreign_lake_reason(owner, store_id), path=object_keys.STORE)

    yield from _object(objects, object_keys.STORE, identity)
    numbers = [object_keys.number_of(info.key) or 0 for info in objects.list(object_keys.TERMS)]
    for number in range(1, max(numbers, default=0) + 1):
        key = object_keys.term_key(number)
        yield from _object(objects, key, partial(_term, key, store_id))
    for info in list(objects.list(object_keys.NAMES)):
        yield from _object(objects, info.key, partial(_marker, info.key))


def check_versions(objects: Objects, store_id: bytes, topic_id: int) -> Iterator[VerifyStep]:
    """Check every retained manifest of a topic, each alone and as a chain."""
    history = ManifestHistory(objects, store_id, topic_id)
    listed = [
        number
        for info in objects.list(object_keys.manifest_folder(topic_id))
        if (number := object_keys.number_of(info.key)) is not None
    ]
    newest, error = newest_or_error(objects, store_id, topic_id)
    first, last = min(listed, default=0), max(listed, default=0)
    if newest is not None:
        first, last = newest.oldest, newest.number
    has_error = False
    version: ManifestVersion | None = None
    for number in range(first, last + 1):
        previous, key = version, history.manifest_key(number)
        version, bodies = None, list[bytes]()
        for step in _object(objects, key.path, partial(_header, key, bodies)):
            has_error = has_error or isinstance(step, Corrupt)
            yield step
        try:
            version = _follow(previous, bodies, key)
        except Corrupt as damage:
            has_error = True
            yield damage
    if error is not None and not has_error:
        yield error
    if newest is not None:
        yield from _check_implied(objects, store_id, newest)


def _check_implied(objects: Objects, store_id: bytes, newest: Manifest) -> Iterator[VerifyStep]:
    """Check the objects that a manifest implies: no listing would show that one is missing."""
    if newest.term:
        key = object_keys.term_key(newest.term)
        yield from _object(objects, key, partial(_term, key, store_id))
    key = object_keys.name_key(newest.name, newest.topic_id)
    yield from _object(objects, key, partial(_marker, key))


def check_file(reader: LakeFileReader, file: LakeFile) -> Iterator[VerifyStep]:
    """Check all bytes of a data file against the hash in its manifest."""
    problem: Corrupt | None = None
    for _ in range(_ATTEMPTS):
        hasher = xxh3_128()
        try:
            for part in reader.parts():
                hasher.update(part)
                yield len(part)
        except Corrupt as error:
            problem = error
            continue
        if hasher.hexdigest() == file.content:
            return
        problem = Corrupt(
            "a lake file has other bytes than were written",
            path=reader.label,
            first_seq=file.first_seq,
            last_seq=file.last_seq,
        )
    assert problem is not None
    yield problem


def newest_or_error(
    objects: Objects, store_id: bytes, topic_id: int
) -> tuple[Manifest | None, Corrupt | None]:
    """The newest manifest of a topic, read without earlier knowledge, or the error."""
    try:
        return ManifestHistory(objects, store_id, topic_id).newest().manifest, None
    except (UnknownTopic, NotFound) as error:
        folder = object_keys.manifest_folder(topic_id)
        return None, Corrupt(f"manifests are missing ({error})", path=folder)
    except Corrupt as error:
        return None, error


def topics_in(objects: Objects) -> list[int]:
    """Ids of the topics that are in a lake."""
    found = {info.key.split("/")[1] for info in objects.list("topics")}
    return sorted(int(text, 16) for text in found)


def _object(objects: Objects, key: str, decode: Callable[[bytes], None]) -> Iterator[VerifyStep]:
    problem = Corrupt("an object is missing", path=key)
    for _ in range(_ATTEMPTS):
        try:
            data = objects.get(key)
            decode(data)
        except NotFound:
            problem = Corrupt("an object is missing", path=key)
        except UnsupportedFormat as error:
            problem = Corrupt(str(error), path=key)
        except Corrupt as error:
            problem = error
        else:
            yield len(data)
            return
    yield problem


def _term(key: str, store_id: bytes, data: bytes) -> None:
    fencing.decode_term(data, key, store_id)


def _marker(key: str, data: bytes) -> None:
    topic_names.decode_marker(data, key)


def _header(key: manifest_codec.ManifestKey, bodies: list[bytes], data: bytes) -> None:
    manifest_codec.header_of(data, key)
    bodies.append(data)


def _follow(
    previous: ManifestVersion | None, bodies: list[bytes], key: manifest_codec.ManifestKey
) -> ManifestVersion | None:
    """The version with this number; None after a damaged one, until a full one follows."""
    if not bodies:
        return None
    header = manifest_codec.header_of(bodies[0], key)
    if previous is None and header.base != key.number:
        return None
    return manifest_codec.apply_object(previous, bodies[0], key)
