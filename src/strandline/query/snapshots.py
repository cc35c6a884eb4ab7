"""Snapshots of the tables of one query.

A query is bound to the schema of the snapshot that it reads: a DEFINE in between changes neither.
Several tables are read at one position (determined as in ``query/sql/as_of.py``), so that no event
of a sequence is visible without the events that were appended before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from strandline.errors import Invalid, Unavailable, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.sql.as_of import now
from strandline.schema import Schema
from strandline.views.table.table import Table
from strandline.views.table.table_snapshot import PinnedTable

_ATTEMPTS_MAX = 100


class _TableStore(Protocol):
    """The operations of a store that are needed."""

    def existing_topic(self, name: str) -> Topic: ...

    def table(self, name: str, **options: object) -> Table: ...


class QuerySnapshots:
    """The snapshots of one query. Owned by one thread."""

    def __init__(self, store: _TableStore) -> None:
        self._store = store
        self._by_event: dict[str, PinnedTable] = {}

    def schema(self, event: str) -> Schema | None:
        """The schema of an event, None when it is not defined."""
        try:
            views = self._store.existing_topic(event).config.views
        except (Invalid, UnknownTopic):
            return None
        if views.table is None:
            return None
        schema = self.snapshot(event).schema
        return schema if schema.version else None

    def snapshot(self, event: str) -> PinnedTable:
        if event not in self._by_event:
            self._by_event[event] = self._store.table(event).snapshot()
        return self._by_event[event]

    def retake_at_one_position(self, events: set[str]) -> bool:
        """Take these snapshots again, all at one position; False when a schema has changed."""
        before = {event: self._by_event[event].schema for event in events}
        heads = now({event: self._store.existing_topic(event) for event in events}).heads
        for event in events:
            self._by_event[event] = self._store.table(event).snapshot(heads[event])
        return all(self._by_event[event].schema == schema for event, schema in before.items())


def bind_to_snapshots(
    store: _TableStore, bind: Callable[[Callable[[str], Schema | None]], BoundQuery]
) -> tuple[BoundQuery, QuerySnapshots]:
    """The bound query, and the snapshots that it was bound to."""
    for _ in range(_ATTEMPTS_MAX):
        snapshots = QuerySnapshots(store)
        bound = bind(snapshots.schema)
        tables = {event.name for event in bound.events}
        if len(tables) < 2 or snapshots.retake_at_one_position(tables):
            return bound, snapshots
    raise Unavailable("the schemas of the events keep changing: try again")
