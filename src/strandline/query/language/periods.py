"""Calendar periods: the hour, day, week, month or year of a time in a time zone. Pure.

A time is microseconds since 1970 in UTC. Its **label** is the local time, cut to the start of the
period, and written as if it were UTC. Two times are in the same period exactly when their labels
are the same: an hour that a clock shows twice is one hour.

    HOUR   minutes and less are 0              MONTH  the first day, 00:00
    DAY    00:00                               YEAR   the first of January, 00:00
    WEEK   00:00 of the last first day of a week

A period **starts** at the first time that has its label; where a clock skips that label, at the
skip. ``start`` of a time is the ``bucket`` of a result, and for UTC it is the label. SQL groups by
labels; the few labels of the result are converted to times here.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from strandline.errors import Invalid

Period = Literal["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]
WeekDay = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

WEEK_DAYS: tuple[WeekDay, ...] = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime.min - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max - _EPOCH) // _MICROSECOND
_EPOCH_WEEKDAY = 3
"""The first of January 1970 was a Thursday."""


class Calendar(msgspec.Struct, frozen=True):
    """The time zone of calendar periods, and the first day of a week."""

    timezone: str = "UTC"
    """A name of the tz database. Another one moves the start of every day."""
    week_start: WeekDay = "monday"

    @property
    def is_utc(self) -> bool:
        """Whether labels are times: no conversion is needed."""
        return self.timezone == "UTC"


DEFAULT_CALENDAR = Calendar()


def checked_calendar(timezone: str, week_start: str) -> Calendar:
    """A calendar from settings; rejects unknown names."""
    day = week_start.lower()
    if day not in WEEK_DAYS:
        raise Invalid(f"week_start must be one of {', '.join(WEEK_DAYS)}, not {week_start!r}")
    _zone(timezone)
    return Calendar(timezone, day)


def label(at_us: int, period: Period, calendar: Calendar = DEFAULT_CALENDAR) -> int:
    """The local time, cut to the start of the period."""
    local = at_us + _offset(at_us, calendar)
    match period:
        case "HOUR":
            return local - local % HOUR_US
        case "DAY":
            return local - local % DAY_US
        case "WEEK":
            days = local // DAY_US
            into = (days + _EPOCH_WEEKDAY - WEEK_DAYS.index(calendar.week_start)) % 7
            return (days - into) * DAY_US
        case "MONTH":
            return _micros(_clock(local).replace(day=1, hour=0, minute=0, second=0, microsecond=0))
        case "YEAR":
            return _micros(datetime(_clock(local).year, 1, 1))


def time_of_label(label_us: int, calendar: Calendar = DEFAULT_CALENDAR) -> int:
    """The time at which a period starts, from its label."""
    if calendar.is_utc:
        return label_us
    zone = _zone(calendar.timezone)
    offset = _clock(label_us).replace(tzinfo=zone, fold=0).utcoffset() or timedelta()
    return label_us - offset // _MICROSECOND


def start(at_us: int, period: Period, calendar: Calendar = DEFAULT_CALENDAR) -> int:
    """The start of the period that contains a time."""
    return time_of_label(label(at_us, period, calendar), calendar)


def _offset(at_us: int, calendar: Calendar) -> int:
    if calendar.is_utc:
        return 0
    # Within a day of the ends of the calendar the local year may be 0 or 10000.
    inside = min(max(at_us, _FIRST_US + DAY_US), _LAST_US - DAY_US)
    moment = _clock(inside).replace(tzinfo=UTC).astimezone(_zone(calendar.timezone))
    return (moment.utcoffset() or timedelta()) // _MICROSECOND


def _clock(local_us: int) -> datetime:
    return _EPOCH + min(max(local_us, _FIRST_US), _LAST_US) * _MICROSECOND


def _micros(clock: datetime) -> int:
    return (clock - _EPOCH) // _MICROSECOND


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(
            f"unknown time zone {name!r}: use a name of the tz database, such as Europe/Berlin"
        ) from error
