"""Promise: what is stored is shown whole, as asked, and never commands a terminal (S9).

JSON is for programs and says exactly what is stored; a table is for people, one line per record.
"""

from __future__ import annotations

import base64

import pytest

import strandline
from tests.cli.conftest import Command

NO_TEXT = b"\xff\x00"
EVIL = "\x1b[2Jcleared\r\n\x9b31m\x07\N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.fixture
def mixed(command: Command, data_dir: str) -> Command:
    """A topic with text, bytes that are no text, and text that would command a terminal."""
    with strandline.open(data_dir) as store:
        topic = store.topic("mixed")
        topic.append("grüße".encode(), key=b"k", tag="eu")
        topic.append(NO_TEXT, key=NO_TEXT, meta=NO_TEXT)
        topic.append(EVIL.encode(), tag=EVIL, node="n")
    return command


def test_json_is_one_array_with_every_field(mixed: Command):
    text, binary, evil = mixed("read", "mixed", "--output", "json").json

    coded = base64.b64encode(NO_TEXT).decode()
    assert {name: text[name] for name in text if name != "ts"} == {
        "seq": 1,
        "key": "k",
        "tag": "eu",
        "node": None,
        "meta": None,
        "data": "grüße",
    }
    assert isinstance(text["ts"], int)
    assert (binary["key_base64"], binary["meta_base64"], binary["data_base64"]) == (coded,) * 3
    assert "data" not in binary
    assert (evil["data"], evil["tag"], evil["node"]) == (EVIL, EVIL, "n")


def test_jsonl_is_the_same_line_by_line(mixed: Command):
    array = mixed("read", "mixed", "--output", "json").json
    lines = mixed("read", "mixed", "--output", "jsonl")

    assert lines.json_lines == array
    assert len(lines.lines) == 3


def test_a_table_is_aligned_and_has_every_column(mixed: Command):
    lines = mixed("read", "mixed").lines
    one = mixed("read", "mixed", "--limit", "1").lines

    assert lines[0].split() == ["SEQ", "TIME", "KEY", "TAG", "NODE", "META", "DATA"]
    assert one[0].split() == lines[0].split()
    column = lines[0].index("DATA")
    assert lines[1][column:] == "grüße"
    assert lines[2][column:] == "base64:" + base64.b64encode(NO_TEXT).decode()


def test_a_table_leaves_no_control_character_in(mixed: Command):
    answer = mixed("read", "mixed")

    assert len(answer.lines) == 4
    assert all(line.isprintable() for line in answer.lines)
    assert r"\x1b[2Jcleared\r\n\x9b31m\x07\u202e" in answer.out


def test_a_field_that_first_comes_later_changes_no_column(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        topic = store.topic("late")
        topic.append_many([b"x"] * 1000)
        topic.append(b"y", tag="eu")

    lines = command("read", "late", "--all").lines

    assert [line for line in lines if line.startswith("SEQ")] == lines[:1]
    assert lines[1].split()[2:] == ["-", "-", "-", "-", "x"]
    assert lines[1001].split()[2:] == ["-", "eu", "-", "-", "y"]


def test_bench_puts_every_rate_beside_a_raw_one_and_cleans_up(command: Command, tmp_path):
    answer = command(
        "bench", "--directory", str(tmp_path), "--seconds", "0.01", "--output", "jsonl"
    )

    assert answer.code == 0, answer.err
    assert len(answer.json_lines) == 5
    assert all(line["per_s"] > 0 and line["raw_per_s"] > 0 for line in answer.json_lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "tokens",
    [
        ["append", "t", "x"],
        ["read", "t"],
        ["tail", "t"],
        ["topic", "list"],
        ["topic", "create", "new"],
        ["topic", "show", "t"],
        ["topic", "alter", "t", "--ttl", "1h"],
        ["topic", "trim", "t", "--before", "1", "--yes"],
        ["topic", "delete", "t", "--yes"],
        ["checkpoint"],
        ["inspect"],
        ["verify"],
        ["repair", "--dry-run"],
    ],
    ids=" ".join,
)
def test_everything_that_prints_can_print_json(command: Command, tokens):
    command("append", "t", "hello")

    table = command(*tokens)
    command("append", "t", "hello")
    command("topic", "delete", "new")
    array = command(*tokens, "--output", "json")
    command("append", "t", "hello")
    command("topic", "delete", "new")
    lines = command(*tokens, "--output", "jsonl")

    assert (table.code, array.code, lines.code) == (0, 0, 0), array.err
    assert table.out
    assert not table.out.startswith(("{", "["))
    assert isinstance(array.json, list | dict)
    assert all(isinstance(line, dict) for line in lines.json_lines)
