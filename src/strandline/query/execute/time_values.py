"""Converts Arrow values to Python values, for all dates and times of DuckDB. Pure.

DuckDB stores infinity as the largest number of a date or timestamp, and its negative; and its years
go far beyond those of Python. ``to_pylist`` fails for most of them, and returns wrong dates for
some (infinity in nanoseconds). So dates and times are read as numbers here, at any depth, and
converted by a ``TimeForm``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

INFINITE_US = 2**63 - 1
"""An infinite timestamp, in every unit; its negative is before all others."""
INFINITE_DAYS = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO = date(1970, 1, 1)
_US_OF = {"s": 1_000_000, "ms": 1000, "us": 1}


class TimeForm(NamedTuple):
    """The conversion of dates and times."""

    day: Callable[[int], Any]
    """From days since 1970."""
    moment: Callable[[int, str | None], Any]
    """From microseconds since 1970 and the time zone of the column."""


def values(column: pa.Array, form: TimeForm) -> list[Any]:
    """The values of a column."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        numbers = microseconds(column).cast(pa.int64()).to_pylist()
        return [None if each is None else form.moment(each, kind.tz) for each in numbers]
    if pa.types.is_date32(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if each is None else form.day(each) for each in days]
    if _has_times(kind):
        return [_value(scalar, form) for scalar in column]
    plain: list[Any] = column.to_pylist()
    return plain


def microseconds(column: pa.Array | pa.ChunkedArray) -> Any:
    """A column of timestamps in microseconds; infinity stays infinite."""
    kind = column.type
    if kind.unit == "us":
        return column
    numbers = column.cast(pa.int64())
    scaled = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    is_infinite = pc.equal(pc.abs(numbers), INFINITE_US)
    return pc.if_else(is_infinite, numbers, scaled).cast(pa.timestamp("us", kind.tz))


def in_microseconds(table: pa.Table) -> pa.Table:
    """A table with all its columns of timestamps in microseconds."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit != "us":
            table = table.set_column(place, field.name, microseconds(table[place]))
    return table


def python_day(days: int) -> date:
    """A date; out of range, the first or last date of Python, as in DuckDB's own client."""
    try:
        return _DAY_ZERO + timedelta(days=days)
    except OverflowError:
        return date.max if days > 0 else date.min


def python_moment(micros: int, zone: str | None) -> datetime:
    """The same for a time; without a zone when the column has none."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        moment = (datetime.max if micros > 0 else datetime.min).replace(tzinfo=UTC)
    return moment if zone else moment.replace(tzinfo=None)


def text_of_day(days: int) -> str:
    """A date as ISO 8601, ``infinity``, or days when Python does not have the year."""
    if abs(days) == INFINITE_DAYS:
        return "infinity" if days > 0 else "-infinity"
    try:
        return (_DAY_ZERO + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days}d"


def text_of_moment(micros: int, zone: str | None, *, timespec: str, shown_in: str = "UTC") -> str:
    """The same for a time, ``...us`` when Python does not have the year."""
    if abs(micros) == INFINITE_US:
        return "infinity" if micros > 0 else "-infinity"
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
        if zone is None:
            return moment.replace(tzinfo=None).isoformat(timespec=timespec)
        shown = moment.astimezone(ZoneInfo(shown_in)).isoformat(timespec=timespec)
    except OverflowError:
        return f"{micros}us"
    return shown.replace("+00:00", "Z")


PYTHON = TimeForm(python_day, python_moment)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    if pa.types.is_dictionary(kind):
        return _has_times(kind.value_type)
    return any(_has_times(kind.field(place).type) for place in range(kind.num_fields))


def _value(scalar: pa.Scalar, form: TimeForm) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        return form.moment(_micros(scalar.value, kind.unit), kind.tz)
    if pa.types.is_date32(kind):
        return form.day(scalar.value)
    if pa.types.is_map(kind):
        return [(_value(each["key"], form), _value(each["value"], form)) for each in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [_value(each, form) for each in scalar.values]
    if pa.types.is_struct(kind):
        return {field.name: _value(scalar[place], form) for place, field in enumerate(kind)}
    if isinstance(scalar, pa.UnionScalar | pa.DictionaryScalar):
        return _value(scalar.value, form)
    return scalar.as_py()


def _micros(value: int, unit: str) -> int:
    if abs(value) == INFINITE_US:
        return value
    return value // 1000 if unit == "ns" else value * _US_OF[unit]
