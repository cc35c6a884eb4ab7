"""Promise: a time in a command means what the same time means in an event."""

from __future__ import annotations

import math

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.query.language.times import DAY_US, parse_day, parse_duration, parse_time
from strandline.schema import Schema

SHAPE = typed_columns_of(Schema(1, {"at": "datetime", "on": "date"}))
SECOND_US = 1_000_000


def in_an_event(value: object) -> tuple[int | None, int | None]:
    """The moment and the day that events get from the same value."""
    data = msgspec.json.encode({"at": value, "on": value})
    at, on = SHAPE.derive(pa.chunked_array([pa.array([data], pa.binary())]))
    return at.cast(pa.int64()).to_pylist()[0], on.cast(pa.int32()).to_pylist()[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01T00:00:01Z", SECOND_US),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01 00:00:01Z", SECOND_US),
        ("1970-01-02", DAY_US),
        (" 1970-01-02 ", DAY_US),
        (1, SECOND_US),
        (-1, -SECOND_US),
        (1.5, 1_500_000),
        (1_767_225_600, 1_767_225_600 * SECOND_US),
        (1_767_225_600_123, 1_767_225_600_123_000),
        (1_767_225_600_123_456, 1_767_225_600_123_456),
        (1_767_225_600_123_456_789, 1_767_225_600_123_456),
        ("1767225600", 1_767_225_600 * SECOND_US),
        ("1767225600.5", 1_767_225_600_500_000),
        ("-1", -SECOND_US),
    ],
)
def test_a_moment_is_microseconds_since_1970(value, expected):
    assert parse_time(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "soon", "now", "2026-01-02T03:04:05", "2026-13-01", "2026-02-30", "12:00", "1e"),
        *("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-01:00", "9" * 30, "1" * 5000),
        *(10**19, -(10**19), 1e13, math.inf, -math.inf, math.nan, 10**400),
    ],
)
def test_what_is_no_time_is_an_error_with_a_hint(value):
    with pytest.raises(Invalid, match="is not a time: write"):
        parse_time(value)


def test_a_day_is_that_of_the_moment_in_utc():
    assert parse_day("1970-01-02T23:59:59Z") == 1
    assert parse_day("1970-01-02T23:59:59-01:00") == 2
    assert parse_day(-1) == -1


@given(st.datetimes(timezones=st.timezones()) | st.integers() | st.floats() | st.text())
@example("0001-01-01")
@example("9999-12-31T23:59:59.999999Z")
@example("2026-01-02T03:04:05.1234567891Z")
@example(10**11 - 1)
@example(10**11)
@example(10**14)
@example(10**16)
def test_a_moment_is_the_same_in_a_command_and_in_an_event(value):
    given = value if isinstance(value, (int, float, str)) else value.isoformat()
    try:
        at, on = in_an_event(given)
    except msgspec.ValidationError:
        at, on = None, None

    if isinstance(given, str) and given.strip().lstrip("+-").replace(".", "").isdigit():
        return  # a number in quotes is taken here, and in no event

    if at is None:
        with pytest.raises(Invalid):
            parse_time(given)
    else:
        assert parse_time(given) == at
        assert parse_day(given) == on


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5m", 300 * SECOND_US),
        ("5 MINUTES", 300 * SECOND_US),
        (" 1 day ", DAY_US),
        ("1.5h", 5400 * SECOND_US),
        ("2w", 14 * DAY_US),
        ("250ms", 250_000),
        ("7us", 7),
        ("7µs", 7),
        ("0s", 0),
        ("0.25 seconds", 250_000),
    ],
)
def test_a_duration_is_a_number_with_a_unit(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "m", "-5m", "5 parsecs", "5m 3s", "1e3s", "9" * 18 + "w"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(Invalid):
        parse_duration(text)
