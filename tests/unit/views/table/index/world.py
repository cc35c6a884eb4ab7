"""Tables for tests of zone indexes, and the truth about them: row by row, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from strandline.views.table.index.index_builder import build
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.index.index_reader import Indexes
from strandline.views.table.snapshot import CORE

ARROW = {
    "string": pa.string(),
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "datetime": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "enum": pa.string(),
}
EAGER = IndexPolicy(filtered_min=0, spread_max=1.0, calendar_share=1.0)
"""Builds everything, however few rows there are."""
FILTERING = IndexPolicy(variants_max=0, filtered_min=0, spread_max=1.0, calendar_share=0)
"""Filters instead of bitmaps."""

HOUR_US = 3_600_000_000
START_US = 1_767_225_600_000_000
"""The first moment of 2026."""


def sorted_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with what every row has, in the order of a file. Times are whole numbers."""
    full = [
        {"seq": place + 1, "ts": START_US + place * 1_000_000, "context": "c"} | dict(row)
        for place, row in enumerate(rows)
    ]
    return sorted(full, key=lambda row: (row["context"], row["ts"], row["seq"]))


def table_of(rows: Sequence[Mapping[str, Any]], schema: Schema, *, coded: bool = False) -> pa.Table:
    """Rows as a file has them; texts of fields as dictionaries when they are coded."""
    types = {field.name: field.type for field in CORE}
    types |= {name: ARROW[kind.name] for name, kind in schema.types().items()}
    columns = {}
    for name, kind in types.items():
        plain = {"ts": pa.int64()}.get(name, kind)
        if pa.types.is_timestamp(kind):
            plain = pa.int64()
        if pa.types.is_date(kind):
            plain = pa.int32()
        array = pa.array([row.get(name) for row in rows], plain).cast(kind)
        columns[name] = array.dictionary_encode() if coded and kind == pa.string() else array
    return pa.table(columns)


def opened(data: bytes) -> Indexes:
    return Indexes(lambda offset, size: data[offset : offset + size], len(data), name="a side file")


def indexed(
    rows: Sequence[Mapping[str, Any]],
    fields: dict[str, str],
    *,
    zone_rows: int,
    policy: IndexPolicy = EAGER,
    coded: bool = False,
) -> Indexes:
    """The indexes of rows that are in order already."""
    schema = Schema(1, fields)
    return opened(build(table_of(rows, schema, coded=coded), schema, zone_rows, policy))


def kept(indexes: Indexes, condition: Condition, schema: Schema | None = None) -> list[int]:
    """The zones that are left."""
    return np.flatnonzero(indexes.prune(condition, schema)[0]).tolist()


def used(indexes: Indexes, condition: Condition) -> list[str]:
    return indexes.prune(condition)[1]


def true_zones(rows: Sequence[Mapping[str, Any]], condition: Condition, zone_rows: int) -> set[int]:
    """The zones that have a row for which the condition is true."""
    return {place // zone_rows for place, row in enumerate(rows) if is_true(condition, row)}


def is_true(condition: Condition, row: Mapping[str, Any]) -> bool:
    """The two truth values, as the head of condition.py has them."""
    match condition:
        case And(of):
            return all(is_true(part, row) for part in of)
        case Or(of):
            return any(is_true(part, row) for part in of)
        case Not(of):
            return not is_true(of, row)
        case Truth(field):
            return row[field] is True
        case In(field, values):
            return any(_equal(row[field], value) for value in values)
        case Compare(field, "=", value):
            return _equal(row[field], value)
        case Compare(field, "!=", value):
            return not _equal(row[field], value)
        case Compare(field, op, value):
            return _compares(row[field], op, value)
    raise AssertionError(condition)


def _equal(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else one == other


def _compares(one: Any, op: str, other: Any) -> bool:
    if one is None:
        return False
    match op:
        case "<":
            return one < other
        case "<=":
            return one <= other
        case ">":
            return one > other
        case _:
            return one >= other
