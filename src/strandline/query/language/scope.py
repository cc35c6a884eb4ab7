"""The names that a query may use: its events, and their columns. Pure.

In a sequence a field is written with its event, ``view.page``; without one, exactly one event must
have it. The field that links the events is the same in all of them and needs no event. When an
event occurs twice, the second is named with a number: ``QUERY a FOLLOWED BY a WHERE a2.x = 1``.

``timestamp`` is ``ts``, unless an event has a field of that name. ``__seq``, ``__ts`` and
``__context`` are always the system columns. Where an event has a field ``seq``, that name is the
field (``schema.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.query.language.ast import Name
from strandline.query.language.bound_ast import CORE_KINDS, Column
from strandline.query.language.errors import QueryError, did_you_mean, join_words, nearest_word
from strandline.schema import SYSTEM_PREFIX, FieldType, Schema, column_of, shown_columns

ALL_EVENTS = -1
_TIMESTAMP, _TS = "timestamp", "ts"


class ScopeEvent(NamedTuple):
    """An event of the query, and the types of its columns."""

    name: str
    called: str
    schema: Schema
    kinds: dict[str, FieldType]
    """The type of each column by its name in files."""
    shown: dict[str, str]
    """The name of each column in results, by its name in files."""


class NameScope:
    """The events of one query. Immutable; safe from many threads."""

    def __init__(self, events: Sequence[ScopeEvent], text: str, link: str | None = None) -> None:
        self.events = tuple(events)
        self.text = text
        self._link = link

    @property
    def is_sequence(self) -> bool:
        return len(self.events) > 1

    def error(self, message: str, at: int, hint: str = "") -> QueryError:
        return QueryError(message, self.text, at, hint=hint)

    def find(self, field: str, prefix: str, at: int) -> tuple[int, str]:
        """The index of the event that has a field, and the column's name in files.

        ALL_EVENTS is the link field without an event: its value is the same in all events.
        """
        if prefix:
            place = self._place(prefix, at)
            return place, self.column(self.events[place], field, at)
        owners = [place for place, event in enumerate(self.events) if _column_of(event, field)]
        if not owners:
            raise self._unknown(field, at)
        column = _column_of(self.events[owners[0]], field) or field
        if len(owners) == 1:
            return owners[0], column
        if self._link is not None and all(
            _column_of(self.events[place], field) == _column_of(self.events[place], self._link)
            for place in owners
        ):
            return ALL_EVENTS, column
        called = [f"{self.events[place].called}.{field}" for place in owners]
        raise self.error(f"field {field!r} is in several events", at, f"write {join_words(called)}")

    def result_column(self, name: Name) -> Column:
        """The column of a result for a name."""
        place, column = self.find(name.text, name.event, name.at)
        place = max(place, 0)
        called = self.events[place].called
        return Column(place, column, f"{called}.{name.text}" if self.is_sequence else name.text)

    def find_column(self, event: ScopeEvent, field: str) -> str | None:
        """The column's name in files, None when the event does not have the field."""
        return _column_of(event, field)

    def column(self, event: ScopeEvent, field: str, at: int) -> str:
        """The column's name in files, or an error when the event does not have the field."""
        column = _column_of(event, field)
        if column is None:
            hint = did_you_mean(field, list(event.shown.values()), called="its fields are")
            raise self.error(f"{event.name} has no field {field!r}", at, hint)
        return column

    def kind(self, column: Column) -> FieldType:
        return self.events[column.event].kinds[column.field]

    def _place(self, prefix: str, at: int) -> int:
        called = [event.called for event in self.events]
        if prefix not in called:
            raise self.error(
                f"{prefix!r} is not an event of this query",
                at,
                did_you_mean(prefix, called, called="its events are"),
            )
        return called.index(prefix)

    def _unknown(self, field: str, at: int) -> QueryError:
        if not self.is_sequence:
            self.column(self.events[0], field, at)
        known = {name: event for event in reversed(self.events) for name in event.shown.values()}
        nearest = nearest_word(field, known)
        hint = f"did you mean '{known[nearest].called}.{nearest}'?" if nearest else ""
        names = join_words(list(dict.fromkeys(event.name for event in self.events)), "and")
        return self.error(f"{names} have no field {field!r}", at, hint)


def event_of(name: str, called: str, schema: Schema) -> ScopeEvent:
    return ScopeEvent(name, called, schema, CORE_KINDS | schema.columns(), shown_columns(schema))


def event_names(names: Sequence[str]) -> list[str]:
    """The name of each event in a query: repeated events get a number, ``a``, ``a2``, ``a3``."""
    event_names = set(names)
    used: set[str] = set()
    called = []
    for name in names:
        unique = name
        number = 2
        while unique in used or (unique != name and unique in event_names):
            unique = f"{name}{number}"
            number += 1
        used.add(unique)
        called.append(unique)
    return called


def _column_of(event: ScopeEvent, field: str) -> str | None:
    """The column of a name, None when the event does not have it."""
    if field in event.schema.fields:
        return column_of(field)
    plain = field.removeprefix(SYSTEM_PREFIX)
    if plain in CORE_KINDS and field in (event.shown[plain], f"{SYSTEM_PREFIX}{plain}"):
        return plain
    return _TS if field == _TIMESTAMP else None
