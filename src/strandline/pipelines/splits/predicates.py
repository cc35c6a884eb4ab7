"""Conditions on columns: they select rows, and let a reader skip files and zones. Pure.

A read returns the rows for which every condition holds. A file or zone whose smallest and largest
values exclude a condition is not read; then every row is compared, so the caller need not evaluate
a pushed-down condition again. A row without a value satisfies no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.lake.files.record_columns import SCHEMA

PRUNED = ("seq", "ts", "key", "tag", "node")
"""Columns that conditions support."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEQ_MAX = 2**63 - 1
_OPERATORS = ("=", "<", "<=", ">", ">=", "in", "exists")
_ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Condition(msgspec.Struct, frozen=True):
    """A column, an operator, and a value (several for ``in``, none for ``exists``).

    Times are microseconds.
    """

    column: str
    operator: str
    value: Any = None

    def may_hold(self, low: Any, high: Any) -> bool:
        """Whether it can hold for a row whose value lies between two bounds.

        None for ``low``: there are no values; None for ``high``: there is no upper bound.
        """
        if low is None:
            return False
        if self.operator == "exists":
            return True
        if self.operator == "in":
            return any(low <= value and (high is None or value <= high) for value in self.value)
        above = high is None or self.value <= high
        results: dict[str, bool] = {
            "=": low <= self.value and above,
            "<": low < self.value,
            "<=": low <= self.value,
            ">": high is None or high > self.value,
            ">=": above,
        }
        return results[self.operator]

    def rows(self, table: pa.Table) -> pa.ChunkedArray:
        """For each row whether it holds; null counts as false."""
        column = table[self.column]
        if self.operator == "exists":
            return pc.is_valid(column)
        if self.operator == "in":
            return pc.is_in(column, pa.array(self.value, column.type))
        return _ORDERED[self.operator](column, pa.scalar(self.value, column.type))


def of_triples(where: Iterable[Any]) -> tuple[Condition, ...]:
    """Conditions from the triples of ``table``: ``[("tag", "=", "eu"), …]``."""
    conditions = []
    for triple in where:
        if not isinstance(triple, tuple | list) or len(triple) != 3:
            raise Invalid(f"a condition is (column, operator, value), not {triple!r}")
        column, operator, value = triple
        if column not in PRUNED:
            raise Invalid(f"where supports {', '.join(PRUNED)}; filter the frame by {column!r}")
        if operator not in _OPERATORS[:-1]:
            raise Invalid(f"operators are {' '.join(_OPERATORS[:-1])}, not {operator!r}")
        condition = condition_of(column, operator, value)
        if condition is None:
            raise Invalid(f"{value!r} cannot be compared with column {column!r}")
        conditions.append(condition)
    return tuple(conditions)


def microseconds(time: datetime) -> int:
    """A time in microseconds since 1970; without a time zone it is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def time_of(text: str) -> int:
    """Microseconds of a time in ISO format; without a time zone it is UTC."""
    try:
        return microseconds(datetime.fromisoformat(text))
    except ValueError:
        raise Invalid(f"{text!r} is not a time: write 2026-11-16T08:00:00Z") from None


def matching_rows(table: pa.Table, conditions: Iterable[Condition]) -> pa.Table:
    """The rows for which all conditions hold."""
    for condition in conditions:
        if len(table):
            table = table.filter(condition.rows(table))
    return table


def condition_of(column: str, operator: str, value: Any) -> Condition | None:
    """A condition; None when the value cannot be compared with the column."""
    if operator == "in":
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            return None
        values = [_value(column, each) for each in value if each is not None]
        if any(each is None for each in values):
            return None
        return Condition(column, operator, tuple(values))
    plain = _value(column, value)
    return None if plain is None else Condition(column, operator, plain)


def _value(column: str, value: Any) -> Any:
    """The value converted for the column; None when it is of another type."""
    if column in ("seq", "ts") and isinstance(value, bool):
        return None
    if column == "seq":
        return value if isinstance(value, int) and 0 <= value <= _SEQ_MAX else None
    if column == "ts":
        if isinstance(value, datetime):
            return microseconds(value)
        return value if isinstance(value, int) and abs(value) <= _SEQ_MAX else None
    if column == "key":
        return bytes(value) if isinstance(value, (bytes, bytearray)) else None
    assert SCHEMA.field(column).type == pa.string()
    return value if isinstance(value, str) else None
