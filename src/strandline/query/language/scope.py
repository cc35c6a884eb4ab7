"""The names that a question may use: its events, and their columns. Pure.

In a sequence a field goes with its event, ``view.page``; without one it must be of one event alone.
The field that links the events is the same in all of them and needs none. When an event comes
twice, the second is called with a number: ``QUERY a FOLLOWED BY a WHERE a2.x = 1``.

``timestamp`` is ``ts``, unless an event has a field of that name. ``__seq``, ``__ts`` and
``__context`` are always the system columns. Where an event has a field ``seq``, that name is the
field (``schema.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.query.language.ast import Name
from strandline.query.language.bound_ast import CORE_KINDS, Column
from strandline.query.language.errors import Mistake, did_you_mean, near, told
from strandline.schema import SYSTEM_PREFIX, Kind, Schema, column_of, shown_columns

ALL_EVENTS = -1
_TIMESTAMP, _TS = "timestamp", "ts"


class Event(NamedTuple):
    """An event of the question, and the types of its columns."""

    name: str
    called: str
    schema: Schema
    kinds: dict[str, Kind]
    """Of columns by their names in files."""
    shown: dict[str, str]
    """What these columns are called in results."""


class Scope:
    """The events of one question. Immutable; safe from many threads."""

    def __init__(self, events: Sequence[Event], text: str, link: str | None = None) -> None:
        self.events = tuple(events)
        self.text = text
        self._link = link

    @property
    def is_sequence(self) -> bool:
        return len(self.events) > 1

    def mistake(self, message: str, at: int, hint: str = "") -> Mistake:
        return Mistake(message, self.text, at, hint=hint)

    def find(self, field: str, prefix: str, at: int) -> tuple[int, str]:
        """The place of the event that a field is of, and the column's own name.

        ALL_EVENTS is the link without a prefix: it is the same whichever is asked.
        """
        if prefix:
            place = self._place(prefix, at)
            return place, self.column(self.events[place], field, at)
        owners = [place for place, event in enumerate(self.events) if _own(event, field)]
        if not owners:
            raise self._unknown(field, at)
        own = _own(self.events[owners[0]], field) or field
        if len(owners) == 1:
            return owners[0], own
        if self._link is not None and all(
            _own(self.events[place], field) == _own(self.events[place], self._link)
            for place in owners
        ):
            return ALL_EVENTS, own
        called = [f"{self.events[place].called}.{field}" for place in owners]
        raise self.mistake(f"{field!r} is in several events", at, f"write {told(called)}")

    def named(self, name: Name) -> Column:
        """A column for a result."""
        place, own = self.find(name.text, name.event, name.at)
        place = max(place, 0)
        called = self.events[place].called
        return Column(place, own, f"{called}.{name.text}" if self.is_sequence else name.text)

    def has(self, event: Event, field: str) -> str | None:
        """The column's own name, None when the event has no such field."""
        return _own(event, field)

    def column(self, event: Event, field: str, at: int) -> str:
        """The column's own name, in one event that must have it."""
        own = _own(event, field)
        if own is None:
            hint = did_you_mean(field, list(event.shown.values()), called="there are")
            raise self.mistake(f"{event.name} has no field {field!r}", at, hint)
        return own

    def kind(self, column: Column) -> Kind:
        return self.events[column.event].kinds[column.field]

    def _place(self, prefix: str, at: int) -> int:
        called = [event.called for event in self.events]
        if prefix not in called:
            raise self.mistake(
                f"no event of this question is called {prefix!r}",
                at,
                did_you_mean(prefix, called, called="there are"),
            )
        return called.index(prefix)

    def _unknown(self, field: str, at: int) -> Mistake:
        if not self.is_sequence:
            self.column(self.events[0], field, at)
        known = {name: event for event in reversed(self.events) for name in event.shown.values()}
        meant = near(field, known)
        hint = f"did you mean '{known[meant].called}.{meant}'?" if meant else ""
        names = told(list(dict.fromkeys(event.name for event in self.events)), "and")
        return self.mistake(f"{names} have no field {field!r}", at, hint)


def event_of(name: str, called: str, schema: Schema) -> Event:
    return Event(name, called, schema, CORE_KINDS | schema.columns(), shown_columns(schema))


def called_names(names: Sequence[str]) -> list[str]:
    """What events are called in a question: the first by its name, others of it by a number."""
    taken = set(names)
    seen: set[str] = set()
    called = []
    for name in names:
        own = name
        number = 2
        while own in seen or (own != name and own in taken):
            own = f"{name}{number}"
            number += 1
        seen.add(own)
        called.append(own)
    return called


def _own(event: Event, field: str) -> str | None:
    """The column of a name, None when there is none."""
    if field in event.schema.fields:
        return column_of(field)
    plain = field.removeprefix(SYSTEM_PREFIX)
    if plain in CORE_KINDS and field in (event.shown[plain], f"{SYSTEM_PREFIX}{plain}"):
        return plain
    return _TS if field == _TIMESTAMP else None
