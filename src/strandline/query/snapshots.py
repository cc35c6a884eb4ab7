"""The tables of one question, as they were at one moment.

A question is bound to the schema of the very snapshot that it reads: a DEFINE in between changes
neither. Of several tables all are seen at one position (``query/sql/as_of.py`` says how it is
found), so that no event of a sequence is there without one that was appended before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from strandline.errors import Invalid, Unavailable, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.query.language.bound_ast import Bound
from strandline.query.sql.as_of import now
from strandline.schema import Schema
from strandline.views.table.table import Table
from strandline.views.table.table_snapshot import PinnedTable

_LOOKS_MAX = 100


class Store(Protocol):
    """What is needed of a store."""

    def existing_topic(self, name: str) -> Topic: ...

    def table(self, name: str, **options: object) -> Table: ...


class Sight:
    """Tables as one question sees them. Owned by one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, PinnedTable] = {}

    def schema(self, event: str) -> Schema | None:
        """Of an event that is defined."""
        try:
            views = self._store.existing_topic(event).config.views
        except (Invalid, UnknownTopic):
            return None
        if views.table is None:
            return None
        schema = self.snapshot(event).schema
        return schema if schema.version else None

    def snapshot(self, event: str) -> PinnedTable:
        if event not in self._seen:
            self._seen[event] = self._store.table(event).snapshot()
        return self._seen[event]

    def at_one_moment(self, events: set[str]) -> bool:
        """See these again, all at one position; False when a schema has changed since."""
        before = {event: self._seen[event].schema for event in events}
        heads = now({event: self._store.existing_topic(event) for event in events}).heads
        for event in events:
            self._seen[event] = self._store.table(event).snapshot(heads[event])
        return all(self._seen[event].schema == schema for event, schema in before.items())


def bound_to_sight(
    store: Store, bind: Callable[[Callable[[str], Schema | None]], Bound]
) -> tuple[Bound, Sight]:
    """A question, and the tables that it was bound to."""
    for _ in range(_LOOKS_MAX):
        sight = Sight(store)
        bound = bind(sight.schema)
        tables = {event.name for event in bound.events}
        if len(tables) < 2 or sight.at_one_moment(tables):
            return bound, sight
    raise Unavailable("the events are defined anew all the time: try again")
