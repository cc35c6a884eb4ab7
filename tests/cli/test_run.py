"""Promise: commands of the language are done from the shell as by a program, one or many."""

from __future__ import annotations

import io

import pytest

import strandline
from strandline.cli.errors import FAILED, WRONG_USE
from strandline.cli.query.run import commands_of
from tests.cli.conftest import Command

DEFINE = 'DEFINE pay FIELDS {amount: "f64", cur: ["EUR", "USD"], at: "datetime"}'
STORE = 'STORE pay FOR c-1 PAYLOAD {"amount": 4.5, "cur": "EUR", "at": "2026-01-02T03:04:05Z"}'


@pytest.fixture
def tables(command: Command) -> Command:
    command("run", DEFINE)
    command("run", STORE)
    return command


def test_a_store_is_made_by_the_first_definition(command: Command, data_dir: str):
    made = command("run", DEFINE)

    assert "pay is defined in version 1" in made.out
    with strandline.open(data_dir) as store:
        assert store.table("pay").schema.version == 1


def test_rows_are_printed_in_the_shape_that_was_asked_for(tables: Command):
    table = tables("run", "QUERY pay RETURN [amount, cur, at]").lines
    (row,) = tables("run", "QUERY pay RETURN [amount, at]", "--output", "json").json

    assert table[0].split() == ["AMOUNT", "CUR", "AT"]
    assert table[1].split() == ["4.5", "EUR", "2026-01-02T03:04:05Z"]
    assert row == {"amount": 4.5, "at": "2026-01-02T03:04:05Z"}


def test_a_question_is_answered_beside_whoever_writes(tables: Command, data_dir: str):
    with strandline.open(data_dir):
        asked = tables("run", "QUERY pay COUNT", "--output", "json")
        changed = tables("run", STORE)

    assert asked.json == [{"count": 1}]
    assert changed.code != 0


def test_a_remembered_query_is_shown_with_what_is_new(tables: Command):
    tables("run", "REMEMBER QUERY pay RETURN [amount] AS all-of-it")
    tables("run", STORE.replace("4.5", "7.5"))

    shown = tables("run", "SHOW all-of-it", "--output", "json").json

    assert shown == [{"amount": 4.5}, {"amount": 7.5}]


def test_an_unknown_alias_is_told(tables: Command):
    answer = tables("run", "SHOW nothing")

    assert answer.code == FAILED
    assert "there is no remembered query 'nothing'" in answer.err


def test_a_mistake_is_told_with_its_place(tables: Command):
    answer = tables("run", "QUERY pay WHERE amuont > 5")

    assert answer.code == WRONG_USE
    assert "line 1, column 17" in answer.err
    assert "amount" in answer.err


def test_a_file_of_commands_is_done_in_its_order(command: Command, tmp_path, data_dir: str):
    script = tmp_path / "commands.txt"
    script.write_text(f"{DEFINE};\n{STORE};\nBATCH [ {STORE} ; {STORE} ];\nQUERY pay COUNT\n")

    done = command("run", "-f", str(script))

    assert done.code == 0
    assert done.lines[-1].split() == ["3"]


def test_piped_commands_are_done(tables: Command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("QUERY pay COUNT;"))

    assert tables("run").lines[-1].split() == ["1"]


BATCH = "BATCH [ QUERY pay RETURN [cur, amount]; CREATE USER {}; QUERY pay WHERE amount > 9; PING ]"


def test_a_batch_prints_the_result_of_every_command(tables: Command):
    table = tables("run", BATCH.format("dora"))
    found = tables("run", BATCH.format("emil"), "--output", "json").json
    lines = tables("run", BATCH.format("fred"), "--output", "jsonl").json_lines
    csv = tables("run", BATCH.format("gina"), "--output", "csv").lines

    assert ["CUR", "AMOUNT"] in [line.split() for line in table.lines]
    assert ["EUR", "4.5"] in [line.split() for line in table.lines]
    assert any(line.startswith("dora  ") for line in table.lines)
    assert "No matching events found" in table.out
    assert "PONG" in table.out
    query, user, nothing, pong = found
    assert query["rows"] == [{"cur": "EUR", "amount": 4.5}]
    assert (user["rows"][0]["user"], len(user["rows"][0]["key"])) == ("emil", 64)
    assert (nothing["rows"], pong["rows"]) == ([], [])
    assert (pong["command"], pong["message"]) == ("PING", "PONG")
    assert [len(line["rows"]) for line in lines] == [1, 1, 0, 0]
    assert csv[0] == "command,message,rows"
    assert '""user"":""gina""' in csv[2]


def test_a_batch_that_fails_prints_what_it_did(tables: Command):
    answer = tables("run", "BATCH [ CREATE USER dora; QUERY nothing; PING ]")

    assert answer.code == WRONG_USE
    assert any(line.startswith("dora  ") for line in answer.lines)
    assert "unknown event 'nothing'" in answer.err
    assert "1 command" in answer.err


def test_nothing_found_is_said(tables: Command):
    assert "No matching events found" in tables("run", "QUERY pay WHERE amount > 100").out
    assert tables("run", "QUERY pay WHERE amount > 100", "--output", "json").json == []


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("PING", ["PING"]),
        ("PING;\n\n;PING ;", ["PING", "PING"]),
        (
            'STORE a FOR b PAYLOAD {"x": "; \\" ;"}; PING',
            ['STORE a FOR b PAYLOAD {"x": "; \\" ;"}', "PING"],
        ),
        ("BATCH [PING; PING]; PING", ["BATCH [PING; PING]", "PING"]),
        ("  ", []),
    ],
)
def test_a_semicolon_closes_a_command_but_not_inside_of_it(text: str, commands: list[str]):
    assert list(commands_of(text)) == commands
