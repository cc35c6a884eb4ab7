"""The state that is stored for a query, and the queries that compute it. Pure.

    query             kind      state
    a selection       rows      its rows with seq, ts, context, returned fields and ORDER BY
    aggregates        groups    partial states by group, see below
    a sequence        whole     its result: a new row anywhere may change any match

Every state is the result of a query (``Part.bound``) over new rows alone. So every engine can
compute states: DuckDB in this process, or Spark, from the same plan.

Partial states are merged by adding and comparing (``Part.merges``):

    COUNT, COUNT f    int64, added
    TOTAL f, AVG f    of whole numbers decimal(38, 0), which is exact; of f64 a double, added:
                      like every sum of doubles it depends on the order in its last digits.
                      AVG also stores COUNT f. Of f64 a second sum of scaled values is stored, after
                      all others: it is used where the first is larger than any double. States
                      that were stored without it compute it from the first
    MIN f, MAX f      the value
    COUNT UNIQUE f    a separate part: one row for each group and value. Always exact; it takes
                      as much space as the values

Columns of partial states are ``k0``, ``k1``, … (bucket, then BY, then the value of COUNT UNIQUE)
and ``s0``, ``s1``, …: names of fields may be anything.

ORDER BY, LIMIT and OFFSET are applied by SHOW. Of a selection with LIMIT and no KEEP only rows are
stored that can still be among the first: later rows can displace one, and never bring one back.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from strandline.query.language.bound_ast import BoundAggregate, BoundQuery, Column, Function
from strandline.query.materialized.manifest import FORMAT, NO_RETENTION, Kind, ResultRetention
from strandline.query.plan.plan import plan_of
from strandline.query.plan.result_schema import shape_of as shape_of_answer
from strandline.schema import Schema, column_of
from strandline.views.table.condition import fields_of
from strandline.views.table.snapshot import CORE

Merge = Literal["sum", "min", "max"]

_ROWS = BoundAggregate(function="count", column=None, name="count")
"""The number of rows of a group."""


class StateQuery(NamedTuple):
    """One of the stored states."""

    bound: BoundQuery
    """The query over new rows whose result it is."""
    columns: pa.Schema | None
    """The columns of the state. None: those of the result."""
    keys: int = 0
    """The number of leading columns that identify the group."""
    merges: tuple[Merge, ...] = ()
    """The merge function of each further column."""


class IncrementalPlan(NamedTuple):
    """The states that are stored for a query."""

    kind: Kind
    bound: BoundQuery
    """The query itself."""
    parts: tuple[StateQuery, ...]
    places: dict[str, int]
    """Of aggregates: the number of the column ``s…`` of the first part, by ``_name``."""
    first: int | None
    """Of a selection: the number of first rows that can be in the result."""
    digest: str
    """States of shapes with equal digests can be merged."""


def incremental_plan_of(bound: BoundQuery, keep: ResultRetention = NO_RETENTION) -> IncrementalPlan:
    """The states to store for a query."""
    first = None
    places: dict[str, int] = {}
    kind: Kind
    parts: tuple[StateQuery, ...]
    if bound.is_sequence:
        kind, parts = "whole", (StateQuery(bound, None),)
    elif bound.aggregates:
        kind = "groups"
        main, places = _group_part(bound)
        parts = (main, *(_unique_part(bound, column) for column in unique_columns(bound)))
    else:
        if bound.limit is not None and keep == NO_RETENTION:
            first = bound.limit + bound.offset
        kind, parts = "rows", (_row_part(bound, first),)
    return IncrementalPlan(kind, bound, parts, places, first, _digest(kind, parts))


def query_over_stored_rows(bound: BoundQuery) -> BoundQuery:
    """The query over stored rows: columns, order and limit."""
    event = replace(bound.events[0], time="ts", where=None)
    return replace(bound, events=(event,))


def stored_schema(bound: BoundQuery) -> Schema:
    """The schema of the stored rows of a selection."""
    schema = bound.events[0].schema
    needed = {column.field for column in _stored_columns(bound)}
    fields = {name: kind for name, kind in schema.fields.items() if column_of(name) in needed}
    return Schema(schema.version, fields)


def unique_columns(bound: BoundQuery) -> list[Column]:
    """The columns of COUNT UNIQUE, each once."""
    columns: dict[str, Column] = {}
    for aggregate in bound.aggregates:
        if aggregate.function == "count_unique" and aggregate.column is not None:
            columns.setdefault(aggregate.column.field, aggregate.column)
    return list(columns.values())


def place_of(places: dict[str, int], function: str, column: Column | None) -> str:
    """The column of the first part that has this partial state."""
    return f"s{places[_name(function, column)]}"


def scaled_places(shape: IncrementalPlan) -> dict[str, str]:
    """The columns of scaled sums in the first part, each with the column of its plain sum."""
    totals = [name.partition(" ")[2] for name in shape.places if name.startswith("scaled_total ")]
    return {
        f"s{shape.places[f'scaled_total {field}']}": f"s{shape.places[f'total {field}']}"
        for field in totals
    }


def group_columns(bound: BoundQuery) -> list[str]:
    """The columns that identify the group of a row of a state."""
    return [f"k{place}" for place in range(len(bound.by) + (bound.per is not None))]


def result_columns(bound: BoundQuery) -> pa.Schema:
    """The columns of the result of every engine, with their types."""
    return shape_of_answer(plan_of(bound))


def _row_part(bound: BoundQuery, first: int | None) -> StateQuery:
    query = replace(bound, columns=_stored_columns(bound), limit=first, offset=0)
    if first is None:
        query = replace(query, order_by=None, descending=False)
    return StateQuery(query, result_columns(query))


def _stored_columns(bound: BoundQuery) -> tuple[Column, ...]:
    fields = dict.fromkeys([*CORE.names, *(column.field for column in bound.columns)])
    if bound.order_by is not None:
        fields[bound.order_by.field] = None
    return tuple(Column(0, field, field) for field in fields)


def _group_part(bound: BoundQuery) -> tuple[StateQuery, dict[str, int]]:
    states: dict[str, BoundAggregate] = {}
    for aggregate in bound.aggregates:
        for function in _partial(aggregate):
            name = _name(function, aggregate.column)
            states[name] = replace(aggregate, function=function, name=name)
    # The number of rows is always stored: a group exists because it has rows.
    states.setdefault(_ROWS.name, _ROWS)
    for aggregate in bound.aggregates:
        if aggregate.function in ("total", "avg") and _is_double(bound, aggregate):
            name = _name("scaled_total", aggregate.column)
            states[name] = replace(aggregate, function="scaled_total", name=name)
    part = _part(bound, bound.by, tuple(states.values()))
    return part, {name: place for place, name in enumerate(states)}


def _unique_part(bound: BoundQuery, column: Column) -> StateQuery:
    """A row for each value of each group, with its frequency."""
    # After the groups even if it is one of them: then the same column occurs under two names.
    value = Column(column.event, column.field, f"unique {column.name}")
    return _part(bound, (*bound.by, value), (_ROWS,))


def _part(
    bound: BoundQuery, by: tuple[Column, ...], states: tuple[BoundAggregate, ...]
) -> StateQuery:
    query = replace(
        bound, by=by, aggregates=states, order_by=None, limit=None, offset=0, descending=False
    )
    types = result_columns(query).types
    keys = len(types) - len(states)
    names = [f"k{place}" for place in range(keys)] + [f"s{place}" for place in range(len(states))]
    columns = pa.schema(list(zip(names, types, strict=True)))
    return StateQuery(query, columns, keys, tuple(_merge(state) for state in states))


def _partial(aggregate: BoundAggregate) -> tuple[Function, ...]:
    match aggregate.function:
        case "count_unique":
            return ()
        case "avg":
            return ("total", "count")
        case function:
            return (function,)


def _is_double(bound: BoundQuery, aggregate: BoundAggregate) -> bool:
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


def _digest(kind: Kind, parts: tuple[StateQuery, ...]) -> str:
    bounds = [_without_unused_fields(part.bound) for part in parts]
    return xxh3_128_hexdigest(msgspec.json.encode((FORMAT, kind, bounds)))


def _without_unused_fields(bound: BoundQuery) -> BoundQuery:
    """The query without unused fields: another version of them leaves the digest unchanged."""
    used = {column.field for column in (*bound.columns, *bound.by)}
    used |= {each.column.field for each in bound.aggregates if each.column is not None}
    used |= fields_of(bound.cross) | {bound.link or ""}
    used |= {bound.order_by.field} if bound.order_by else set()
    events = []
    for event in bound.events:
        used_here = used | fields_of(event.where) | {event.time}
        fields = {name: event.schema.fields[name] for name in sorted(event.schema.fields)}
        fields = {name: kind for name, kind in fields.items() if column_of(name) in used_here}
        events.append(replace(event, schema=Schema(0, fields)))
    # A state without scaled totals can be completed later.
    aggregates = tuple(each for each in bound.aggregates if each.function != "scaled_total")
    return replace(bound, events=tuple(events), aggregates=aggregates)
