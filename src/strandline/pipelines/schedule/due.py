"""When a declared pipeline is due: points in time, in microseconds since 1970. Pure.

    every "6h"               multiples of the duration since 1970, UTC
    at "30 3 * * mon-fri"    minute, hour, day of the month, month, weekday, as in cron: *, 5, 1-5,
                             */15, 1,15, names of months and weekdays; 0 and 7 are Sunday. When day
                             and weekday are both told, either will do

``at`` is meant in a time zone. A time that a change of the clocks leaves out comes an hour later,
one that comes twice counts the first time.

However many points have passed since the last run, one run makes up for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from strandline.errors import Invalid

SECOND_US = 1_000_000
MISSED_MAX = 1_000
"""Points that are counted when many were missed."""

_DAYS_MAX = 366 * 8 + 2  # 29 February leaves out 2100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, (), 0),
    ("hour", 0, 23, (), 0),
    ("day", 1, 31, (), 0),
    ("month", 1, 12, _MONTHS, 1),
    ("weekday", 0, 7, _WEEKDAYS, 0),
)


class Points(Protocol):
    """The points in time at which something is due."""

    def last(self, now_us: int) -> int | None:
        """The newest that is not after now; None when there is none in years."""
        ...

    def next(self, after_us: int) -> int:
        """The first after a moment."""
        ...


class Every:
    """Multiples of a duration."""

    def __init__(self, text: str) -> None:
        self._period_us = duration_s(text, "every") * SECOND_US

    def last(self, now_us: int) -> int | None:
        return now_us // self._period_us * self._period_us

    def next(self, after_us: int) -> int:
        return (after_us // self._period_us + 1) * self._period_us


class At:
    """Times of the calendar of some place."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        fields = text.lower().split()
        if len(fields) != len(_FIELDS):
            raise Invalid(
                f"at is minute, hour, day, month and weekday, as '30 3 * * *', not {text!r}"
            )
        values = [_values(field, *about) for field, about in zip(fields, _FIELDS, strict=True)]
        minutes, hours, self._days, self._months, weekdays = values
        self._weekdays = {day % 7 for day in weekdays}
        self._either = fields[2] != "*" and fields[4] != "*"
        self._times = [time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
        self._zone = zone_of(timezone)
        if next(self._of_days(_EPOCH.date(), 1), None) is None:
            raise Invalid(f"at {text!r} never comes: there is no such day")

    def last(self, now_us: int) -> int | None:
        today = self._date(now_us + 86_400 * SECOND_US)
        for points in self._of_days(today, -1):
            for point in reversed(points):
                if point <= now_us:
                    return point
        return None

    def next(self, after_us: int) -> int:
        today = self._date(after_us - 86_400 * SECOND_US)
        for points in self._of_days(today, 1):
            for point in points:
                if point > after_us:
                    return point
        raise AssertionError("a time that comes in eight years from 1970 on comes again")

    def _date(self, moment_us: int) -> date:
        moment = _EPOCH + timedelta(microseconds=max(0, moment_us))
        return moment.astimezone(self._zone).date()

    def _of_days(self, first: date, step: int) -> Iterator[Sequence[int]]:
        """The points of each day that has some, going one way."""
        day = first
        for _ in range(_DAYS_MAX):
            if self._is_meant(day):
                made = {_moment(datetime.combine(day, each, self._zone)) for each in self._times}
                yield sorted(made)
            day += timedelta(days=step)

    def _is_meant(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        by_day, by_weekday = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        return by_day or by_weekday if self._either else by_day and by_weekday


def due_point(points: Points, served_us: int, now_us: int) -> int | None:
    """The newest point that has come since those up to a moment were served."""
    last = points.last(now_us)
    return last if last is not None and last > served_us else None


def served_after_jump(points: Points, served_us: int, now_us: int) -> int:
    """Up to where points are served, when the clock may have been set back since.

    A clock that is set back a little comes to the same point again, which must not count twice.
    With a further point before that, it was far ahead: then what it said is forgotten.
    """
    return now_us if points.next(now_us) < served_us else served_us


def missed_points(points: Points, served_us: int, due_us: int) -> int:
    """How many points lie between what was served and what is due."""
    count, point = 0, points.next(served_us)
    while point < due_us and count < MISSED_MAX:
        count, point = count + 1, points.next(point)
    return count


def duration_s(text: str, what: str) -> int:
    """A duration such as 30s, 15m, 6h, 1d, 1w in seconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise Invalid(f"{what} is a duration: 30s, 15m, 6h, 1d or 1w, not {text!r}")
    return int(found[1]) * _UNITS_S[found[2]]


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(f"timezone {name!r} is not in the tz database: as Europe/Zurich") from error


def _moment(local: datetime) -> int:
    return (local.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _values(
    text: str, what: str, low: int, high: int, names: Sequence[str], first: int
) -> set[int]:
    """The numbers that a field of ``at`` stands for."""
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        begin, dash, end = span.partition("-")
        try:
            step = int(step_text) if slash else 1
            if span == "*":
                least, most = low, high if what != "weekday" else 6
            else:
                least = _number(begin, names, first)
                most = _number(end, names, first) if dash else (high if slash else least)
        except ValueError:
            raise Invalid(f"at: {part!r} is no {what}") from None
        if not (low <= least <= most <= high and step > 0):
            raise Invalid(f"at: {part!r} is no {what}: those are {low} to {high}")
        found.update(range(least, most + 1, step))
    return found


def _number(text: str, names: Sequence[str], first: int) -> int:
    return names.index(text) + first if text in names else int(text)
