"""Reads the objects of a lake and tells what is not as it was written.

Each function goes in steps: how many bytes were read, or what is wrong, so that a caller can keep a
pace and show progress. Bits flip on the way too: only a second bad answer is believed. A store that
cannot be reached raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from xxhash import xxh3_128

from strandline.errors import Corrupt, NewerFormat, NotFound, UnknownTopic
from strandline.lake import object_keys, topic_names
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.manifest import fencing, manifest_codec
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_codec import Version
from strandline.lake.manifest.manifest_history import History
from strandline.platform.objectstore.protocol import Objects

Step: TypeAlias = int | Corrupt
"""So many bytes were read, or something is wrong."""

_TRIES = 2


def check_head(objects: Objects, store_id: bytes) -> Iterator[Step]:
    """Whose lake it is, its terms and its names."""

    def identity(data: bytes) -> None:
        told = bytes.fromhex(fencing.decode_identity(data, objects.name).store_id)
        if told != store_id:
            raise Corrupt(fencing.of_another_lake(told, store_id), path=object_keys.STORE)

    yield from _object(objects, object_keys.STORE, identity)
    numbers = [object_keys.number_of(info.key) or 0 for info in objects.list(object_keys.TERMS)]
    for number in range(1, max(numbers, default=0) + 1):
        key = object_keys.term_key(number)
        yield from _object(objects, key, partial(_term, key, store_id))
    for info in list(objects.list(object_keys.NAMES)):
        yield from _object(objects, info.key, partial(_marker, info.key))


def check_versions(objects: Objects, store_id: bytes, topic_id: int) -> Iterator[Step]:
    """Every manifest of a topic that is kept: each for itself, and as a chain."""
    history = History(objects, store_id, topic_id)
    listed = [
        number
        for info in objects.list(object_keys.manifest_folder(topic_id))
        if (number := object_keys.number_of(info.key)) is not None
    ]
    newest, error = newest_of(objects, store_id, topic_id)
    first, last = min(listed, default=0), max(listed, default=0)
    if newest is not None:
        first, last = newest.oldest, newest.number
    found = False
    version: Version | None = None
    for number in range(first, last + 1):
        before, place = version, history.place(number)
        version, good = None, list[bytes]()
        for step in _object(objects, place.path, partial(_header, place, good)):
            found = found or isinstance(step, Corrupt)
            yield step
        try:
            version = _follow(before, good, place)
        except Corrupt as damage:
            found = True
            yield damage
    if error is not None and not found:
        yield error
    if newest is not None:
        yield from _told_by(objects, store_id, newest)


def _told_by(objects: Objects, store_id: bytes, newest: Manifest) -> Iterator[Step]:
    """What must be there because a manifest is: no listing would tell that it is missing."""
    if newest.term:
        key = object_keys.term_key(newest.term)
        yield from _object(objects, key, partial(_term, key, store_id))
    key = object_keys.name_key(newest.name, newest.topic_id)
    yield from _object(objects, key, partial(_marker, key))


def check_file(reader: LakeFileReader, file: LakeFile) -> Iterator[Step]:
    """All bytes of a data file against the hash that its manifest tells."""
    problem: Corrupt | None = None
    for _ in range(_TRIES):
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


def newest_of(
    objects: Objects, store_id: bytes, topic_id: int
) -> tuple[Manifest | None, Corrupt | None]:
    """The newest manifest of a topic as a newcomer reads it, or why that cannot be."""
    try:
        return History(objects, store_id, topic_id).newest().manifest, None
    except (UnknownTopic, NotFound) as error:
        folder = object_keys.manifest_folder(topic_id)
        return None, Corrupt(f"manifests are missing ({error})", path=folder)
    except Corrupt as error:
        return None, error


def topics_in(objects: Objects) -> list[int]:
    """Ids of the topics that are in a lake."""
    found = {info.key.split("/")[1] for info in objects.list("topics")}
    return sorted(int(text, 16) for text in found)


def _object(objects: Objects, key: str, decode: Callable[[bytes], None]) -> Iterator[Step]:
    problem = Corrupt("an object is missing", path=key)
    for _ in range(_TRIES):
        try:
            data = objects.get(key)
            decode(data)
        except NotFound:
            problem = Corrupt("an object is missing", path=key)
        except NewerFormat as error:
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
    topic_names.decode(data, key)


def _header(place: manifest_codec.Place, good: list[bytes], data: bytes) -> None:
    manifest_codec.header_of(data, place)
    good.append(data)


def _follow(
    before: Version | None, good: list[bytes], place: manifest_codec.Place
) -> Version | None:
    """The version at a place; None behind a damaged one, until a full one follows."""
    if not good:
        return None
    header = manifest_codec.header_of(good[0], place)
    if before is None and header.base != place.number:
        return None
    return manifest_codec.follow(before, good[0], place)
