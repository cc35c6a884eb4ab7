"""Promise: a series of a server takes, gives and refuses what one of an open store does."""

from __future__ import annotations

import pytest

from strandline import AppendResult, Invalid, PointsRefused, StrandlineError
from strandline.views.series.values import (
    AppendedPoints,
    AvailablePoints,
    Point,
    RefusedPoint,
    RetentionResult,
    SeriesStatistics,
)


@pytest.fixture
def series(store, name):
    return store.series(name)


@pytest.fixture
def buses(series):
    series.append_many([("bus", at, b"%d" % at) for at in range(10)], version=2)
    series.append_many([(17, 5, b"\0\xff"), (b"\xff", 6, b"")])
    return series


def test_a_point_comes_back(series):
    appended = series.append("bus", 5, b"\0\xff", version=3)

    (point,) = series.range("bus")

    assert appended == AppendResult(1, 1, 1)
    assert point == Point(b"bus", 5, b"\0\xff", 3, 1)
    assert series.latest("bus") == point
    assert series.latest("nobody") is None


def test_points_come_by_source_and_time(buses):
    assert [point.at for point in buses.range("bus", 3, 5)] == [3, 4, 5]
    assert [point.at for point in buses.range("bus", 3, limit=1)] == [3]
    assert buses.range("nobody") == []
    found = buses.range(["17", b"\xff", "nobody"])
    assert list(found) == ["17", b"\xff", "nobody"]
    assert [point.payload for point in found["17"]] == [b"\0\xff"]
    assert found["nobody"] == []
    assert buses.range([]) == {}


def test_all_sources_at_once(buses):
    found = buses.range_all(limit=2)

    assert list(found) == [b"17", b"bus", b"\xff"]
    assert [point.at for point in found[b"bus"]] == [0, 1]
    assert list(buses.range_all(7)) == [b"bus"]
    latest = buses.read_latest()
    assert [point.at for point in latest.values()] == [5, 9, 6]
    assert list(latest) == [b"17", b"bus", b"\xff"]


def test_the_first_that_is_available(buses):
    found = buses.range_from_available(["bus", 17], 4, 1)

    assert isinstance(found, AvailablePoints)
    assert found.end == 5
    assert [point.at for point in found.points["bus"]] == [4, 5]
    assert [point.at for point in found.points[17]] == [5]
    assert buses.range_from_available(["bus"], 100, 1) == AvailablePoints(None, {})
    assert buses.earliest() == 0
    assert buses.earliest(["bus"], 3) == 3
    assert buses.earliest(["nobody"]) is None


def test_points_are_visited_until_it_is_enough(buses):
    seen: list[Point] = []

    count = buses.visit(seen.append)
    some = buses.visit(lambda point: point.at < 2, ["bus"])

    assert count == len(seen) == 12
    assert [point.source for point in seen[:2]] == [b"17", b"bus"]
    assert some == 3
    assert buses.visit(seen.append, ["bus"], 3, 4, limit=1) == 1
    assert [point.at for point in buses.points(["bus", 17], 5)] == [5, 6, 7, 8, 9, 5]


@pytest.mark.parametrize("count", [2, 500])
def test_batches_of_any_size(series, count):
    appended = series.append_many(
        ((f"s{number % 7}", number, b"\xff" * 10) for number in range(count)), version=1
    )

    assert appended == AppendResult(1, count, count)
    points = [point for points in series.range_all().values() for point in points]
    assert len(points) == count
    assert {point.version for point in points} == {1}
    assert {point.payload for point in points} == {b"\xff" * 10}


def test_equal_times_come_in_the_order_they_came(series):
    series.append_many([("a", 1, b"first"), ("a", 1, b"second")])

    assert [point.payload for point in series.range("a")] == [b"first", b"second"]
    assert series.latest("a").payload == b"second"


def test_the_numbers_of_64_bits_are_times(series):
    series.append("a", -(2**63), b"")
    series.append("a", 2**63 - 1, b"")

    assert [point.at for point in series.range("a")] == [-(2**63), 2**63 - 1]


def test_retention_forgets_and_refuses(buses):
    done = buses.run_retention(5)

    assert isinstance(done, RetentionResult)
    assert done.floor == 5
    assert [point.at for point in buses.range("bus")] == [5, 6, 7, 8, 9]
    with pytest.raises(Invalid):
        buses.append("bus", 4, b"")
    assert buses.run_retention(1).floor == 5


def test_a_series_tells_its_numbers(buses):
    told = buses.statistics()

    assert isinstance(told, SeriesStatistics)
    assert (told.unit, told.sources, told.points, told.newest) == ("us", 3, 12, 9)
    assert (told.floor, told.normal, told.refused) == (None, 12, 0)


def test_payloads_are_read_by_version(series):
    series.versions.register(1, bytes.decode)
    series.append("a", 1, b"text", version=1)

    point = series.latest("a")

    assert series.versions.deserialize(point.version, point.payload) == "text"


REFUSED = {
    "no source": (Invalid, lambda series: series.append("", 1, b"")),
    "source is a float": (Invalid, lambda series: series.append(1.5, 1, b"")),
    "at is a float": (Invalid, lambda series: series.append("a", 1.0, b"")),
    "at of 65 bits": (Invalid, lambda series: series.append("a", 2**63, b"")),
    "payload is text": (Invalid, lambda series: series.append("a", 1, "x")),
    "version below 0": (Invalid, lambda series: series.append("a", 1, b"", version=-1)),
    "no points": (Invalid, lambda series: series.append_many([])),
    "points of two": (Invalid, lambda series: series.append_many([("a", 1)])),
    "start as text": (Invalid, lambda series: series.range("a", "0")),
    "limit below 0": (Invalid, lambda series: series.range("a", limit=-1)),
    "window as text": (Invalid, lambda series: series.range_from_available(["a"], 0, "1")),
    "floor as text": (Invalid, lambda series: series.run_retention("1")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(series, what):
    kind, verb = REFUSED[what]

    with pytest.raises(StrandlineError) as refused:
        verb(series)

    assert refused.type is kind


def test_options_are_those_it_was_made_with(store, name):
    series = store.series(name, unit="ms", jitter=5)

    assert series.statistics().unit == "ms"
    with pytest.raises(Invalid):
        store.series(name, unit="s")


@pytest.mark.parametrize("count", [4, 500])
def test_refused_points_are_named_and_nothing_is_appended(series, count):
    series.run_retention(10)
    points = [("a", 10 + number if number % 2 else number % 5, b"") for number in range(count)]

    with pytest.raises(PointsRefused, match=f"{count // 2} of {count} points") as refused:
        series.append_many(points)

    expected = tuple((place, place % 5, "floor") for place in range(0, count, 2))
    assert refused.value.refused == expected
    assert series.range_all() == {}
    assert series.statistics().refused == count // 2


@pytest.mark.parametrize("count", [4, 500])
def test_refused_points_are_dropped_and_returned_when_the_caller_says_so(series, count):
    series.run_retention(10)
    points = [("a", 10 + number if number % 2 else number % 5, b"") for number in range(count)]

    appended = series.append_many(points, drop_refused=True)

    expected = tuple(RefusedPoint(place, place % 5, "floor") for place in range(0, count, 2))
    assert isinstance(appended, AppendedPoints)
    assert appended.refused == expected
    assert appended.last_seq - appended.first_seq + 1 == count // 2
    assert len(series.range("a")) == count // 2
    assert series.statistics().refused == count // 2


def test_of_a_batch_that_is_dropped_whole_nothing_is_appended(series):
    series.append("a", 100, b"")
    series.run_retention(10)

    appended = series.append_many([("a", 9, b"")], drop_refused=True)

    assert appended.last_seq < appended.first_seq
    assert appended.refused == (RefusedPoint(0, 9, "floor"),)
    assert len(series.range("a")) == 1


def test_a_point_too_far_in_the_future_is_refused(store, name):
    series = store.series(name, future_max=60_000_000)
    far = 2**62

    with pytest.raises(PointsRefused, match="in the future") as refused:
        series.append("a", far, b"")
    dropped = series.append_many([("a", 1, b""), ("a", far, b"")], drop_refused=True)

    assert refused.value.refused == ((0, far, "future"),)
    assert dropped.refused == (RefusedPoint(1, far, "future"),)
    assert series.statistics().newest == 1


@pytest.mark.parametrize("options", [{"future_max": 1}, {"retention_by": "clock"}])
def test_the_clock_needs_a_unit_of_time(store, name, options):
    with pytest.raises(Invalid, match="unit of time"):
        store.series(name, unit="frames", **options)
