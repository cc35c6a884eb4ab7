"""Durations and times as text: ``90s``, ``1h30m``, ``2026-01-02T03:04:05Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from strandline.errors import Invalid
from strandline.views.metrics.kinds import AT_MAX, AT_MIN

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
    seconds = int((zoned - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    at = seconds * UNITS_NS["s"] + int(fraction.ljust(9, "0") if point else 0)
    if not AT_MIN <= at <= AT_MAX:
        raise Invalid(f"{text!r} is no time: nanoseconds reach from 1677 to 2262")
    return at
