"""Promise: a period is what calendars and clocks where people live say it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.query.language.periods import (
    DAY_US,
    DEFAULT_CALENDAR,
    WEEK_DAYS,
    Calendar,
    checked_calendar,
    label,
    start,
    time_of_label,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PERIODS = ["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]
ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia"]


def us(text: str) -> int:
    return (datetime.fromisoformat(text).astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("period", "at", "expected"),
    [
        ("HOUR", "2026-03-04T05:59:59.999999Z", "2026-03-04T05:00Z"),
        ("DAY", "2026-03-04T00:00Z", "2026-03-04T00:00Z"),
        ("DAY", "2026-03-03T23:59:59.999999Z", "2026-03-03T00:00Z"),
        ("WEEK", "2026-03-01T23:59Z", "2026-02-23T00:00Z"),
        ("WEEK", "2026-03-02T00:00Z", "2026-03-02T00:00Z"),
        ("MONTH", "2024-02-29T12:00Z", "2024-02-01T00:00Z"),
        ("YEAR", "2024-12-31T23:59Z", "2024-01-01T00:00Z"),
        ("HOUR", "1969-12-31T23:30Z", "1969-12-31T23:00Z"),
        ("WEEK", "1969-12-28T23:30Z", "1969-12-22T00:00Z"),
        ("YEAR", "1969-12-31T23:30Z", "1969-01-01T00:00Z"),
    ],
)
def test_a_moment_is_in_the_period_that_started_last(period, at, expected):
    assert start(us(at), period) == us(expected)


def test_a_week_starts_with_the_day_that_was_set():
    sunday = us("2026-03-01T12:00Z")

    assert start(sunday, "WEEK", Calendar("UTC", "sunday")) == us("2026-03-01T00:00Z")
    assert start(sunday, "WEEK", Calendar("UTC", "monday")) == us("2026-02-23T00:00Z")
    assert start(sunday, "WEEK", Calendar("UTC", "saturday")) == us("2026-02-28T00:00Z")


def test_a_day_starts_at_midnight_where_people_live():
    berlin, kolkata = Calendar("Europe/Berlin"), Calendar("Asia/Kolkata")

    assert start(us("2026-01-01T22:59Z"), "DAY", berlin) == us("2025-12-31T23:00Z")
    assert start(us("2026-01-01T23:00Z"), "DAY", berlin) == us("2026-01-01T23:00Z")
    assert start(us("2026-07-01T22:00Z"), "MONTH", berlin) == us("2026-06-30T22:00Z")
    assert start(us("2026-01-01T00:29Z"), "HOUR", kolkata) == us("2025-12-31T23:30Z")


def test_a_day_with_a_change_of_clocks_is_one_day():
    berlin = Calendar("Europe/Berlin")

    first, last = us("2026-03-28T23:00Z"), us("2026-03-29T21:59Z")

    assert start(first, "DAY", berlin) == start(last, "DAY", berlin) == first
    assert start(us("2026-03-29T22:00Z"), "DAY", berlin) == us("2026-03-29T22:00Z")


def test_an_hour_that_a_clock_shows_twice_is_one():
    berlin = Calendar("Europe/Berlin")

    found = {start(us(f"2026-10-25T0{hour}:30Z"), "HOUR", berlin) for hour in (0, 1)}

    assert found == {us("2026-10-25T00:00Z")}


def test_a_day_without_midnight_starts_when_the_clock_jumps():
    brazil = Calendar("America/Sao_Paulo")

    assert start(us("2018-11-04T12:00Z"), "DAY", brazil) == us("2018-11-04T03:00Z")


def test_for_utc_the_label_is_the_moment():
    assert time_of_label(12345, DEFAULT_CALENDAR) == 12345


@given(
    at=st.datetimes(datetime(1950, 1, 1), datetime(2080, 1, 1)),
    period=st.sampled_from(PERIODS),
    zone=st.sampled_from(ZONES),
    first=st.sampled_from(WEEK_DAYS),
)
def test_moments_share_a_period_exactly_when_clocks_show_the_same_one(at, period, zone, first):
    calendar = Calendar(zone, first)
    at_us = (at.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    clock = at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)

    shown = datetime(1970, 1, 1) + timedelta(microseconds=label(at_us, period, calendar))

    assert shown <= clock
    assert (shown.minute, shown.second, shown.microsecond) == (0, 0, 0)
    assert (shown.year, shown.month, shown.day) <= (clock.year, clock.month, clock.day)
    match period:
        case "HOUR":
            assert clock - shown < timedelta(hours=1)
        case "DAY":
            assert shown.date() == clock.date()
            assert shown.hour == 0
        case "WEEK":
            assert WEEK_DAYS[shown.weekday()] == first
            assert clock - shown < timedelta(days=7)
        case "MONTH":
            assert (shown.year, shown.month, shown.day) == (clock.year, clock.month, 1)
        case "YEAR":
            assert (shown.year, shown.month, shown.day) == (clock.year, 1, 1)


@given(
    at=st.datetimes(datetime(1950, 1, 1), datetime(2080, 1, 1)),
    period=st.sampled_from(PERIODS),
    zone=st.sampled_from(ZONES),
)
def test_a_start_is_in_its_own_period_and_not_behind_the_moment(at, period, zone):
    calendar = Calendar(zone)
    at_us = (at.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)

    found = start(at_us, period, calendar)

    assert found <= at_us
    assert start(found, period, calendar) == found


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Midway"])
def test_the_ends_of_the_calendar_have_periods(period, zone):
    for year in (datetime.min, datetime.max):
        at_us = (year.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)

        assert abs(start(at_us, period, Calendar(zone)) - at_us) <= 367 * DAY_US


def test_an_unknown_zone_or_day_is_refused():
    assert checked_calendar("Europe/Berlin", "Sunday") == Calendar("Europe/Berlin", "sunday")
    with pytest.raises(Invalid, match="unknown time zone"):
        checked_calendar("Europe/Atlantis", "monday")
    with pytest.raises(Invalid, match="week_start must be one of"):
        checked_calendar("UTC", "someday")
