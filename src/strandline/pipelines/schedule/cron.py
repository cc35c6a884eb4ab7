"""Times at which a declared pipeline is due, in microseconds since 1970. Pure.

    every "6h"               multiples of the duration since 1970, UTC
    at "30 3 * * mon-fri"    minute, hour, day of the month, month, weekday, as in Debian's cron

``at`` is evaluated by the library cronsim in a time zone. When the clocks change, an expression
whose minute or hour begins with ``*`` follows local time. Any other is due once per named time: a
time that is skipped is due at the end of the gap, a time that occurs twice is due once.

However many due times have passed since the last run, one run serves all of them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strandline.errors import Invalid

SECOND_US = 1_000_000
MISSED_MAX = 1_000
"""Most missed due times that are counted."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CRON = (
    "minute 0-59, hour 0-23, day 1-31, month 1-12 or jan-dec, weekday 0-7 or sun-sat; "
    "each *, 5, 1-5, */15 or a list of those, as '30 3 * * mon-fri'"
)


class DueTimes(Protocol):
    """The times at which a pipeline is due."""

    def last(self, now_us: int) -> int | None:
        """The newest one that is not after now; None when there is none within years."""
        ...

    def next(self, after_us: int) -> int:
        """The first one after a time."""
        ...


class IntervalTimes:
    """Multiples of a duration."""

    def __init__(self, text: str) -> None:
        self._period_us = duration_s(text, "every") * SECOND_US

    def last(self, now_us: int) -> int | None:
        return now_us // self._period_us * self._period_us

    def next(self, after_us: int) -> int:
        return (after_us // self._period_us + 1) * self._period_us


class CalendarTimes:
    """Calendar times in a time zone."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        zone = zone_of(timezone)
        self._text = text
        self._zone = UTC if zone.key == "UTC" else zone  # no rules for clock changes
        if len(text.split()) != 5:
            raise Invalid(f"at {text!r} does not have five fields: {_CRON}")
        try:
            first = next(self._search(0), None)
        except (CronSimError, ValueError) as error:
            reason = str(error)[:1].lower() + str(error)[1:]
            raise Invalid(f"at {text!r}: {reason}: {_CRON}") from error
        if first is None:
            raise Invalid(f"at {text!r} never occurs: there is no such day")

    def last(self, now_us: int) -> int | None:
        # Around clock changes a search back may miss a time, or find one that no search forward
        # finds: so it only gives the start of a search forward.
        for earlier in self._search(now_us + SECOND_US, reverse=True):
            point = self.next(_microseconds(earlier) - SECOND_US)
            if point <= now_us:
                while (later := self.next(point)) <= now_us:
                    point = later
                return point
        return None

    def next(self, after_us: int) -> int:
        for match in self._search(after_us):
            point = _microseconds(match)
            if point > after_us:  # a time in an hour that occurs twice may be in the past
                return point
        raise AssertionError("a time that occurred once occurs again within 50 years")

    def _search(self, from_us: int, *, reverse: bool = False) -> CronSim:
        start = (_EPOCH + timedelta(microseconds=max(0, from_us))).astimezone(self._zone)
        return CronSim(self._text, start, reverse)


def due_time(points: DueTimes, served_us: int, now_us: int) -> int | None:
    """The newest due time, if it is after ``served_us``; else None."""
    last = points.last(now_us)
    return last if last is not None and last > served_us else None


def served_after_jump(points: DueTimes, served_us: int, now_us: int) -> int:
    """The time up to which due times are served, after the clock may have been set back.

    A clock that is set back a little reaches the same due time again, which must not count twice.
    If another due time lies between, the clock was far ahead: then ``served_us`` is discarded.
    """
    return now_us if points.next(now_us) < served_us else served_us


def missed_count(points: DueTimes, served_us: int, due_us: int) -> int:
    """The number of due times between the last served one and the due one."""
    count, point = 0, points.next(served_us)
    while point < due_us and count < MISSED_MAX:
        count, point = count + 1, points.next(point)
    return count


def duration_s(text: str, what: str) -> int:
    """A duration such as 30s, 15m, 6h, 1d, 1w in seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or not int(match[1]):
        raise Invalid(f"{what} is a duration: 30s, 15m, 6h, 1d or 1w, not {text!r}")
    return int(match[1]) * _UNITS_S[match[2]]


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(f"timezone {name!r} is not in the tz database: as Europe/Zurich") from error


def _microseconds(local: datetime) -> int:
    return (local.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
