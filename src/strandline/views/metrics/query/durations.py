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
"""Units of numpy that are fractions of a nanosecond."""
_MONTHS_MAX = 12 * 1000
"""The range of times in nanoseconds is less than a thousand years."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"([0-9]+)([a-z]+)")


def duration_ns(text: str | int) -> int:
    """A duration in nanoseconds, from text or from nanoseconds."""
    if isinstance(text, int) and not isinstance(text, bool):
        ns = text
    elif isinstance(text, str) and re.fullmatch(DURATION, text):
        ns = sum(int(count) * UNITS_NS[unit] for count, unit in _PART.findall(text))
    else:
        raise Invalid(f"{text!r} is not a duration: write 90s, 5m, 1h30m (ns us ms s m h d w)")
    if not 0 < ns <= AT_MAX:
        raise Invalid(
            f"{text!r} is not a duration: it must be longer than 0 and shorter than 292 years"
        )
    return ns


Moment = int | np.integer | datetime | np.datetime64
"""A time: nanoseconds since 1970, or a datetime; without a zone it is UTC."""


def at_ns(time: Moment, least: int = AT_MIN, most: int = AT_MAX) -> int:
    """A time in nanoseconds since 1970, between two bounds."""
    if type(time) is int:
        ns = time
    elif isinstance(time, int | np.integer) and not isinstance(time, bool):
        ns = int(time)
    elif isinstance(time, datetime):
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        ns = (zoned - _EPOCH) // timedelta(microseconds=1) * UNITS_NS["us"]
    elif isinstance(time, np.datetime64) and not np.isnat(time):
        ns = _numpy_ns(time)
    else:
        raise Invalid(f"{time!r} is not a time: pass nanoseconds since 1970, or a datetime")
    if not least <= ns <= most:
        raise Invalid(f"{time!r} is not a time: times in nanoseconds are from 1677 to 2262")
    return ns


def _numpy_ns(time: np.datetime64) -> int:
    """Computed with integers of Python: those of numpy would overflow silently."""
    unit, step = np.datetime_data(time.dtype)
    count = int(time.astype("int64")) * step
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
        parsed = datetime.fromisoformat(whole + rest[len(fraction) :])
    except ValueError as error:
        raise Invalid(f"{text!r} is not a time: write 2026-01-02T03:04:05Z ({error})") from error
    zoned = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    seconds = int((zoned - _EPOCH).total_seconds())
    at = seconds * UNITS_NS["s"] + int(fraction[:9].ljust(9, "0") if point else 0)
    if not AT_MIN <= at <= AT_MAX:
        raise Invalid(f"{text!r} is not a time: times in nanoseconds are from 1677 to 2262")
    return at
