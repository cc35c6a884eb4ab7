"""The logical plan of a bound query, independent of the engine. Pure.

A plan is a list of scans (``Scan``, one for each event), and the operations on their rows:

    one event   rows that fulfil ``where``
    a sequence  matches of rows, then those that fulfil ``cross``
    grouped     by bucket and columns, with aggregates; or not at all
    ordered     by all of ``order``, so that there is only one right order; then LIMIT and OFFSET

Without ORDER BY a selection is in the order of appends (seq; not if it is large and has no LIMIT,
see ``query/execute/executor.py``), a sequence in the order of its first event (time, then seq), and
groups in the order of bucket and group columns. ORDER BY takes precedence over that. Missing values
are last, in both directions.

In a plan a column of a single event has its own name; in a sequence the name has the event as a
prefix, ``pay.amount``. Only needed columns are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from strandline.query.language.bound_ast import (
    BUCKET,
    BoundAggregate,
    BoundEvent,
    BoundQuery,
    BoundStep,
    Column,
    Function,
)
from strandline.query.language.periods import Calendar, Period
from strandline.schema import FieldType
from strandline.views.table.condition import Condition, Leaf, fields_of, leaves
from strandline.views.table.snapshot import SEQ, Top


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one event."""

    table: str
    """The table of the event."""
    relation: str
    """The relation in SQL with the rows that are read, possibly more than fulfil ``where``."""
    prefix: str
    """The prefix of its columns in the plan."""
    kinds: dict[str, FieldType]
    """The types of the needed columns, in the order of the table."""
    kept: tuple[str, ...]
    """Columns that are needed after ``where`` was applied."""
    time: str
    where: Condition | None
    link: str = ""
    """In a sequence, the column whose value is equal in all rows of a match."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.kinds)


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    column: str
    kind: FieldType
    period: Period
    calendar: Calendar


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """An aggregate."""

    function: Function
    column: str | None
    kind: FieldType | None
    name: str
    is_wide: bool = False
    """Of f64: whether an intermediate sum may be larger than any double."""

    @property
    def is_double(self) -> bool:
        """Whether it is computed from a sum of doubles."""
        return (
            self.function in ("total", "avg") and self.kind is not None and self.kind.name == "f64"
        )


class Output(msgspec.Struct, frozen=True):
    """The name of a column in the plan, and in the result."""

    column: str
    name: str


class Sort(msgspec.Struct, frozen=True):
    """An order: of groups by a column of the result, else by a column of the plan."""

    column: str
    descending: bool = False


Numbered = Mapping[str, tuple[str, ...]]
"""Enum columns that are numbers: the indexes of their values among these variants."""

NOT_NUMBERED: Numbered = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The logical plan of a query."""

    scans: tuple[Scan, ...]
    steps: tuple[BoundStep, ...] = ()
    cross: Condition | None = None
    outputs: tuple[Output, ...] = ()
    """The columns of a selection."""
    bucket: Bucket | None = None
    groups: tuple[Output, ...] = ()
    figures: tuple[Figure, ...] = ()
    order: tuple[Sort, ...] = ()
    order_requested: bool = False
    """Whether ORDER BY or LIMIT requires the order."""
    limit: int | None = None
    offset: int = 0
    top: Top | None = None
    """The first rows that are needed, which a reader may use to skip zones."""

    @property
    def kinds(self) -> dict[str, FieldType]:
        """The types of all columns of the plan."""
        return {
            f"{scan.prefix}{field}": kind
            for scan in self.scans
            for field, kind in scan.kinds.items()
        }

    @property
    def needed(self) -> set[str]:
        """Columns of the plan that are needed after rows were selected or matched."""
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
        """Enum columns whose text is needed only in the result: engines group and compare numbers
        several times faster."""
        if self.steps:
            return NOT_NUMBERED
        shown = {output.column for output in self.outputs}
        if not self.figures:
            shown |= {sort.column for sort in self.order}
        return numbered_enums(self.scans[0], self.scans[0].kinds.keys() - shown)

    @property
    def names(self) -> list[str]:
        """The names of the columns of the result."""
        if not self.figures:
            return [output.name for output in self.outputs]
        bucket = [BUCKET] if self.bucket else []
        figures = [figure.name for figure in self.figures]
        return [*bucket, *(group.name for group in self.groups), *figures]

    @property
    def order_places(self) -> list[int]:
        """Of groups: the indexes in the result of the columns of the order."""
        names = self.names
        return [names.index(sort.column) for sort in self.order]


def numbered_enums(scan: Scan, among: Collection[str]) -> Numbered:
    """The enums among these columns of a scan."""
    kinds = scan.kinds.items()
    return {name: kind.variants for name, kind in kinds if kind.name == "enum" and name in among}


def plan_of(bound: BoundQuery) -> Plan:
    """The plan of a query. Replays of all events have no plan:
    ``query/execute/replay.py``.
    """
    assert bound.steps or len(bound.events) == 1, "several events that are not a sequence"
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
        order_requested=bound.order_by is not None or bound.limit is not None,
        limit=bound.limit,
        offset=bound.offset,
        top=None if grouped else _top(bound),
    )


def with_wide_totals(plan: Plan) -> Plan:
    """The same query with sums of doubles that do not overflow in intermediate sums."""
    figures = tuple(
        msgspec.structs.replace(figure, is_wide=figure.is_double) for figure in plan.figures
    )
    return msgspec.structs.replace(plan, figures=figures)


def _scan(bound: BoundQuery, place: int) -> Scan:
    event = bound.events[place]
    after_where = _needed_after_where(bound, event, place)
    # A query that only counts rows needs a column all the same.
    needed = after_where | fields_of(event.where) or {SEQ}
    kinds = {name: kind for name, kind in event.kinds().items() if name in needed}
    missing = needed - kinds.keys()
    assert not missing, f"{event.name} has no {sorted(missing)}"
    return Scan(
        table=event.name,
        relation=f"rows{place}",
        prefix=f"{event.called}." if bound.is_sequence else "",
        kinds=kinds,
        kept=tuple(name for name in kinds if name in after_where),
        time=event.time,
        where=event.where,
        link=_link(bound, event),
    )


def _needed_after_where(bound: BoundQuery, event: BoundEvent, place: int) -> set[str]:
    """The columns of an event that are needed after its own condition was applied."""
    columns = [*bound.columns, *bound.by]
    columns += [figure.column for figure in bound.aggregates if figure.column]
    if bound.order_by and not bound.aggregates:
        columns.append(bound.order_by)
    needed = {column.field for column in columns if column.event == place}
    needed |= {leaf.field for leaf in leaves(bound.cross) if leaf.event == event.called}
    if bound.per and place == 0:
        needed.add(event.time)
    if bound.is_sequence:
        needed |= {_link(bound, event), event.time}
    if bound.is_sequence or not bound.aggregates:
        needed.add(SEQ)  # the order of rows
    return needed


def _link(bound: BoundQuery, event: BoundEvent) -> str:
    """The link column in the spelling of this event."""
    if bound.link is None:
        return ""
    spelled = {name.lower(): name for name in event.kinds()}
    return spelled[bound.link.lower()]


def _inner(bound: BoundQuery, column: Column) -> str:
    if not bound.is_sequence:
        return column.field
    return f"{bound.events[column.event].called}.{column.field}"


def _outputs(bound: BoundQuery, columns: Iterable[Column]) -> tuple[Output, ...]:
    return tuple(Output(_inner(bound, column), column.name) for column in columns)


def _row_order(bound: BoundQuery) -> tuple[Sort, ...]:
    first = bound.events[0]
    natural = [SEQ]
    if bound.is_sequence:
        natural = [f"{first.called}.{first.time}", f"{first.called}.{SEQ}"]
    requested = [Sort(_inner(bound, bound.order_by), bound.descending)] if bound.order_by else []
    return (*requested, *_further(natural, requested))


def _group_order(bound: BoundQuery) -> tuple[Sort, ...]:
    natural = [BUCKET] * (bound.per is not None) + [column.name for column in bound.by]
    requested = [Sort(bound.order_by.name, bound.descending)] if bound.order_by else []
    return (*requested, *_further(natural, requested))


def _bucket(bound: BoundQuery) -> Bucket | None:
    if bound.per is None:
        return None
    first = bound.events[0]
    inner = _inner(bound, Column(0, first.time, ""))
    kind = first.kinds()[first.time]
    return Bucket(column=inner, kind=kind, period=bound.per, calendar=bound.calendar)


def _figure(bound: BoundQuery, aggregate: BoundAggregate) -> Figure:
    column = aggregate.column
    if column is None:
        return Figure(function=aggregate.function, column=None, kind=None, name=aggregate.name)
    return Figure(
        function=aggregate.function,
        column=_inner(bound, column),
        kind=bound.events[column.event].kinds()[column.field],
        name=aggregate.name,
    )


def _further(natural: Iterable[str], requested: list[Sort]) -> list[Sort]:
    used = {sort.column for sort in requested}
    return [Sort(column) for column in natural if column not in used]


def _top(bound: BoundQuery) -> Top | None:
    """The limit of rows for a reader, when only the first rows by a column are needed."""
    if bound.limit is None or bound.is_sequence:
        return None
    field = bound.order_by.field if bound.order_by else SEQ
    descending = bound.descending and bound.order_by is not None
    return Top(field=field, descending=descending, rows=bound.limit + bound.offset)


def operand_of(plan: Plan, leaf: Leaf) -> tuple[str, FieldType]:
    """The column of the plan in a comparison of ``cross``."""
    name = f"{leaf.event}.{leaf.field}"
    return name, plan.kinds[name]
