"""A bound query: names and literals are resolved and checked by ``binding.py``. Pure.

It does not refer to the text of the command, and all of it can be encoded.

**Rows.** A query of one event is over its rows. A sequence is over matches: for every row of the
first event, the row of the second that the step selects; for that one, the row of the third; and
so on. If a step finds no row there is no match.

    followed    the earliest row with a time at or after the one before; of equal times the one
                with the smallest (ts, seq). After a row of the same event, one with a larger
                (time, ts, seq): no row follows itself
    preceded    the latest row with a time strictly before the previous one; of equal times the
                one with the largest (ts, seq)
    within_us   and no farther away than this, both ends included

Rows match only with the same value of ``link``; null matches nothing. A row may be in
several matches.

**Conditions.** ``BoundEvent.where`` filters rows before steps select them: FOR, SINCE, and the
parts of WHERE about one event. ``cross`` filters the matches. Values are as in the header of
``views/table/condition.py``. In ``where`` the event of a comparison is "", in ``cross`` it is the
name of the event in this query.

**Results.** Without aggregates the columns are ``columns``, a row for each row or match. With them
they are ``bucket`` (when ``per`` is set, a time: ``periods.py``), ``by`` and ``aggregates``, a
row for each group; without BY and PER exactly one, even over nothing. ``per`` uses the time of
the first event. LIMIT and OFFSET count rows of the result.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from strandline.query.language.ast import Direction
from strandline.query.language.periods import DEFAULT_CALENDAR, Calendar, Period
from strandline.schema import FieldType, Schema
from strandline.views.table.condition import Condition

Function = Literal["count", "count_unique", "total", "avg", "min", "max", "scaled_total"]
"""``scaled_total`` is only in partial aggregates: the total of f64 values divided by
``sql_dialect.SCALE``."""

CORE_KINDS = {"seq": FieldType("u64"), "ts": FieldType("datetime"), "context": FieldType("string")}
"""The types of the columns that every table has, in their order."""

BUCKET = "bucket"


class Column(NamedTuple):
    """A column of one of the events."""

    event: int
    """Its index in ``BoundQuery.events``; -1 when only the name is used."""
    field: str
    """As in files: seq, ts, context or the column of a field (``schema.column_of``)."""
    name: str
    """The name in the result: the field, in a sequence ``event.field``."""


class BoundAggregate(msgspec.Struct, frozen=True, kw_only=True):
    """One aggregate over rows. ``count`` of a column counts values that are not null."""

    function: Function
    column: Column | None
    """None: count rows."""
    name: str
    """count, total_amount; in a sequence total_pay.amount."""


class BoundEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the query."""

    name: str
    """The event's type: the table's name."""
    called: str
    """The name in this query: its type; the second of the same type gets a number, ``a2``."""
    schema: Schema
    time: str = "ts"
    """The column with the time of the event: ts, or a datetime or date field. ``where`` leaves out
    rows where it is null."""
    where: Condition | None = None

    def kinds(self) -> dict[str, FieldType]:
        """The type of each column by its name in files, those of every table first."""
        return CORE_KINDS | self.schema.columns()


class BoundStep(msgspec.Struct, frozen=True, kw_only=True):
    """The relation of an event of a sequence to the one before it."""

    direction: Direction
    within_us: int | None = None


class BoundQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query that can be run."""

    kind: Literal["query", "replay", "replay_all", "delete"] = "query"
    """replay: rows of the one event of the command, in the order of their appends. replay_all: rows
    of all ``events``, of any number; the result is described in ``query/execute/replay.py``.
    delete: rows of the one event that ``where`` holds for."""
    events: tuple[BoundEvent, ...]
    steps: tuple[BoundStep, ...] = ()
    """One less than events in a sequence; else empty."""
    link: str | None = None
    """The column that rows of a sequence share, and every event has: ``context``, or another."""
    cross: Condition | None = None
    """The parts of WHERE that are about several events."""
    columns: tuple[Column, ...] = ()
    """Columns of the result, in order; () with aggregates. In a replay of all events each column
    occurs once, with the first event that has it."""
    aggregates: tuple[BoundAggregate, ...] = ()
    per: Period | None = None
    by: tuple[Column, ...] = ()
    order_by: Column | None = None
    """With aggregates, a column of the result by its name; else any column of the events."""
    descending: bool = False
    limit: int | None = None
    """0 returns no rows."""
    offset: int = 0
    calendar: Calendar = DEFAULT_CALENDAR

    @property
    def is_sequence(self) -> bool:
        return bool(self.steps)

    @property
    def time(self) -> tuple[str, ...]:
        """The time column of each event."""
        return tuple(event.time for event in self.events)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result, in order."""
        if not self.aggregates:
            return tuple(column.name for column in self.columns)
        bucket = (BUCKET,) if self.per else ()
        groups = tuple(column.name for column in self.by)
        return (*bucket, *groups, *(aggregate.name for aggregate in self.aggregates))
