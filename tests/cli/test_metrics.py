"""Promise: line protocol goes in from a file or stdin, and queries print what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from strandline.cli.errors import FAILED, LOCKED, WRONG_USE
from tests.cli.conftest import Command, Program

LINES = """\
cpu,host=web-1 load=0.5,busy=t 1000000000
cpu,host=web-1 load=1.5 2000000000
cpu,host=db,zone=eu load=4 2000000000
disk,host=db free=7i 2000000000
"""
EVER = "[0..9000000000]"


@pytest.fixture
def usage(command: Command, data_dir: str) -> Command:
    with strandline.open(data_dir) as store:
        store.metrics("usage").write_lines(LINES)
    return command


def test_lines_come_from_a_file(command: Command, tmp_path: Path):
    (tmp_path / "lines").write_text(LINES)

    made = command("metrics", "write", "usage", str(tmp_path / "lines"), "--output", "json")
    answer = command("metrics", "query", "usage", f"disk{EVER}", "--output", "json")

    assert made.json == {"name": "usage", "lines": 4, "last_seq": made.json["last_seq"]}
    assert answer.json == [{"tags": {"host": "db"}, "at": 2_000_000_000, "value": 7}]


def test_lines_come_from_stdin_in_another_precision(program: Program, data_dir: str):
    answer = program.run("metrics", "write", "usage", "--precision", "s", stdin=b"a v=1 2\n")

    assert answer.code == 0
    with strandline.open(data_dir, readonly=True) as store:
        assert store.metrics("usage").read("a").at.tolist() == [2_000_000_000]


def test_a_query_is_a_table_with_a_column_for_each_tag(usage: Command):
    answer = usage("metrics", "query", "usage", f"cpu{EVER} | field(load)")

    assert [line.split() for line in answer.lines] == [
        ["HOST", "ZONE", "TIME", "LOAD"],
        ["db", "eu", "1970-01-01T00:00:02.000000Z", "4.0"],
        ["web-1", "-", "1970-01-01T00:00:01.000000Z", "0.5"],
        ["web-1", "-", "1970-01-01T00:00:02.000000Z", "1.5"],
    ]


def test_a_query_has_stages(usage: Command):
    query = f"cpu{EVER} | field(load) | window(10s) | avg by (host)"

    answer = usage("metrics", "query", "usage", query, "--output", "jsonl")

    assert [(row["tags"], row["value"]) for row in answer.json_lines] == [
        ({"host": "db"}, 4.0),
        ({"host": "web-1"}, 1.0),
    ]


def test_a_query_without_values_prints_nothing(usage: Command):
    table = usage("metrics", "query", "usage", "disk[1h]")
    json = usage("metrics", "query", "usage", "disk[1h]", "--output", "json")

    assert (table.code, table.out, json.json) == (0, "", [])


def test_a_long_answer_is_whole(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.metrics("usage").write_lines("\n".join(f"a v={n} {n}" for n in range(2500)))

    answer = command("metrics", "query", "usage", f"a{EVER}", "--output", "jsonl")

    assert [row["at"] for row in answer.json_lines] == list(range(2500))


def test_cardinality_tells_which_tags_make_series_many(usage: Command):
    table = usage("metrics", "cardinality", "usage")
    found = usage("metrics", "cardinality", "usage", "--output", "json").json

    assert found["series"] == 3
    assert found["measurements"]["cpu"]["tags"] == {"host": 2, "zone": 1}
    assert table.lines[-2].split()[:3] == ["cpu", "2", "2"]


def test_an_error_in_a_line_writes_nothing_of_its_batch(command: Command, tmp_path: Path):
    (tmp_path / "lines").write_text('a v=1 1\na v=2 2\na v="text" 3\na v=4 4\n')

    answer = command(
        "metrics", "write", "usage", str(tmp_path / "lines"), "--batch", "2", "--output", "json"
    )
    written = command("metrics", "query", "usage", f"a{EVER}", "--output", "json").json

    assert (answer.code, answer.json["lines"]) == (WRONG_USE, 2)
    assert "line 1, column" in answer.err
    assert "its line 1 is line 3 of the input; the lines before are written" in answer.err
    assert [row["value"] for row in written] == [1.0, 2.0]


def test_a_field_keeps_its_kind(usage: Command, tmp_path: Path):
    (tmp_path / "lines").write_text("cpu,host=db load=3i 5")

    answer = usage("metrics", "write", "usage", str(tmp_path / "lines"))

    assert answer.code == WRONG_USE
    assert "field 'load' of 'cpu' is float" in answer.err


def test_asking_works_beside_the_writer_and_writing_does_not(usage: Command, data_dir: str):
    path = Path(data_dir).parent / "lines"
    path.write_text("a v=1 1")
    with strandline.open(data_dir) as store:
        store.metrics("usage").write_lines("new v=1 1")
        found = usage("metrics", "query", "usage", f"new{EVER}", "--output", "json")
        written = usage("metrics", "write", "usage", str(path))

    assert found.json[0]["value"] == 1.0
    assert written.code == LOCKED


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["query", "usag", "cpu"], "no topic 'usag'", "did you mean 'usage'?"),
        (["query", "plain", "cpu"], "no metrics view", "strandline view create metrics plain"),
        (["query", "usage", "cpu |"], "line 1, column 6", "a query looks like"),
        (["query", "usage", "cpu | avgg"], "column 10", "a query looks like"),
        (["query", "usage", "cpu[1x]"], "column", "a query looks like"),
        (["query", "usage"], "TEXT", "`strandline metrics query --help`"),
        (["write", "usage", "nofile"], "cannot read nofile", "--help"),
        (["write", "usage", "nofile", "--batch", "0"], "--batch 0", "--help"),
        (["write", "usage", "nofile", "--precision", "x"], '"x"', "--help"),
        (["cardinalty", "usage"], '"cardinalty"', 'did you mean "cardinality"?'),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(usage: Command, tokens, message: str, hint: str):
    usage("append", "plain", "x")

    answer = usage("metrics", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second


def test_a_measurement_that_is_not_there_is_told(usage: Command):
    answer = usage("metrics", "query", "usage", "cp")

    assert answer.code == FAILED
    assert "no measurement 'cp'" in answer.err
    assert "strandline metrics cardinality usage" in answer.err
