"""Markers that find a topic of the lake by its name.

A marker is written after a topic's first manifest and never deleted. So it also proves that a topic
was in the lake, whatever a listing shows: a lake that looks empty is not taken for a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from strandline.errors import Corrupt, NotFound, ObjectExists
from strandline.lake import object_keys
from strandline.platform.objectstore.protocol import Objects


class TopicMarker(msgspec.Struct, frozen=True):
    """The content of a marker. It is the same for every writer."""

    name: str
    topic_id: int


def create_marker(objects: Objects, name: str, topic_id: int) -> None:
    """Create the marker of a topic; a no-op if it exists."""
    body = msgspec.json.encode(TopicMarker(name, topic_id))
    with contextlib.suppress(ObjectExists):
        objects.create(object_keys.name_key(name, topic_id), body)


def has_marker(objects: Objects, name: str, topic_id: int) -> bool:
    try:
        objects.head(object_keys.name_key(name, topic_id))
    except NotFound:
        return False
    return True


def topics_named(objects: Objects, name: str) -> list[int]:
    """Ids of the topics that have or had this name, in the order of their creation."""
    start = object_keys.name_start(name)
    found = []
    for info in objects.list(object_keys.NAMES, start_after=start):
        if not info.key.startswith(start):
            break
        marker = decode_marker(objects.get(info.key), info.key)
        if marker.name == name:
            found.append(marker.topic_id)
    return found


def every_topic(objects: Objects) -> Iterator[TopicMarker]:
    """All topics that are or were in the lake; one request each."""
    return (
        decode_marker(objects.get(info.key), info.key) for info in objects.list(object_keys.NAMES)
    )


def decode_marker(data: bytes, key: str) -> TopicMarker:
    """The content of a marker; Corrupt when it is not as it was written."""
    try:
        marker = msgspec.json.decode(data, type=TopicMarker)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a topic's marker cannot be read ({error})", path=key) from error
    is_intact = msgspec.json.encode(marker) == data
    if not is_intact or object_keys.name_key(marker.name, marker.topic_id) != key:
        raise Corrupt("a topic's marker is not the one that belongs here", path=key)
    return marker
