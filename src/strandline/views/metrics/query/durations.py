"""Durations and times: ``90s``, ``1h30m``, ``2026-01-02T03:04:05Z``, and datetimes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.value_types import AT_MAX, AT_MIN

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
    "w": 604_800 * 1_000_000_000,
}
DURATION = r"(?:[0-9]{1,19}(?:ns|us|ms|s|m|h|d|w))+"
MOMENT = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)

_FINER = {"ps": 10**3, "fs": 10**6, "as": 10**9}
"""Units of numpy that are parts of a nanosecond."""
_MONTHS_MAX = 12 * 1000
"""Nanoseconds reach less far than a thousand years."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"([0-9]+)([a-z]+)")


def duration_ns(text: str | int) -> int:
    """A duration in nanoseconds; a number is one already."""
    if isinstance(text, int) and not isinstance(text, bool):
        found = text
    elif isinstance(text, str) and re.fullmatch(DURATION, text):
        found = sum(int(count) * UNITS_NS[unit] for count, unit in _PART.findall(text))
    else:
        raise Invalid(f"{text!r} is no duration: write 90s, 5m, 1h30m (ns us ms s m h d w)")
    if not 0 < found <= AT_MAX:
        raise Invalid(f"{text!r} is no duration: it is longer than 0 and shorter than 292 years")
    return found


Moment = int | np.integer | datetime | np.datetime64
"""A time: nanoseconds since 1970, or a datetime; without a zone it is UTC."""


def at_ns(moment: Moment, least: int = AT_MIN, most: int = AT_MAX) -> int:
    """A time in nanoseconds since 1970, between two bounds."""
    if type(moment) is int:
        found = moment
    elif isinstance(moment, int | np.integer) and not isinstance(moment, bool):
        found = int(moment)
    elif isinstance(moment, datetime):
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        found = (zoned - _EPOCH) // timedelta(microseconds=1) * UNITS_NS["us"]
    elif isinstance(moment, np.datetime64) and not np.isnat(moment):
        found = _numpy_ns(moment)
    else:
        raise Invalid(f"{moment!r} is no time: give nanoseconds since 1970, or a datetime")
    if not least <= found <= most:
        raise Invalid(f"{moment!r} is no time: nanoseconds reach from 1677 to 2262")
    return found


def _numpy_ns(moment: np.datetime64) -> int:
    """In whole numbers of Python: numpy's own would overflow without a word."""
    unit, step = np.datetime_data(moment.dtype)
    count = int(moment.astype("int64")) * step
    if unit in ("Y", "M"):
        months = count * (12 if unit == "Y" else 1)
        if abs(months) > _MONTHS_MAX:
            return AT_MAX + 1 if months > 0 else AT_MIN - 1
        unit, count = "D", int(np.datetime64(months, "M").astype("datetime64[D]").astype("int64"))
    if unit in _FINER:
        return count // _FINER[unit]
    return count * UNITS_NS[unit.lower()]


def moment_ns(text: str) -> int:
    """A date, or a date and time, in nanoseconds since 1970. Without a zone it is UTC."""
    whole, point, rest = text.replace(" ", "T").partition(".")
    digits = re.match(r"[0-9]*", rest)
    fraction = digits[0] if digits else ""
    try:
        found = datetime.fromisoformat(whole + rest[len(fraction) :])
    except ValueError as error:
        raise Invalid(f"{text!r} is no time: write 2026-01-02T03:04:05Z ({error})") from error
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    seconds = int((zoned - _EPOCH).total_seconds())
    at = seconds * UNITS_NS["s"] + int(fraction[:9].ljust(9, "0") if point else 0)
    if not AT_MIN <= at <= AT_MAX:
        raise Invalid(f"{text!r} is no time: nanoseconds reach from 1677 to 2262")
    return at
