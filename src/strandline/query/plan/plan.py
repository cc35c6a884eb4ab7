"""A bound question as a logical plan: what is to be done, before anybody says how. Pure.

A plan is a list of rows that are read (``Scan``, one for each event), and what is done with them:

    one event   rows that fulfil ``where``
    a sequence  matches of rows, then those that fulfil ``cross``
    grouped     by bucket and columns, with figures; or not at all
    ordered     by all of ``order``, so that there is but one right order; then LIMIT and OFFSET

Without ORDER BY a selection is in the order of appends (seq; not if it is large and has no LIMIT,
see ``query/execute/executor.py``), a sequence in the order of its first
event (time, then seq), and groups in the order of bucket and group columns. ORDER BY comes in front
of that. Missing values are last, in both directions.

Inside a plan a column of a single event has its own name; in a sequence the event's is in front of
it, ``pay.amount``. Only columns that are needed are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from strandline.query.language.bound_ast import (
    BUCKET,
    Bound,
    BoundAggregate,
    BoundEvent,
    BoundStep,
    Column,
    Function,
)
from strandline.query.language.periods import Calendar, Period
from strandline.schema import Kind
from strandline.views.table.condition import Condition, Leaf, fields_of, leaves
from strandline.views.table.snapshot import SEQ, Top


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one event."""

    table: str
    """Whose rows."""
    relation: str
    """What the rows are called in SQL, as they are read: maybe more than fulfil ``where``."""
    prefix: str
    """In front of its columns, in the rows of the plan."""
    kinds: dict[str, Kind]
    """Of the columns that are needed, in the order of the table."""
    kept: tuple[str, ...]
    """Columns that are needed once ``where`` holds."""
    time: str
    where: Condition | None
    link: str = ""
    """In a sequence, the column that rows of a match share."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.kinds)


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    column: str
    kind: Kind
    period: Period
    calendar: Calendar


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """An aggregate."""

    function: Function
    column: str | None
    kind: Kind | None
    name: str
    is_wide: bool = False
    """Of f64: whether the sum may be larger than any double on the way to its end."""

    @property
    def is_double(self) -> bool:
        """Whether it is made of a sum of doubles."""
        return (
            self.function in ("total", "avg") and self.kind is not None and self.kind.name == "f64"
        )


class Output(msgspec.Struct, frozen=True):
    """A column as it is called inside, and in the result."""

    column: str
    name: str


class Sort(msgspec.Struct, frozen=True):
    """Of groups by a column of the result, else by one of the plan."""

    column: str
    descending: bool = False


Numbered = Mapping[str, tuple[str, ...]]
"""Columns of enums that come as numbers, the places of their values among these variants."""

NOTHING: Numbered = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A question, logically."""

    scans: tuple[Scan, ...]
    steps: tuple[BoundStep, ...] = ()
    cross: Condition | None = None
    outputs: tuple[Output, ...] = ()
    """Of a selection."""
    bucket: Bucket | None = None
    groups: tuple[Output, ...] = ()
    figures: tuple[Figure, ...] = ()
    order: tuple[Sort, ...] = ()
    order_asked: bool = False
    """By ORDER BY, or because LIMIT needs one."""
    limit: int | None = None
    offset: int = 0
    top: Top | None = None
    """What may be told to whoever reads the rows."""

    @property
    def kinds(self) -> dict[str, Kind]:
        """Of all columns of the plan."""
        return {
            f"{scan.prefix}{field}": kind
            for scan in self.scans
            for field, kind in scan.kinds.items()
        }

    @property
    def needed(self) -> set[str]:
        """Columns of the plan that are needed once rows are selected, or matches found."""
        needed = {output.column for output in (*self.outputs, *self.groups)}
        needed |= {figure.column for figure in self.figures if figure.column}
        needed |= {operand_of(self, leaf)[0] for leaf in leaves(self.cross)}
        if self.bucket:
            needed.add(self.bucket.column)
        if not self.figures:
            needed |= {sort.column for sort in self.order}
        return needed

    @property
    def numbered(self) -> Numbered:
        """Columns of enums of which nobody sees the text before the end: engines group and compare
        numbers several times faster."""
        if self.steps:
            return NOTHING
        shown = {output.column for output in self.outputs}
        if not self.figures:
            shown |= {sort.column for sort in self.order}
        return numbered_enums(self.scans[0], self.scans[0].kinds.keys() - shown)

    @property
    def names(self) -> list[str]:
        """Of the result."""
        if not self.figures:
            return [output.name for output in self.outputs]
        bucket = [BUCKET] if self.bucket else []
        figures = [figure.name for figure in self.figures]
        return [*bucket, *(group.name for group in self.groups), *figures]

    @property
    def order_places(self) -> list[int]:
        """Of groups: the places in the result of the columns that they are ordered by."""
        names = self.names
        return [names.index(sort.column) for sort in self.order]


def numbered_enums(scan: Scan, among: Collection[str]) -> Numbered:
    """The enums among these columns of a scan."""
    kinds = scan.kinds.items()
    return {name: kind.variants for name, kind in kinds if kind.name == "enum" and name in among}


def plan_of(bound: Bound) -> Plan:
    """The plan of a question. Replays of all events have their own way:
    ``query/execute/replay.py``.
    """
    assert bound.steps or len(bound.events) == 1, "several events that are no sequence"
    grouped = bool(bound.aggregates)
    return Plan(
        scans=tuple(_scan(bound, place) for place in range(len(bound.events))),
        steps=bound.steps,
        cross=bound.cross,
        outputs=() if grouped else _outputs(bound, bound.columns),
        bucket=_bucket(bound),
        groups=_outputs(bound, bound.by),
        figures=tuple(_figure(bound, aggregate) for aggregate in bound.aggregates),
        order=_group_order(bound) if grouped else _row_order(bound),
        order_asked=bound.order_by is not None or bound.limit is not None,
        limit=bound.limit,
        offset=bound.offset,
        top=None if grouped else _top(bound),
    )


def widened(plan: Plan) -> Plan:
    """The same question, its sums of doubles without an overflow on the way to their ends."""
    figures = tuple(
        msgspec.structs.replace(figure, is_wide=figure.is_double) for figure in plan.figures
    )
    return msgspec.structs.replace(plan, figures=figures)


def _scan(bound: Bound, place: int) -> Scan:
    event = bound.events[place]
    kept = _kept(bound, event, place)
    # If nothing but how many there are is asked, a column is needed all the same.
    needed = kept | fields_of(event.where) or {SEQ}
    kinds = {name: kind for name, kind in event.kinds().items() if name in needed}
    missing = needed - kinds.keys()
    assert not missing, f"{event.name} has no {sorted(missing)}"
    return Scan(
        table=event.name,
        relation=f"rows{place}",
        prefix=f"{event.called}." if bound.is_sequence else "",
        kinds=kinds,
        kept=tuple(name for name in kinds if name in kept),
        time=event.time,
        where=event.where,
        link=_link(bound, event),
    )


def _kept(bound: Bound, event: BoundEvent, place: int) -> set[str]:
    """The columns of an event that are needed once its own condition holds."""
    asked = [*bound.columns, *bound.by]
    asked += [figure.column for figure in bound.aggregates if figure.column]
    if bound.order_by and not bound.aggregates:
        asked.append(bound.order_by)
    kept = {column.field for column in asked if column.event == place}
    kept |= {leaf.field for leaf in leaves(bound.cross) if leaf.event == event.called}
    if bound.per and place == 0:
        kept.add(event.time)
    if bound.is_sequence:
        kept |= {_link(bound, event), event.time}
    if bound.is_sequence or not bound.aggregates:
        kept.add(SEQ)  # the order of rows
    return kept


def _link(bound: Bound, event: BoundEvent) -> str:
    """The column as this event spells it."""
    if bound.link is None:
        return ""
    spelled = {name.lower(): name for name in event.kinds()}
    return spelled[bound.link.lower()]


def _inner(bound: Bound, column: Column) -> str:
    if not bound.is_sequence:
        return column.field
    return f"{bound.events[column.event].called}.{column.field}"


def _outputs(bound: Bound, columns: Iterable[Column]) -> tuple[Output, ...]:
    return tuple(Output(_inner(bound, column), column.name) for column in columns)


def _row_order(bound: Bound) -> tuple[Sort, ...]:
    first = bound.events[0]
    natural = [SEQ]
    if bound.is_sequence:
        natural = [f"{first.called}.{first.time}", f"{first.called}.{SEQ}"]
    asked = [Sort(_inner(bound, bound.order_by), bound.descending)] if bound.order_by else []
    return (*asked, *_further(natural, asked))


def _group_order(bound: Bound) -> tuple[Sort, ...]:
    natural = [BUCKET] * (bound.per is not None) + [column.name for column in bound.by]
    asked = [Sort(bound.order_by.name, bound.descending)] if bound.order_by else []
    return (*asked, *_further(natural, asked))


def _bucket(bound: Bound) -> Bucket | None:
    if bound.per is None:
        return None
    first = bound.events[0]
    inner = _inner(bound, Column(0, first.time, ""))
    kind = first.kinds()[first.time]
    return Bucket(column=inner, kind=kind, period=bound.per, calendar=bound.calendar)


def _figure(bound: Bound, aggregate: BoundAggregate) -> Figure:
    column = aggregate.column
    if column is None:
        return Figure(function=aggregate.function, column=None, kind=None, name=aggregate.name)
    return Figure(
        function=aggregate.function,
        column=_inner(bound, column),
        kind=bound.events[column.event].kinds()[column.field],
        name=aggregate.name,
    )


def _further(natural: Iterable[str], asked: list[Sort]) -> list[Sort]:
    taken = {sort.column for sort in asked}
    return [Sort(column) for column in natural if column not in taken]


def _top(bound: Bound) -> Top | None:
    """Only the first rows by a column are wanted, and no other rows can take their place."""
    if bound.limit is None or bound.is_sequence:
        return None
    field = bound.order_by.field if bound.order_by else SEQ
    descending = bound.descending and bound.order_by is not None
    return Top(field=field, descending=descending, rows=bound.limit + bound.offset)


def operand_of(plan: Plan, leaf: Leaf) -> tuple[str, Kind]:
    """The column of the plan that a part of ``cross`` asks."""
    name = f"{leaf.event}.{leaf.field}"
    return name, plan.kinds[name]
