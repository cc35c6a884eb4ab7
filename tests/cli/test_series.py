"""Promise: points are appended and read by source and time, in the unit of their series."""

from __future__ import annotations

import time

import pytest

import strandline
from strandline.cli.errors import FAILED, LOCKED, WRONG_USE
from tests.cli.conftest import Command, Program


@pytest.fixture
def gps(command: Command, data_dir: str) -> Command:
    """A series with three points of one source and one of another."""
    with strandline.open(data_dir) as store:
        series = store.series("gps")
        series.append_many([("bus", 10, b"a"), ("bus", 30, b"c"), ("tram", 5, b"t")])
        series.append("bus", 20, b"b", version=2)
    return command


def test_a_point_is_of_now_unless_told(command: Command):
    before = time.time_ns() // 1000
    made = command("series", "append", "gps", "bus", "48.1", "--output", "json").json
    after = time.time_ns() // 1000

    assert (made["source"], made["seq"]) == ("bus", 1)
    assert before <= made["at"] <= after


def test_a_time_is_told_as_a_number_or_a_date(command: Command):
    number = command("series", "append", "gps", "bus", "a", "--at", "-7", "--output", "json").json
    date = command(
        "series", "append", "gps", "bus", "a", "--at", "1970-01-01T00:00:01Z", "--output", "json"
    ).json

    assert (number["at"], date["at"]) == (-7, 1_000_000)


def test_a_date_is_counted_in_the_unit_of_the_series(command: Command):
    command("view", "create", "series", "gps", "--option", "unit=ms")

    made = command(
        "series", "append", "gps", "bus", "a", "--at", "1970-01-01T00:00:01Z", "--output", "json"
    ).json
    line = command("series", "latest", "gps").lines[1]

    assert made["at"] == 1000
    assert line.split() == ["bus", "1000", "1970-01-01T00:00:01.000000Z", "0", "a"]


def test_a_series_that_does_not_count_time_takes_whole_numbers_only(command: Command):
    command("view", "create", "series", "miles", "--option", "unit=mile")

    number = command("series", "append", "miles", "bus", "a", "--at", "3")
    date = command("series", "append", "miles", "bus", "a", "--at", "2026-01-01")
    now = command("series", "append", "miles", "bus", "a")

    assert (number.code, date.code, now.code) == (0, WRONG_USE, WRONG_USE)
    assert "counts in 'mile'" in date.err
    assert "give --at" in now.err


def test_a_payload_may_come_from_stdin(program: Program, data_dir: str):
    answer = program.run("series", "append", "gps", "bus", "--at", "1", stdin=b"\xff\n")

    assert answer.code == 0
    with strandline.open(data_dir, readonly=True) as store:
        assert store.series("gps").latest("bus").payload == b"\xff\n"


def test_a_range_is_in_the_order_of_time(gps: Command):
    table = gps("series", "range", "gps")
    points = gps("series", "range", "gps", "bus", "--output", "json").json

    assert [line.split()[0] for line in table.lines[1:]] == ["bus", "bus", "bus", "tram"]
    assert [(point["at"], point["payload"], point["version"]) for point in points] == [
        (10, "a", 0),
        (20, "b", 2),
        (30, "c", 0),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "20"], "bc"),
        (["--to", "20"], "tab"),
        (["--from", "15", "--to", "25"], "b"),
        (["bus", "--to", "1970-01-01"], ""),
        (["tram", "bus"], "tabc"),
        (["nobody"], ""),
        (["--limit", "1"], "ta"),
        (["--limit", "1", "--all"], "tabc"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_range_may_be_of_a_part(gps: Command, options, expected: str):
    answer = gps("series", "range", "gps", *options, "--output", "json")

    found = "".join(point["payload"] for point in answer.json)
    assert sorted(found) == sorted(expected)


def test_a_range_tells_where_to_go_on(gps: Command):
    answer = gps("series", "range", "gps", "--limit", "2")

    assert answer.err == "more points: bus --from 30\n"


def test_latest_is_of_some_sources_or_of_all(gps: Command):
    every = gps("series", "latest", "gps", "--output", "json").json
    one = gps("series", "latest", "gps", "bus", "--output", "json").json
    none = gps("series", "latest", "gps", "bus", "bs")

    assert [(point["source"], point["at"]) for point in every] == [("bus", 30), ("tram", 5)]
    assert [point["at"] for point in one] == [30]
    assert none.code == FAILED
    assert "no point of source 'bs'" in none.err


def test_stats_tell_how_points_came(gps: Command):
    stats = gps("series", "stats", "gps", "--output", "json").json

    assert (stats["sources"], stats["points"], stats["newest"]) == (2, 4, 30)
    assert (stats["normal"], stats["late_arrivals"], stats["unit"]) == (3, 1, "us")


def test_reading_works_beside_the_writer_and_writing_does_not(gps: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.series("gps").append("bus", 40, b"d")
        found = gps("series", "latest", "gps", "bus", "--output", "json")
        written = gps("series", "append", "gps", "bus", "e")

    assert found.json[0]["payload"] == "d"
    assert written.code == LOCKED


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["range", "gp"], "no topic 'gp'", "did you mean 'gps'?"),
        (["range", "plain"], "'plain' has no series view", "strandline view create series plain"),
        (["append", "plain", "x", "y"], "'plain' has no series view", "strandline view create"),
        (["append", "gps", "bus", "x", "--at", "noon"], "'noon' is not a valid time", "--help"),
        (["append", "gps", "bus", "x", "--at", "9" * 30], "not an integer of 64 bits", "--help"),
        (["append", "gps", "", "x"], "is not a name", "--help"),
        (["append", "gps", "bus", "x", "--version", "-1"], "version", "--help"),
        (["range", "gps", "--limit", "0"], "--limit", "--help"),
        (["range", "gps", "--from", "x"], "'x' is not a valid time", "--help"),
        (["range", "gps", "--form", "1"], "--form", "--from"),
        (["lastest", "gps"], '"lastest"', 'did you mean "latest"?'),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(gps: Command, tokens, message: str, hint: str):
    gps("append", "plain", "x")

    answer = gps("series", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second


def test_a_point_before_the_floor_is_refused(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        series = store.series("gps", retention=10)
        series.append("bus", 100, b"a")
        series.run_retention()

    answer = command("series", "append", "gps", "bus", "x", "--at", "5")

    assert answer.code == WRONG_USE
    assert "before the floor" in answer.err


def test_points_before_a_floor_are_forgotten_and_leave_the_log(command: Command, data_dir: str):
    for at in range(10):
        command("series", "append", "gps", "bus", "x", "--at", str(at))

    done = command("series", "retain", "gps", "--floor", "4", "--yes", "--output", "json")

    left = command("series", "range", "gps", "bus", "--output", "json").json
    assert done.json == {"floor": 4, "released": 4, "waiting": 0}
    assert [point["at"] for point in left] == [4, 5, 6, 7, 8, 9]
    with strandline.open(data_dir, readonly=True) as store:
        assert store.topic("gps").statistics().count == 7  # six points, and the floor
    refused = command("series", "append", "gps", "bus", "x", "--at", "3")
    assert "before the floor 4" in refused.err


def test_retention_is_what_the_series_says(command: Command):
    command("view", "create", "series", "gps", "--option", "retention=5")
    for at in (1, 4, 10):
        command("series", "append", "gps", "bus", "x", "--at", str(at))

    done = command("series", "retain", "gps", "--output", "json")

    assert done.json["floor"] == 5
    assert len(command("series", "range", "gps", "--output", "json").json) == 1


def test_a_series_that_keeps_everything_wants_a_floor(command: Command):
    command("series", "append", "gps", "bus", "x", "--at", "1")

    answer = command("series", "retain", "gps")

    assert answer.code == WRONG_USE
    assert "--floor" in answer.err
    assert "--option retention=" in answer.err
