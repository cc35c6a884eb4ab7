"""The routers of a store, kept in an internal topic: definitions, and how far each has come.

    key    name of the router
    tag    "put" a definition with its position, "at" a newer position, "rm" it is gone
    data   JSON

The newest record of a name counts. When most records are old news, all that is known is written
again as one batch and the older records are deleted; a crash between the two changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from strandline.errors import Corrupt
from strandline.log.topic.topic import Topic
from strandline.routers.definition import Router

TOPIC = "strandline.routers"
_OLD_NEWS_MIN = 1_000
_PAGE = 1_000


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A router as it is stored."""

    router: Router
    id: str
    """Its own for good: a router of the same name that is made later has another."""
    source_id: int
    dest_id: int
    cursor: int
    """The seq of the source up to which everything was looked at."""
    forwarded_total: int = 0

    @property
    def producer(self) -> str:
        """The name under which it numbers its batches."""
        return f"router:{self.id}"


class _Position(msgspec.Struct, frozen=True):
    id: str
    cursor: int
    forwarded_total: int


class Topics(Protocol):
    """The topics of a store."""

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def topics(self, prefix: str = "") -> list[str]: ...


class Ledger:
    """What is stored of the routers. Owned by their lock."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._topic_or_none: Topic | None = None

    def load(self) -> dict[str, Kept]:
        """All routers by name; nothing is made when there never was one."""
        found: dict[str, Kept] = {}
        if TOPIC not in self._topics.topics(TOPIC):
            return found
        topic = self._topic_or_none = self._topics.existing_topic(TOPIC)
        after = 0
        while True:
            page = topic.read(after, _PAGE)
            for record in page.records:
                _fold(found, (record.key or b"").decode(), record.tag, record.data)
            after = page.next
            if page.caught_up:
                return found

    def put(self, kept: Kept) -> None:
        """Returns once it is durable."""
        data = msgspec.json.encode(kept)
        self._topic().append(data, key=kept.router.name, tag="put")

    def remove(self, names: Iterable[str]) -> None:
        keys = list(names)
        if keys:
            self._topic().append_many([b"{}"] * len(keys), keys=keys, tags=["rm"] * len(keys))

    def note(self, moved: list[Kept]) -> None:
        """Newer positions."""
        positions = [_Position(kept.id, kept.cursor, kept.forwarded_total) for kept in moved]
        self._topic().append_many(
            [msgspec.json.encode(position) for position in positions],
            keys=[kept.router.name for kept in moved],
            tags=["at"] * len(moved),
        )

    def tidy(self, known: list[Kept]) -> None:
        """Write everything anew, without what is old news, when that has become much."""
        topic = self._topic()
        if topic.head_seq - topic.statistics().earliest_seq <= _OLD_NEWS_MIN + 8 * len(known):
            return
        first_seq = topic.head_seq + 1
        if known:
            first_seq = topic.append_many(
                [msgspec.json.encode(kept) for kept in known],
                keys=[kept.router.name for kept in known],
                tags=["put"] * len(known),
            ).first_seq
        topic.delete(before=first_seq)

    def _topic(self) -> Topic:
        # Kept: when the store closes it hands out no more, and the last positions come then.
        if self._topic_or_none is None:
            self._topic_or_none = self._topics.topic(TOPIC, durability="fsync")
        return self._topic_or_none


def _fold(found: dict[str, Kept], name: str, tag: str | None, data: bytes) -> None:
    try:
        if tag == "put":
            found[name] = msgspec.json.decode(data, type=Kept)
        elif tag == "rm":
            found.pop(name, None)
        elif tag == "at":
            position = msgspec.json.decode(data, type=_Position)
            kept = found.get(name)
            if kept is not None and kept.id == position.id:
                found[name] = msgspec.structs.replace(
                    kept, cursor=position.cursor, forwarded_total=position.forwarded_total
                )
    except msgspec.DecodeError as error:
        raise Corrupt(f"router {name!r} cannot be read ({error})", path=f"topic {TOPIC}") from error
