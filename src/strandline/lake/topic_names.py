"""Finds a topic of the lake by its name.

A marker is written behind a topic's first manifest and never deleted. So it is also the proof that
a topic has been here, whatever a listing says: a lake that looks empty is not taken for a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from strandline.errors import AlreadyThere, Corrupt, NotFound
from strandline.lake import object_keys
from strandline.platform.objectstore.protocol import Objects


class Marker(msgspec.Struct, frozen=True):
    """What a marker says. It is the same whoever writes it."""

    name: str
    topic_id: int


def mark(objects: Objects, name: str, topic_id: int) -> None:
    """Make the topic findable. Marking twice is fine."""
    body = msgspec.json.encode(Marker(name, topic_id))
    with contextlib.suppress(AlreadyThere):
        objects.create(object_keys.name_key(name, topic_id), body)


def is_marked(objects: Objects, name: str, topic_id: int) -> bool:
    try:
        objects.head(object_keys.name_key(name, topic_id))
    except NotFound:
        return False
    return True


def topics_named(objects: Objects, name: str) -> list[int]:
    """Ids of the topics that have or had this name, in the order in which they were made."""
    start = object_keys.name_start(name)
    found = []
    for info in objects.list(object_keys.NAMES, start_after=start):
        if not info.key.startswith(start):
            break
        marker = decode(objects.get(info.key), info.key)
        if marker.name == name:
            found.append(marker.topic_id)
    return found


def every_topic(objects: Objects) -> Iterator[Marker]:
    """All topics that are or were here; one request each."""
    return (decode(objects.get(info.key), info.key) for info in objects.list(object_keys.NAMES))


def decode(data: bytes, key: str) -> Marker:
    """What a marker says; Corrupt when it is not as it was written."""
    try:
        marker = msgspec.json.decode(data, type=Marker)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a topic's marker cannot be read ({error})", path=key) from error
    whole = msgspec.json.encode(marker) == data
    if not whole or object_keys.name_key(marker.name, marker.topic_id) != key:
        raise Corrupt("a topic's marker is not the one that belongs here", path=key)
    return marker
