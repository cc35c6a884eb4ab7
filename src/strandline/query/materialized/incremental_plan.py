"""What is kept for a query, and how it is computed: itself a few questions. Pure.

    query             kind      kept
    a selection       rows      its rows with seq, ts, context, what is returned and ordered by
    aggregates        groups    partial states by group, see below
    a sequence        whole     its result: a new row anywhere may change any match

Every state is the answer to a question of its own (``Part.bound``), over news alone. So whatever
can answer questions can make states: DuckDB here, Spark elsewhere, from the same plan.

Partial states are what can be put together by adding and comparing (``Part.merges``):

    COUNT, COUNT f    int64, added
    TOTAL f, AVG f    of whole numbers decimal(38, 0), which is exact; of f64 a double, added:
                      like every sum of doubles it depends on the order in its last digits.
                      AVG also keeps COUNT f. Of f64 a second sum of scaled values is kept, after
                      all others: it counts where the first is larger than any double. States that
                      were stored without it get it from the first
    MIN f, MAX f      the value
    COUNT UNIQUE f    a part of its own: one row for each group and value. Exact, whatever there
                      is; it takes as much room as the values

Columns of partial states are ``k0``, ``k1``, … (bucket, then BY, then the value of COUNT UNIQUE)
and ``s0``, ``s1``, …: names of fields may be anything.

ORDER BY, LIMIT and OFFSET are applied when somebody looks. Of a selection with LIMIT and no KEEP
only rows are kept that could still be among the first: rows that come later can push one out, and
never bring one back.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from strandline.query.language.bound_ast import Bound, BoundAggregate, Column, Function
from strandline.query.materialized.manifest import FORMAT, NO_KEEP, Keep, Kind
from strandline.query.plan.plan import plan_of
from strandline.query.plan.result_schema import shape_of as shape_of_answer
from strandline.schema import Schema, column_of
from strandline.views.table.condition import fields_of
from strandline.views.table.snapshot import CORE

Merge = Literal["sum", "min", "max"]

_ROWS = BoundAggregate(function="count", column=None, name="count")
"""How many rows there are."""


class Part(NamedTuple):
    """One of the states that are kept."""

    bound: Bound
    """The question over news whose answer it is."""
    columns: pa.Schema | None
    """Of the state. None: as they come."""
    keys: int = 0
    """How many columns in front say which group it is."""
    merges: tuple[Merge, ...] = ()
    """How each column behind them is put together."""


class Shape(NamedTuple):
    """All that is kept for a query."""

    kind: Kind
    bound: Bound
    """The query itself."""
    parts: tuple[Part, ...]
    places: dict[str, int]
    """Of aggregates: which column ``s…`` of the first part is what (``_name``)."""
    first: int | None
    """Of a selection: only so many rows in front can ever be shown."""
    digest: str
    """Two shapes with the same one have states that can be merged."""


def shape_of(bound: Bound, keep: Keep = NO_KEEP) -> Shape:
    """What to keep for a query."""
    first = None
    places: dict[str, int] = {}
    kind: Kind
    parts: tuple[Part, ...]
    if bound.is_sequence:
        kind, parts = "whole", (Part(bound, None),)
    elif bound.aggregates:
        kind = "groups"
        main, places = _group_part(bound)
        parts = (main, *(_unique_part(bound, column) for column in unique_columns(bound)))
    else:
        if bound.limit is not None and keep == NO_KEEP:
            first = bound.limit + bound.offset
        kind, parts = "rows", (_row_part(bound, first),)
    return Shape(kind, bound, parts, places, first, _digest(kind, parts))


def looking_at_rows(bound: Bound) -> Bound:
    """The question to rows that were kept: which columns, in which order, how many."""
    event = replace(bound.events[0], time="ts", where=None)
    return replace(bound, events=(event,))


def kept_schema(bound: Bound) -> Schema:
    """The fields that a selection keeps, of those of its event."""
    schema = bound.events[0].schema
    wanted = {column.field for column in _kept_columns(bound)}
    fields = {name: kind for name, kind in schema.fields.items() if column_of(name) in wanted}
    return Schema(schema.version, fields)


def unique_columns(bound: Bound) -> list[Column]:
    """The columns whose different values are counted, each once."""
    found: dict[str, Column] = {}
    for aggregate in bound.aggregates:
        if aggregate.function == "count_unique" and aggregate.column is not None:
            found.setdefault(aggregate.column.field, aggregate.column)
    return list(found.values())


def place_of(places: dict[str, int], function: str, column: Column | None) -> str:
    """The column of the first part that has this partial state."""
    return f"s{places[_name(function, column)]}"


def scaled_places(shape: Shape) -> dict[str, str]:
    """The columns of scaled sums in the first part, each with the column of its plain sum."""
    totals = [name.partition(" ")[2] for name in shape.places if name.startswith("scaled_total ")]
    return {
        f"s{shape.places[f'scaled_total {field}']}": f"s{shape.places[f'total {field}']}"
        for field in totals
    }


def group_columns(bound: Bound) -> list[str]:
    """The columns that say which group a row of a state is of."""
    return [f"k{place}" for place in range(len(bound.by) + (bound.per is not None))]


def columns_of_answer(bound: Bound) -> pa.Schema:
    """The columns that every engine's answer has, with their types."""
    return shape_of_answer(plan_of(bound))


def _row_part(bound: Bound, first: int | None) -> Part:
    asked = replace(bound, columns=_kept_columns(bound), limit=first, offset=0)
    if first is None:
        asked = replace(asked, order_by=None, descending=False)
    return Part(asked, columns_of_answer(asked))


def _kept_columns(bound: Bound) -> tuple[Column, ...]:
    fields = dict.fromkeys([*CORE.names, *(column.field for column in bound.columns)])
    if bound.order_by is not None:
        fields[bound.order_by.field] = None
    return tuple(Column(0, field, field) for field in fields)


def _group_part(bound: Bound) -> tuple[Part, dict[str, int]]:
    wanted: dict[str, BoundAggregate] = {}
    for aggregate in bound.aggregates:
        for function in _partial(aggregate):
            name = _name(function, aggregate.column)
            wanted[name] = replace(aggregate, function=function, name=name)
    # How many rows a group has is always known: a group is there because it has some.
    wanted.setdefault(_ROWS.name, _ROWS)
    for aggregate in bound.aggregates:
        if aggregate.function in ("total", "avg") and _is_double(bound, aggregate):
            name = _name("scaled_total", aggregate.column)
            wanted[name] = replace(aggregate, function="scaled_total", name=name)
    part = _part(bound, bound.by, tuple(wanted.values()))
    return part, {name: place for place, name in enumerate(wanted)}


def _unique_part(bound: Bound, column: Column) -> Part:
    """A row for each value of each group, and how often it is there."""
    # Behind the groups even if it is one of them: then the same column, twice under two names.
    value = Column(column.event, column.field, f"unique {column.name}")
    return _part(bound, (*bound.by, value), (_ROWS,))


def _part(bound: Bound, by: tuple[Column, ...], states: tuple[BoundAggregate, ...]) -> Part:
    asked = replace(
        bound, by=by, aggregates=states, order_by=None, limit=None, offset=0, descending=False
    )
    types = columns_of_answer(asked).types
    keys = len(types) - len(states)
    names = [f"k{place}" for place in range(keys)] + [f"s{place}" for place in range(len(states))]
    columns = pa.schema(list(zip(names, types, strict=True)))
    return Part(asked, columns, keys, tuple(_merge(state) for state in states))


def _partial(aggregate: BoundAggregate) -> tuple[Function, ...]:
    match aggregate.function:
        case "count_unique":
            return ()
        case "avg":
            return ("total", "count")
        case function:
            return (function,)


def _is_double(bound: Bound, aggregate: BoundAggregate) -> bool:
    column = aggregate.column
    return column is not None and bound.events[column.event].kinds()[column.field].name == "f64"


def _merge(state: BoundAggregate) -> Merge:
    match state.function:
        case "min":
            return "min"
        case "max":
            return "max"
        case _:
            return "sum"


def _name(function: str, column: Column | None) -> str:
    return function if column is None else f"{function} {column.field}"


def _digest(kind: Kind, parts: tuple[Part, ...]) -> str:
    bounds = [_told_by_what_it_uses(part.bound) for part in parts]
    return xxh3_128_hexdigest(msgspec.json.encode((FORMAT, kind, bounds)))


def _told_by_what_it_uses(bound: Bound) -> Bound:
    """Another version of a schema is no other question while the fields that it uses are equal."""
    used = {column.field for column in (*bound.columns, *bound.by)}
    used |= {each.column.field for each in bound.aggregates if each.column is not None}
    used |= fields_of(bound.cross) | {bound.link or ""}
    used |= {bound.order_by.field} if bound.order_by else set()
    events = []
    for event in bound.events:
        named = used | fields_of(event.where) | {event.time}
        fields = {name: event.schema.fields[name] for name in sorted(event.schema.fields)}
        fields = {name: kind for name, kind in fields.items() if column_of(name) in named}
        events.append(replace(event, schema=Schema(0, fields)))
    # What a state has besides, it can be given later.
    kept = tuple(each for each in bound.aggregates if each.function != "scaled_total")
    return replace(bound, events=tuple(events), aggregates=kept)
