"""Definitions and positions of a store's routers, in an internal topic.

    key    name of the router
    tag    "put" a definition with its position, "at" a newer position, "rm" the router is deleted
    data   JSON

The newest record of a name counts. When most records are outdated, all routers are written again as
one batch and the older records are deleted; a crash between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from strandline.errors import Corrupt
from strandline.log.topic.topic import Topic
from strandline.routers.definition import Router

TOPIC = "strandline.routers"
_OUTDATED_MIN = 1_000
_PAGE_RECORDS = 1_000


class StoredRouter(msgspec.Struct, frozen=True, kw_only=True):
    """A stored router."""

    router: Router
    id: str
    """Unique: a later router of the same name has another id."""
    source_id: int
    dest_id: int
    cursor: int
    """The seq of the source up to which the router has read."""
    forwarded_total: int = 0

    @property
    def producer(self) -> str:
        """The producer name of its batches."""
        return f"router:{self.id}"


class _Position(msgspec.Struct, frozen=True):
    id: str
    cursor: int
    forwarded_total: int


class RouterTopics(Protocol):
    """The topics of a store."""

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def topics(self, prefix: str = "") -> list[str]: ...


class RouterStore:
    """Stores routers. Guarded by the routers' lock."""

    def __init__(self, topics: RouterTopics) -> None:
        self._topics = topics
        self._topic_cached: Topic | None = None

    def load(self) -> dict[str, StoredRouter]:
        """Load all routers by name; does not create the topic."""
        routers: dict[str, StoredRouter] = {}
        if TOPIC not in self._topics.topics(TOPIC):
            return routers
        topic = self._topic_cached = self._topics.existing_topic(TOPIC)
        after = 0
        while True:
            page = topic.read(after, _PAGE_RECORDS)
            for record in page.records:
                _apply(routers, (record.key or b"").decode(), record.tag, record.data)
            after = page.next
            if page.caught_up:
                return routers

    def put(self, stored: StoredRouter) -> None:
        """Store a router; return when it is durable."""
        data = msgspec.json.encode(stored)
        self._topic().append(data, key=stored.router.name, tag="put")

    def remove(self, names: Iterable[str]) -> None:
        keys = list(names)
        if keys:
            self._topic().append_many([b"{}"] * len(keys), keys=keys, tags=["rm"] * len(keys))

    def put_positions(self, moved: list[StoredRouter]) -> None:
        """Store newer positions."""
        positions = [
            _Position(stored.id, stored.cursor, stored.forwarded_total) for stored in moved
        ]
        self._topic().append_many(
            [msgspec.json.encode(position) for position in positions],
            keys=[stored.router.name for stored in moved],
            tags=["at"] * len(moved),
        )

    def rewrite_if_large(self, known: list[StoredRouter]) -> None:
        """Write all routers again and delete older records, when there are many outdated ones."""
        topic = self._topic()
        if topic.head_seq - topic.statistics().earliest_seq <= _OUTDATED_MIN + 8 * len(known):
            return
        first_seq = topic.head_seq + 1
        if known:
            first_seq = topic.append_many(
                [msgspec.json.encode(stored) for stored in known],
                keys=[stored.router.name for stored in known],
                tags=["put"] * len(known),
            ).first_seq
        topic.delete(before=first_seq)

    def _topic(self) -> Topic:
        # Cached: a closing store opens no topic, and the last positions are written then.
        if self._topic_cached is None:
            self._topic_cached = self._topics.topic(TOPIC, durability="fsync")
        return self._topic_cached


def _apply(routers: dict[str, StoredRouter], name: str, tag: str | None, data: bytes) -> None:
    try:
        if tag == "put":
            routers[name] = msgspec.json.decode(data, type=StoredRouter)
        elif tag == "rm":
            routers.pop(name, None)
        elif tag == "at":
            position = msgspec.json.decode(data, type=_Position)
            stored = routers.get(name)
            if stored is not None and stored.id == position.id:
                routers[name] = msgspec.structs.replace(
                    stored, cursor=position.cursor, forwarded_total=position.forwarded_total
                )
    except msgspec.DecodeError as error:
        raise Corrupt(f"router {name!r} cannot be read ({error})", path=f"topic {TOPIC}") from error
