"""Merges partial states and computes the result from them, in DuckDB.

Names of columns are those of incremental_plan.py, never a user's: SQL here contains generated names
only.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.language.bound_ast import BoundQuery, Column
from strandline.query.materialized.incremental_plan import (
    IncrementalPlan,
    StateQuery,
    group_columns,
    place_of,
    result_columns,
    scaled_places,
    unique_columns,
)
from strandline.query.plan.sql_dialect import SCALE
from strandline.views.table.snapshot import SEQ


def state_of(part: StateQuery, result: pa.Table) -> pa.Table:
    """The result of a part's query as a state; columns are matched by position."""
    if part.columns is None:
        return result
    state = result.rename_columns(part.columns.names).cast(part.columns)
    return state if part.merges else state.sort_by(SEQ)


def add_scaled_totals(shape: IncrementalPlan, state: pa.Table) -> pa.Table:
    """A stored state of the groups, with scaled sums added if they are missing."""
    for scaled, plain in scaled_places(shape).items():
        if scaled not in state.column_names:
            state = state.append_column(scaled, pc.divide(state[plain], SCALE))
    return state


def drop_empty_groups(shape: IncrementalPlan, state: pa.Table) -> pa.Table:
    """New groups without the one row that aggregates over no rows return."""
    rows = state[place_of(shape.places, "count", None)]
    return state.filter(pc.greater(rows, 0))


def first_rows(shape: IncrementalPlan, rows: pa.Table) -> pa.Table:
    """Rows of a selection, in the order of appends, without those that can never be returned."""
    if shape.first is None or rows.num_rows <= shape.first:
        return rows
    order = {SEQ: "ascending"}
    if shape.bound.order_by is not None:
        field = shape.bound.order_by.field
        direction = "descending" if shape.bound.descending else "ascending"
        order = {field: direction} | ({} if field == SEQ else order)
    keys = [(name, direction, "at_end") for name, direction in order.items()]
    places = pc.sort_indices(rows, sort_keys=keys).slice(0, shape.first)
    return rows.take(places).sort_by(SEQ)


class StateMerger:
    """Merges and compares states. Safe from many threads."""

    def __init__(self, engine: DuckDbEngine) -> None:
        self._engine = engine

    def merge(self, part: StateQuery, states: Sequence[pa.Table]) -> pa.Table:
        """Merge several states of a part."""
        assert part.columns is not None
        filled = [state for state in states if state.num_rows]
        if len(filled) < 2:
            return filled[0] if filled else part.columns.empty_table()
        if not part.merges:
            return pa.concat_tables(filled)
        keys = part.columns.names[: part.keys]
        figures = [
            f"{function}({name}) AS {name}"
            for name, function in zip(part.columns.names[part.keys :], part.merges, strict=True)
        ]
        text = f"SELECT {', '.join([*keys, *figures])} FROM states{_grouped(keys)}"  # noqa: S608 - generated names
        return self._query(text, {"states": filled}).cast(part.columns)

    def finish(self, shape: IncrementalPlan, merged: Sequence[pa.Table]) -> pa.Table:
        """The result of a query with aggregates, from the whole state of each part."""
        keys = group_columns(shape.bound)
        uniques = [column.field for column in unique_columns(shape.bound)]
        joins = [_different(keys, place) for place in range(1, len(uniques) + 1)]
        figures = [f"m.{key} AS c{place}" for place, key in enumerate(keys)]
        for aggregate in shape.bound.aggregates:
            column = aggregate.column
            if aggregate.function == "count_unique" and column is not None:
                expression = f"coalesce(u{uniques.index(column.field) + 1}.different, 0)"
            elif aggregate.function == "avg":
                count = place_of(shape.places, "count", column)
                expression = f"CAST({_total(shape, column)} AS DOUBLE) / nullif(m.{count}, 0)"
            elif aggregate.function == "total":
                expression = _total(shape, column)
            else:
                expression = f"m.{place_of(shape.places, aggregate.function, column)}"
            figures.append(f"{expression} AS c{len(figures)}")
        text = (
            f"SELECT {', '.join(figures)} FROM p0 m {' '.join(joins)} "  # noqa: S608 - generated names
            f"{_order(shape.bound, len(keys))}"
        )
        tables = {f"p{place}": [table] for place, table in enumerate(merged)}
        columns = result_columns(shape.bound)
        return self._query(text, tables).rename_columns(columns.names).cast(columns)

    def only_in_first(self, first: pa.Table, second: pa.Table) -> pa.Table:
        """The rows of one table that another with equal columns lacks, or has less often."""
        names = [f"c{place}" for place in range(first.num_columns)]
        tables = {"a": [first.rename_columns(names)], "b": [second.rename_columns(names)]}
        rows = self._query("SELECT * FROM a EXCEPT ALL SELECT * FROM b", tables)
        return rows.rename_columns(first.column_names).cast(first.schema)

    def _query(self, text: str, tables: dict[str, list[pa.Table]]) -> pa.Table:
        with self._engine.session() as session:
            for name, parts in tables.items():
                session.register(name, parts)
            return session.query(text)


def _total(shape: IncrementalPlan, column: Column | None) -> str:
    plain = place_of(shape.places, "total", column)
    scaled = {total: each for each, total in scaled_places(shape).items()}.get(plain)
    if scaled is None:
        return f"m.{plain}"
    return f"CASE WHEN isfinite(m.{plain}) THEN m.{plain} ELSE m.{scaled} * {SCALE!r}::DOUBLE END"


def _order(bound: BoundQuery, keys: int) -> str:
    """The order as in plan.py: ORDER BY before the groups, missing values last."""
    order = {f"c{place}": "ASC" for place in range(keys)}
    if bound.order_by is not None:
        requested = f"c{bound.names.index(bound.order_by.name)}"
        others = {name: "ASC" for name in order if name != requested}
        order = {requested: "DESC" if bound.descending else "ASC"} | others
    sorting = ", ".join(f"{name} {direction} NULLS LAST" for name, direction in order.items())
    limit = "" if bound.limit is None else f"LIMIT {bound.limit:d} "
    return f"{'ORDER BY ' + sorting if order else ''} {limit}OFFSET {bound.offset:d}"


def _different(keys: Sequence[str], place: int) -> str:
    """A join with the number of different values of each group, from a part that lists them."""
    figures = ", ".join([*keys, f"count(k{len(keys)}) AS different"])
    same = " AND ".join(f"m.{key} IS NOT DISTINCT FROM u{place}.{key}" for key in keys)
    counted = f"SELECT {figures} FROM p{place}{_grouped(keys)}"  # noqa: S608 - generated names
    return f"LEFT JOIN ({counted}) u{place} ON {same or 'TRUE'}"


def _grouped(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""
