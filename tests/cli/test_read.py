"""Promise: read and tail show what is there, from where asked, and say what is gone (B3)."""

from __future__ import annotations

import re

import pytest

import strandline
from strandline.cli.options import byte_count, microseconds, milliseconds
from strandline.errors import Invalid
from tests.cli.conftest import Answer, Command


@pytest.fixture
def numbers(command: Command, data_dir: str) -> Command:
    """A topic with ten records of two nodes."""
    with strandline.open(data_dir) as store:
        topic = store.topic("numbers")
        for number in range(1, 11):
            topic.append(b"n%d" % number, node=f"node{number % 2}")
    return command


def test_read_begins_behind_the_cursor_and_stops_at_the_limit(numbers: Command):
    answer = numbers("read", "numbers", "--after", "3", "--limit", "2", "--output", "jsonl")

    assert _data(answer) == ["n4", "n5"]


def test_read_tells_how_to_go_on(numbers: Command):
    some = numbers("read", "numbers", "--limit", "4")
    rest = numbers("read", "numbers", "--after", "4", "--limit", "100")

    assert "--after 4 (head 10)" in some.err
    assert rest.err == ""


def test_read_all_ignores_the_limit(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("many").append_many([b"%d" % number for number in range(2500)])

    answer = command("read", "many", "--all", "--output", "jsonl")

    assert _data(answer) == [str(number) for number in range(2500)]


def test_read_spares_a_node_its_own_records(numbers: Command):
    answer = numbers("read", "numbers", "--node", "node1", "--output", "jsonl")

    assert _data(answer) == ["n2", "n4", "n6", "n8", "n10"]


def test_read_begins_at_a_time_in_microseconds_or_iso(numbers: Command):
    records = numbers("read", "numbers", "--output", "json").json
    ts = records[6]["ts"]
    text = numbers("read", "numbers", "--after", "6", "--limit", "1").lines[1].split()[1]

    by_number = numbers("read", "numbers", "--at", str(ts), "--output", "json").json
    by_text = numbers("read", "numbers", "--at", text, "--output", "json").json

    assert by_number == by_text == [record for record in records if record["ts"] >= ts]


def test_tail_shows_the_newest(numbers: Command):
    answer = numbers("tail", "numbers", "-n", "3", "--output", "jsonl")

    assert _data(answer) == ["n8", "n9", "n10"]


def test_tail_looks_further_back_when_the_newest_are_deleted(numbers: Command):
    numbers("append", "numbers", *("gone" for _ in range(50)), "--tag", "gone")
    numbers("topic", "trim", "numbers", "--match", "gone", "--yes")

    answer = numbers("tail", "numbers", "-n", "2", "--output", "jsonl")

    assert _data(answer) == ["n9", "n10"]


def test_tail_of_nothing_is_nothing(numbers: Command):
    numbers("topic", "create", "empty")

    assert numbers("tail", "empty", "--output", "json").json == []
    assert numbers("tail", "numbers", "-n", "0", "--output", "json").json == []
    assert numbers("read", "empty").out == ""


@pytest.mark.parametrize("shape", ["table", "json", "jsonl"])
def test_lost_records_are_said_where_they_are_missing(command: Command, shape: str):
    command("topic", "create", "capped", "--cap-records", "2")
    command("append", "capped", "a", "b", "c", "d", "e")

    answer = command("read", "capped", "--output", shape)

    if shape == "table":
        assert answer.lines[0] == "-- records 1 to 3 are gone (cap) --"
        assert [line.split()[-1] for line in answer.lines[2:]] == ["d", "e"]
    else:
        first, *rest = answer.json if shape == "json" else answer.json_lines
        gap = {"gap_from": 1, "gap_to": 3, "reason": "cap", "missed": 3}
        assert first == {"tombstone": gap}
        assert [record["data"] for record in rest] == ["d", "e"]


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        (["--after", "1", "--at", "5"], "not both"),
        (["--limit", "0"], "--limit"),
        (["--after", "-1"], "after"),
        (["--at", "noon"], "not a time"),
    ],
)
def test_a_place_that_makes_no_sense_is_refused(numbers: Command, tokens, complaint):
    answer = numbers("read", "numbers", *tokens)

    assert answer.code == 2
    assert complaint in answer.err


def test_times_and_sizes_are_written_as_people_write_them():
    assert [milliseconds(text) for text in ("0", "250ms", "1.5s", "15m", "24h", "7d")] == [
        *(0, 250, 1500, 900_000, 86_400_000, 604_800_000)
    ]
    assert [byte_count(text) for text in ("512", "64KiB", "10 MiB", "1g", "5MB")] == [
        *(512, 65_536, 10_485_760, 1_073_741_824, 5_000_000)
    ]
    assert microseconds("1970-01-01T00:00:01.5Z") == microseconds("1500000") == 1_500_000
    assert microseconds("1970-01-01T01:00:00+01:00") == microseconds("1970-01-01") == 0
    for text in ("x", "7y", "-1s", "1 2", "250", "0.0"):
        with pytest.raises(Invalid, match=re.escape(repr(text))):
            milliseconds(text)


def _data(answer: Answer) -> list[object]:
    assert answer.code == 0, answer.err
    return [line["data"] for line in answer.json_lines]
