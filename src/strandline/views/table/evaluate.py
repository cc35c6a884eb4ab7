"""Which rows fulfil a bound condition, exactly: two truth values, nulls included. Pure.

``mask`` evaluates the columns of a table, ``matches`` one row; the two never disagree.

Numbers are compared by value. If a literal is outside the range of its column, no value equals it,
and all values are on the same side of it. A literal that was an integer when the condition was
bound, and whose column is floating-point now, is rounded as the column was.

A column with a dictionary is evaluated once for each of its values, not for each row.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.lake.files.typed_columns import EPOCH
from strandline.views.table.condition import (
    And,
    Compare,
    Condition,
    In,
    Leaf,
    Not,
    Operator,
    Or,
    Truth,
    Value,
)

Mask = npt.NDArray[np.bool_]

_ARROW_COMPARE: dict[Operator, Callable[..., Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DAY_ZERO = EPOCH.date()
_MICROSECOND = timedelta(microseconds=1)


def mask(condition: Condition, table: pa.Table) -> Mask:
    """For every row, whether it fulfils the condition."""
    match condition:
        case Not(of):
            return ~mask(of, table)
        case And(parts):
            rows = np.ones(table.num_rows, np.bool_)
            for part in parts:
                rows &= mask(part, table)
            return rows
        case Or(parts):
            rows = np.zeros(table.num_rows, np.bool_)
            for part in parts:
                rows |= mask(part, table)
            return rows
        case _:
            return _leaf_mask(condition, table[condition.field])


def matches(condition: Condition, row: Mapping[str, Any]) -> bool:
    """Whether one row fulfils the condition. A time is a number as in a condition, or a date or
    datetime; an absent field is null."""
    match condition:
        case Not(of):
            return not matches(of, row)
        case And(parts):
            return all(matches(part, row) for part in parts)
        case Or(parts):
            return any(matches(part, row) for part in parts)
        case _:
            return _leaf_matches(condition, _as_number(row.get(condition.field)))


def _leaf_mask(leaf: Leaf, column: pa.ChunkedArray) -> Mask:
    parts = [_chunk_mask(leaf, chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _chunk_mask(leaf: Leaf, values: pa.Array) -> Mask:
    if isinstance(values, pa.DictionaryArray):
        return _dictionary_mask(leaf, values)
    if isinstance(leaf, Truth) and pa.types.is_boolean(values.type):
        return _bools(values)
    values = _as_numbers(values)
    match leaf:
        case Truth():
            return _compare(values, "=", True)
        case In(values=members):
            return _is_member(values, members)
        case Compare(op="!=", value=value):
            return ~_compare(values, "=", value)
        case Compare(op=op, value=value):
            return _compare(values, op, value)


def _dictionary_mask(leaf: Leaf, values: pa.DictionaryArray) -> Mask:
    null = _chunk_mask(leaf, pa.nulls(1, values.dictionary.type))
    by_code = np.concatenate([_chunk_mask(leaf, values.dictionary), null])
    codes = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
    rows: Mask = by_code[codes]
    return rows


def _as_numbers(values: pa.Array) -> pa.Array:
    """Times as the numbers that conditions have for them; -0.0 as 0.0."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
    if pa.types.is_date32(values.type):
        return values.view(pa.int32()).cast(pa.int64())
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int64())
    if pa.types.is_floating(values.type):
        return pc.add(values, 0.0)
    return values


def _compare(values: pa.Array, op: Operator, value: Value) -> Mask:
    if value is None:
        return _bools(values.is_null()) if op == "=" else np.zeros(len(values), np.bool_)
    literal = _literal(values.type, value)
    if literal is not None:
        return _bools(_ARROW_COMPARE[op](values, literal))
    # The type cannot hold the literal: no value of the column equals it.
    if op == "=":
        return np.zeros(len(values), np.bool_)
    if isinstance(value, float) and math.isfinite(value):
        below = op in ("<", "<=")
        return _compare(values, "<=" if below else ">=", _round(value, below=below))
    assert not isinstance(value, str)
    side = _COMPARE[op](0, value)  # all values are on the same side as 0
    return _bools(values.is_valid()) if side else np.zeros(len(values), np.bool_)


def _is_member(values: pa.Array, members: tuple[Value, ...]) -> Mask:
    literals = [_literal(values.type, value) for value in members if value is not None]
    value_set = pa.array([each.as_py() for each in literals if each is not None], values.type)
    rows = _bools(pc.is_in(values, value_set=value_set))
    return rows | _bools(values.is_null()) if None in members else rows


def _literal(kind: pa.DataType, value: str | float) -> pa.Scalar | None:
    """A literal in the type of its column; None if the type cannot hold the number."""
    if pa.types.is_floating(kind):
        return pa.scalar(_as_float(value), kind)
    if pa.types.is_integer(kind):
        low, high = (0, 2**64) if kind == pa.uint64() else (-(2**63), 2**63)
        fits = low <= value < high and int(value) == value  # type: ignore[operator]  # bound: a number
        return pa.scalar(int(value), kind) if fits else None
    return pa.scalar(value, kind)


def _as_float(value: str | float) -> float:
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # text does not overflow


def _round(value: float, *, below: bool) -> int:
    return math.floor(value) if below else math.ceil(value)


def _leaf_matches(leaf: Leaf, value: Any) -> bool:
    match leaf:
        case Truth():
            return value is True
        case In(values=members):
            return any(_compare_value("=", value, each) for each in members)
        case Compare(op="!=", value=literal):
            return not _compare_value("=", value, literal)
        case Compare(op=op, value=literal):
            return _compare_value(op, value, literal)


def _compare_value(op: Operator, value: Any, literal: Value) -> bool:
    if value is None or literal is None:
        return op == "=" and value is literal
    if isinstance(value, float):
        return _COMPARE[op](value, _as_float(literal))
    return _COMPARE[op](value, literal)


def _as_number(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _DAY_ZERO).days
    return value


def _bools(values: pa.Array) -> Mask:
    """An Arrow array of booleans as a mask; null is false."""
    if values.null_count:
        values = values.fill_null(False)
    rows: Mask = values.to_numpy(zero_copy_only=False)
    return rows
