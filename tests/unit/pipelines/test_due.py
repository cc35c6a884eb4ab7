"""Promise: a declared pipeline is due at the times that it says, once for all that were missed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from strandline.errors import Invalid
from strandline.pipelines.schedule.cron import (
    MISSED_MAX,
    CalendarTimes,
    IntervalTimes,
    due_time,
    duration_s,
    missed_count,
    served_after_jump,
)


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def told(moment_us: int) -> str:
    return f"{datetime.fromtimestamp(moment_us / 1e6, UTC):%Y-%m-%dT%H:%M}"


def following(points: CalendarTimes, after: str, count: int) -> list[str]:
    found, moment = [], us(after)
    for _ in range(count):
        moment = points.next(moment)
        found.append(told(moment))
    return found


def test_every_is_due_at_its_multiples():
    points = IntervalTimes("6h")

    assert told(points.next(us("2026-11-17T03:10"))) == "2026-11-17T06:00"
    assert told(points.next(us("2026-11-17T06:00"))) == "2026-11-17T12:00"
    assert told(points.last(us("2026-11-17T06:00"))) == "2026-11-17T06:00"
    assert told(points.last(us("2026-11-17T05:59"))) == "2026-11-17T00:00"


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("30 3 * * *", ["2026-11-18T03:30", "2026-11-19T03:30"]),
        ("*/20 7-8 * * *", ["2026-11-18T07:00", "2026-11-18T07:20", "2026-11-18T07:40"]),
        ("5/25 0 * * *", ["2026-11-18T00:05", "2026-11-18T00:30", "2026-11-18T00:55"]),
        ("0 9 * * mon,fri", ["2026-11-20T09:00", "2026-11-23T09:00", "2026-11-27T09:00"]),
        ("0 9 * * 7", ["2026-11-22T09:00", "2026-11-29T09:00"]),
        ("0 9 * * 0", ["2026-11-22T09:00", "2026-11-29T09:00"]),
        ("0 0 1 jan *", ["2027-01-01T00:00", "2028-01-01T00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 1 * sat", ["2026-11-21T00:00", "2026-11-28T00:00", "2026-12-01T00:00"]),
        ("0 0 */10 * sat", ["2026-11-21T00:00", "2027-05-01T00:00", "2027-07-31T00:00"]),
        ("0 0 13 * */5", ["2026-12-13T00:00", "2027-06-13T00:00", "2027-08-13T00:00"]),
        ("0 0 L * *", ["2026-11-30T00:00", "2026-12-31T00:00"]),
        ("0 0 * * fri#2", ["2026-12-11T00:00", "2027-01-08T00:00"]),
    ],
)
def test_at_is_due_as_cron_says(at, expected):
    assert following(CalendarTimes(at), "2026-11-17T12:00", len(expected)) == expected


@pytest.mark.parametrize("at", ["30 3 * * *", "0 9 * * mon", "*/7 * * * *", "0 0 29 2 *"])
def test_the_last_point_is_the_one_that_the_next_one_followed(at):
    points = CalendarTimes(at, "Europe/Zurich")

    moment = us("2026-03-28T12:00")
    for _ in range(40):
        following_one = points.next(moment)
        assert points.last(following_one) == following_one
        assert points.last(following_one - 1) in (points.last(moment), None)
        moment = following_one


def test_at_is_meant_in_its_time_zone_in_summer_and_winter():
    points = CalendarTimes("0 3 * * *", "Europe/Zurich")

    assert following(points, "2026-10-24T00:00", 3) == [
        "2026-10-24T01:00",
        "2026-10-25T02:00",
        "2026-10-26T02:00",
    ]


def test_a_time_that_the_clocks_leave_out_comes_at_the_end_of_the_gap():
    points = CalendarTimes("30 2 * * *", "Europe/Zurich")

    assert following(points, "2026-03-28T12:00", 2) == ["2026-03-29T01:00", "2026-03-30T00:30"]


def test_every_hour_is_due_also_in_the_hour_that_comes_twice():
    points = CalendarTimes("0 * * * *", "Europe/Zurich")

    assert following(points, "2026-10-24T23:30", 3) == [
        "2026-10-25T00:00",
        "2026-10-25T01:00",
        "2026-10-25T02:00",
    ]
    assert told(points.last(us("2026-10-25T01:30"))) == "2026-10-25T01:00"


def test_a_time_that_has_come_stays_the_last_one_while_the_clocks_show_it_again():
    points = CalendarTimes("30 2 * * *", "Europe/Zurich")

    assert told(points.last(us("2026-10-25T01:15"))) == "2026-10-25T00:30"  # 02:15 the second time
    assert told(points.next(us("2026-10-25T01:15"))) == "2026-10-26T01:30"


def test_a_time_that_comes_twice_counts_once():
    points = CalendarTimes("30 2 * * *", "Europe/Zurich")

    assert following(points, "2026-10-24T12:00", 2) == ["2026-10-25T00:30", "2026-10-26T01:30"]


def test_missed_points_are_due_as_one():
    points = IntervalTimes("1h")
    served, now = us("2026-11-17T03:00"), us("2026-11-17T08:20")

    due = due_time(points, served, now)

    assert told(due) == "2026-11-17T08:00"
    assert missed_count(points, served, due) == 4
    assert due_time(points, due, now) is None
    assert missed_count(IntervalTimes("1s"), 0, us("2026-11-17T08:00")) == MISSED_MAX


def test_a_clock_that_is_set_back_a_little_does_not_serve_a_point_twice():
    points = IntervalTimes("1h")
    served = us("2026-11-17T03:00")

    now = served - 5_000_000
    assert served_after_jump(points, served, now) == served
    assert due_time(points, served_after_jump(points, served, now), served + 1) is None


def test_a_clock_that_was_far_ahead_is_not_waited_for():
    points = IntervalTimes("1h")
    served, now = us("2036-11-17T03:00"), us("2026-11-17T03:10")

    assert due_time(points, served_after_jump(points, served, now), now) is None
    assert served_after_jump(points, served, now) == now


@pytest.mark.parametrize(
    "at",
    [
        *("", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"),
        *("a * * * *", "5-1 * * * *", "*/0 * * * *", "0 0 30 2 *", "1,,2 * * * *", "-1 * * * *"),
        *("0 0 * * * *", "@daily", f"{'9' * 5000} * * * *", "0 0 * 2 mon#x", "0 0 L/x * *"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(at):
    with pytest.raises(Invalid, match="at "):
        CalendarTimes(at)


def test_the_error_of_a_bad_time_names_the_field_and_what_it_may_be():
    with pytest.raises(Invalid, match=r"'5 25 \* \* \*': bad hour: minute 0-59, hour 0-23"):
        CalendarTimes("5 25 * * *")
    with pytest.raises(Invalid, match="does not have five fields: minute 0-59"):
        CalendarTimes("@daily")


@pytest.mark.parametrize("text", ["", "0s", "6", "6 hours", "-1h", "1.5h", "h"])
def test_a_duration_that_makes_no_sense_is_refused(text):
    with pytest.raises(Invalid, match="every is a duration"):
        duration_s(text, "every")


def test_a_time_zone_that_nobody_knows_is_refused():
    with pytest.raises(Invalid, match="Mars/Olympus"):
        CalendarTimes("0 0 * * *", "Mars/Olympus")
