"""Which rows fulfil a bound condition, exactly: two truth values, nulls included. Pure.

``mask`` answers for the columns of a table, ``matches`` for one row; the two never disagree.

Numbers are compared by value. Where a literal is outside of what its column can hold, no value
equals it, and all are on the same side of it. A literal that was a whole number when the condition
was bound, and has a column of floating ones by now, is rounded as the column was.

A column of a dictionary is asked once for each of its values, not for each row.
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
    """For every row whether it fulfils the condition."""
    match condition:
        case Not(of):
            return ~mask(of, table)
        case And(parts):
            found = np.ones(table.num_rows, np.bool_)
            for part in parts:
                found &= mask(part, table)
            return found
        case Or(parts):
            found = np.zeros(table.num_rows, np.bool_)
            for part in parts:
                found |= mask(part, table)
            return found
        case _:
            return _leaf(condition, table[condition.field])


def matches(condition: Condition, row: Mapping[str, Any]) -> bool:
    """Whether one row fulfils the condition. A time is a number as in a condition, or itself; what
    is absent is null."""
    match condition:
        case Not(of):
            return not matches(of, row)
        case And(parts):
            return all(matches(part, row) for part in parts)
        case Or(parts):
            return any(matches(part, row) for part in parts)
        case _:
            return _holds(condition, _plain(row.get(condition.field)))


def _leaf(leaf: Leaf, column: pa.ChunkedArray) -> Mask:
    parts = [_chunk(leaf, chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _chunk(leaf: Leaf, values: pa.Array) -> Mask:
    if isinstance(values, pa.DictionaryArray):
        return _by_dictionary(leaf, values)
    if isinstance(leaf, Truth) and pa.types.is_boolean(values.type):
        return _bools(values)
    values = _comparable(values)
    match leaf:
        case Truth():
            return _compared(values, "=", True)
        case In(values=wanted):
            return _among(values, wanted)
        case Compare(op="!=", value=value):
            return ~_compared(values, "=", value)
        case Compare(op=op, value=value):
            return _compared(values, op, value)


def _by_dictionary(leaf: Leaf, values: pa.DictionaryArray) -> Mask:
    null = _chunk(leaf, pa.nulls(1, values.dictionary.type))
    answers = np.concatenate([_chunk(leaf, values.dictionary), null])
    places = values.indices.fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
    found: Mask = answers[places]
    return found


def _comparable(values: pa.Array) -> pa.Array:
    """Times as the numbers that conditions have for them, and one zero among floats."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
    if pa.types.is_date32(values.type):
        return values.view(pa.int32()).cast(pa.int64())
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int64())
    if pa.types.is_floating(values.type):
        return pc.add(values, 0.0)
    return values


def _compared(values: pa.Array, op: Operator, value: Value) -> Mask:
    if value is None:
        return _bools(values.is_null()) if op == "=" else np.zeros(len(values), np.bool_)
    literal = _literal(values.type, value)
    if literal is not None:
        return _bools(_ARROW_COMPARE[op](values, literal))
    # No value of the column equals it.
    if op == "=":
        return np.zeros(len(values), np.bool_)
    if isinstance(value, float) and math.isfinite(value):
        below = op in ("<", "<=")
        return _compared(values, "<=" if below else ">=", _whole(value, below=below))
    assert not isinstance(value, str)
    side = _COMPARE[op](0, value)  # where zero is, there are all values
    return _bools(values.is_valid()) if side else np.zeros(len(values), np.bool_)


def _among(values: pa.Array, wanted: tuple[Value, ...]) -> Mask:
    literals = [_literal(values.type, value) for value in wanted if value is not None]
    known = pa.array([each.as_py() for each in literals if each is not None], values.type)
    found = _bools(pc.is_in(values, value_set=known))
    return found | _bools(values.is_null()) if None in wanted else found


def _literal(kind: pa.DataType, value: str | float) -> pa.Scalar | None:
    """A literal in the type of its column, None where the type has no such number."""
    if pa.types.is_floating(kind):
        return pa.scalar(_float(value), kind)
    if pa.types.is_integer(kind):
        low, high = (0, 2**64) if kind == pa.uint64() else (-(2**63), 2**63)
        fits = low <= value < high and int(value) == value  # type: ignore[operator]  # is bound
        return pa.scalar(int(value), kind) if fits else None
    return pa.scalar(value, kind)


def _float(value: str | float) -> float:
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]  # text is no overflow


def _whole(value: float, *, below: bool) -> int:
    return math.floor(value) if below else math.ceil(value)


def _holds(leaf: Leaf, value: Any) -> bool:
    match leaf:
        case Truth():
            return value is True
        case In(values=wanted):
            return any(_one_holds("=", value, each) for each in wanted)
        case Compare(op="!=", value=literal):
            return not _one_holds("=", value, literal)
        case Compare(op=op, value=literal):
            return _one_holds(op, value, literal)


def _one_holds(op: Operator, value: Any, literal: Value) -> bool:
    if value is None or literal is None:
        return op == "=" and value is literal
    if isinstance(value, float):
        return _COMPARE[op](value, _float(literal))
    return _COMPARE[op](value, literal)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _DAY_ZERO).days
    return value


def _bools(found: pa.Array) -> Mask:
    """Null is false."""
    if found.null_count:
        found = found.fill_null(False)
    answers: Mask = found.to_numpy(zero_copy_only=False)
    return answers
