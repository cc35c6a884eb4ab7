"""Parses times and durations in commands. Pure.

A time has the forms of ``schema.py``, so that a literal has the same value as the same text in an
event: RFC 3339 text with an offset; a day, which is its first microsecond in UTC; a whole number
since 1970 in seconds, milliseconds, microseconds or nanoseconds, distinguished by its digits;
another number, in seconds. A number may be in quotes. Whole numbers and text are cut to the
microsecond, other numbers are rounded to it.

A duration is a number with a unit: ``5m``, ``5 MINUTES``, ``1.5 hours``. Units are microseconds
(us), milliseconds (ms), seconds (s, sec), minutes (m, min), hours (h), days (d) and weeks (w).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import microseconds, truncate_time

DAY_US = 86_400_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_DURATION = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-zµ]+)\s*", re.ASCII)
_HINT = 'write "2026-01-02T03:04:05Z", "2026-01-02" or a number since 1970'

_UNITS_US = {
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), DAY_US),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY_US),
}
DURATION_US_MAX = 10_000 * 366 * DAY_US


def parse_time(value: str | int | float) -> int:
    """Microseconds since 1970 in UTC."""
    micros = _parse_text(value) if isinstance(value, str) else microseconds(value)
    if micros is None:
        raise Invalid(f"{value!r} is not a time: {_HINT}")
    return micros


def parse_day(value: str | int | float) -> int:
    """Days since 1970 of the UTC day that contains a time."""
    return parse_time(value) // DAY_US


def parse_duration(text: str) -> int:
    """Microseconds of a duration."""
    match = _DURATION.fullmatch(text)
    unit_us = _UNITS_US.get(match[2].lower()) if match else None
    if match is None or unit_us is None:
        raise Invalid(f"{text!r} is not a duration: write 30s, 5 MINUTES, 2h or 7 DAYS")
    whole, _, fraction = match[1].partition(".")
    micros: int = int(whole) * unit_us + int(fraction or 0) * unit_us // 10 ** len(fraction)
    if micros > DURATION_US_MAX:
        raise Invalid(f"the duration {text!r} is too long: the maximum is 10000 years")
    return micros


def _parse_text(text: str) -> int | None:
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return microseconds(int(text))
    if _NUMBER.fullmatch(text):
        return microseconds(float(text))
    for kind in (_Moment, date):
        try:
            return _microseconds_since_1970(msgspec.convert(truncate_time(text), kind))
        except (msgspec.ValidationError, OverflowError):
            continue
    return None


def _microseconds_since_1970(value: date) -> int:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    micros = (value - _EPOCH) // _MICROSECOND
    if not _FIRST_US <= micros <= _LAST_US:
        raise OverflowError
    return micros
