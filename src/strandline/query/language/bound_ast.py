"""A question whose names and literals are checked: what ``binding.py`` makes of a command. Pure.

Nothing in here needs the text of the command any more, and all of it can be encoded.

**Rows.** A question to one event is over its rows. A sequence is over matches: for every row of
the first event, the row of the second that the step picks; for that one, the row of the third; and
so on. If a step finds nothing there is no match.

    followed    the earliest row with a time at or behind the one before; of equal times the one
                with the smallest (ts, seq). Next to a row of the same event, one with a larger
                (time, ts, seq): no row follows itself
    preceded    the latest row with a time strictly in front of the one before; of equal times the
                one with the largest (ts, seq)
    within_us   and no farther away than this, both ends included

Rows match only with the same value of ``link``; null is no value. A row may be in several matches.

**Conditions.** ``BoundEvent.where`` holds before steps look for rows: FOR, SINCE, and what WHERE
says of one event alone. ``cross`` is asked of the matches that were found. Values are as the header
of ``views/table/condition.py`` says. In ``where`` the event of a comparison is "", in ``cross`` it
is what the event is called in this question.

**Results.** Without aggregates the columns are ``columns``, a row for each row or match. With them
they are ``bucket`` (when ``per`` is set, a moment: ``periods.py``), ``by`` and ``aggregates``, a
row for each group; without BY and PER exactly one, even over nothing. ``per`` goes by the time of
the first event. LIMIT and OFFSET count rows of the result.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from strandline.query.language.ast import Direction
from strandline.query.language.periods import PLAIN, Calendar, Period
from strandline.schema import Kind, Schema
from strandline.views.table.condition import Condition

Function = Literal["count", "count_unique", "total", "avg", "min", "max", "scaled_total"]
"""``scaled_total`` is only in partial states: of f64, the total divided by ``dialect.SCALE``."""

CORE_KINDS = {"seq": Kind("u64"), "ts": Kind("datetime"), "context": Kind("string")}
"""Of the columns that every table has, in their order."""

BUCKET = "bucket"


class Column(NamedTuple):
    """A column of one of the events."""

    event: int
    """Its place in ``Bound.events``; -1 when only the name counts."""
    field: str
    """As in files: seq, ts, context or the column of a field (``schema.column_of``)."""
    name: str
    """What it is called in the result: the field, in a sequence ``event.field``."""


class BoundAggregate(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over rows. ``count`` of a column counts values that are not null."""

    function: Function
    column: Column | None
    """None: rows are counted."""
    name: str
    """count, total_amount; in a sequence total_pay.amount."""


class BoundEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the question."""

    name: str
    """The event's type: the table's name."""
    called: str
    """What it is called here: its name; the second of the same kind gets a number, ``a2``."""
    schema: Schema
    time: str = "ts"
    """The column that says when it happened: ts, or a datetime or date field. Rows where it is
    null are left out by ``where`` already."""
    where: Condition | None = None

    def kinds(self) -> dict[str, Kind]:
        """The type of each column by its name in files, those of every table in front."""
        return CORE_KINDS | self.schema.columns()


class BoundStep(msgspec.Struct, frozen=True, kw_only=True):
    """How the next event of a sequence is found from the one before it."""

    direction: Direction
    within_us: int | None = None


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A question that can be answered."""

    kind: Literal["query", "replay", "replay_all", "delete"] = "query"
    """replay: rows of the one event that was named, in the order of their appends. replay_all: rows
    of all ``events``, however many there are; ``query/execute/replay.py`` says how they are shown.
    delete: rows of the one event that ``where`` holds for."""
    events: tuple[BoundEvent, ...]
    steps: tuple[BoundStep, ...] = ()
    """One less than events in a sequence; else none."""
    link: str | None = None
    """The column that rows of a sequence share, and every event has: ``context``, or another."""
    cross: Condition | None = None
    """What WHERE says of several events at once."""
    columns: tuple[Column, ...] = ()
    """Of the result, in order; () with aggregates. In a replay of all events a column is there
    once, and names the first event that has it."""
    aggregates: tuple[BoundAggregate, ...] = ()
    per: Period | None = None
    by: tuple[Column, ...] = ()
    order_by: Column | None = None
    """With aggregates, a column of the result by its name; else any column of the events."""
    descending: bool = False
    limit: int | None = None
    """0 is no rows."""
    offset: int = 0
    calendar: Calendar = PLAIN

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
