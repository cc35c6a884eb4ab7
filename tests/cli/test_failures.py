"""Promise: whatever goes wrong is two lines and an exit code, never a traceback.

Exit codes: 2 the request is wrong, 3 stored bytes are damaged, 4 another process has the store, 1
anything else.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import strandline
from strandline import errors
from strandline.cli import errors as cli_errors
from tests.cli.conftest import Answer, Command

WRONG_USE = {
    "unknown command": (["apend", "t", "x"], 'unknown command "apend"', 'did you mean "append"?'),
    "unknown subcommand": (["topic", "lst"], 'unknown command "lst"', 'did you mean "list"?'),
    "nothing like it": (["zzz"], 'unknown command "zzz"', "`strandline --help`"),
    "unknown option": (["read", "t", "--limt", "3"], "--limt", "did you mean --limit?"),
    "option first": (["--store", "d", "read", "t"], "--store", "after the command"),
    "missing argument": (["read"], "TOPIC", "`strandline read --help`"),
    "too much": (
        ["context", "add", "a", "b"],
        "unexpected argument 'b'",
        "`strandline context add",
    ),
    "bad number": (["read", "t", "--after", "x"], "--after", "`strandline read --help`"),
    "bad choice": (["read", "t", "--output", "xml"], "xml", "`strandline read --help`"),
    "mistyped topic": (["read", "order"], "no topic 'order'", "did you mean 'orders'?"),
    "unknown topic": (["topic", "show", "zzz"], "no topic 'zzz'", "strandline topic ls"),
    "trim of an unknown topic": (["topic", "trim", "zzz", "--before", "1"], "'zzz'", "topic ls"),
    "bad topic name": (["append", "no/slash", "x"], "cannot name a topic", "--help"),
    "both sources": (["append", "t", "x", "--stdin"], "not from both", "--help"),
    "bad batch": (["append", "t", "x", "--batch", "0"], "--batch", "--help"),
    "batch of one append": (
        ["append", "t", "x", "--batch", "2", "--expected-head", "0"],
        "one batch",
        "--help",
    ),
    "bad duration": (["topic", "alter", "orders", "--ttl", "1x"], "'1x'", "--help"),
    "bad size": (["topic", "alter", "orders", "--cap-bytes", "big"], "'big'", "--help"),
    "negative cap": (["topic", "alter", "orders", "--cap-records", "-1"], "cap_records", "--help"),
    "tag too large": (["append", "t", "x", "--tag", "t" * 300], "tag", "smaller pieces"),
    "bench nowhere": (["bench", "--directory", "nowhere"], "not a directory", "--help"),
    "negative count": (["tail", "orders", "-n", "-1"], "--count", "--help"),
}


@pytest.fixture
def orders(command: Command) -> Command:
    command("append", "orders", "tea")
    return command


@pytest.mark.parametrize("case", WRONG_USE)
def test_a_wrong_request_says_what_is_wrong_and_what_to_do(orders: Command, case: str):
    tokens, message, hint = WRONG_USE[case]

    answer = orders(*tokens)

    _assert_two_lines(answer, message, hint)
    assert answer.code == 2


@pytest.mark.parametrize(
    "tokens",
    [
        ["read", "t"],
        ["tail", "t"],
        ["topic", "list"],
        ["topic", "show", "t"],
        ["topic", "alter", "t", "--ttl", "1h"],
        ["topic", "delete", "t"],
        ["topic", "trim", "t", "--before", "1"],
        ["checkpoint"],
        ["inspect"],
        ["verify"],
        ["repair"],
        ["view", "list"],
        ["view", "rebuild", "kv", "t"],
        ["view", "alter", "kv", "t", "--option", "history=2"],
        ["view", "memory"],
        ["kv", "get", "t", "k"],
        ["kv", "delete", "t", "k"],
        ["kv", "watch", "t"],
        ["kv", "compact", "t"],
        ["queue", "claim", "t"],
        ["queue", "dead", "redrive", "t"],
        ["series", "range", "t"],
        ["metrics", "query", "t", "cpu"],
        ["group", "list"],
        ["group", "seek", "t", "g", "--to", "1"],
    ],
    ids=" ".join,
)
def test_only_what_puts_or_creates_makes_a_store(command: Command, data_dir: str, tokens):
    missing = command(*tokens)
    made = os.path.exists(data_dir)
    os.mkdir(data_dir)
    empty = command(*tokens)

    assert not made
    assert os.listdir(data_dir) == []
    for answer in (missing, empty):
        _assert_two_lines(answer, data_dir, "--store")
        assert answer.code == 2


@pytest.mark.parametrize(
    "tokens",
    [
        ["append", "t", "x"],
        ["topic", "create", "t"],
        ["checkpoint"],
        ["repair"],
        ["view", "create", "kv", "t"],
        ["kv", "put", "t", "k", "v"],
        ["queue", "put", "t", "x"],
        ["series", "append", "t", "s", "x"],
    ],
    ids=" ".join,
)
def test_a_folder_with_other_things_is_left_as_it_is(command: Command, data_dir: str, tokens):
    os.mkdir(data_dir)
    Path(data_dir, "letter.txt").write_text("dear")

    answer = command(*tokens)

    _assert_two_lines(answer, "is not a store", "--store")
    assert answer.code == 2
    assert os.listdir(data_dir) == ["letter.txt"]


def test_a_conflict_is_not_the_users_mistake(orders: Command):
    exists = orders("topic", "create", "orders")
    moved = orders("append", "orders", "x", "--expected-head", "7")

    _assert_two_lines(exists, "exists", "topic alter")
    _assert_two_lines(moved, "at seq 1, not 7", "try again")
    assert (exists.code, moved.code) == (1, 1)


def test_a_store_that_another_has_open_is_locked_for_writing_only(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("t").append(b"hello")
        writing = command("append", "t", "x")
        reading = command("read", "t")

    _assert_two_lines(writing, "another process", "while another process writes")
    assert writing.code == 4
    assert reading.code == 0
    assert "hello" in reading.out


def test_damage_has_an_exit_code_of_its_own(orders: Command, data_dir: str):
    path = Path(data_dir, "SYSTEM")
    path.write_bytes(path.read_bytes().replace(b"created_us", b"created_uS"))

    answer = orders("read", "orders")

    _assert_two_lines(answer, "SYSTEM", "strandline verify")
    assert answer.code == 3


def test_a_path_that_cannot_be_used_is_said(command: Command, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STRANDLINE_STORE", str(tmp_path / "file" / "store"))

    read = command("read", "t")
    append = command("append", "t", "x")

    assert (read.code, append.code) == (2, 1)
    _assert_two_lines(append, "file", "path")


@pytest.mark.parametrize(
    "error",
    [
        errors.Invalid("x"),
        errors.UnknownTopic("x"),
        errors.TooLarge("x"),
        errors.NotAStore("x"),
        errors.UnsupportedObjectStore("x"),
        errors.NotFound("x"),
        errors.Conflict("x"),
        errors.TopicExists("x"),
        errors.TopicFull("x"),
        errors.ObjectExists("x"),
        errors.RecordsLost("t", 1, 2, "cap"),
        errors.Unavailable("x"),
        errors.DiskFull("x"),
        errors.MemoryPressure("x"),
        errors.Locked("x"),
        errors.StoreFailed("x"),
        errors.ObjectStoreUnreachable("x"),
        errors.ObjectStoreDenied("x"),
        errors.BucketNotFound("x"),
        errors.Closed("x"),
        errors.UnsupportedFormat("x"),
        errors.Corrupt("x", path="p"),
        OSError(5, "Input/output error"),
        ZeroDivisionError("a\nbug"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_has_a_message_a_hint_and_a_code(error: Exception):
    message, hint = cli_errors.explain(error)
    code = cli_errors.exit_code(error)

    assert message
    assert hint
    assert "\n" not in message + hint
    if isinstance(error, errors.Corrupt | errors.Locked):
        assert code == (3 if isinstance(error, errors.Corrupt) else 4)
    else:
        assert code == (2 if isinstance(error, errors.Invalid) else 1)


def test_a_traceback_is_for_those_who_ask(orders: Command, monkeypatch):
    without = orders("read", "zzz")
    monkeypatch.setenv("STRANDLINE_DEBUG", "1")
    asked = orders("read", "zzz")

    assert "Traceback" not in without.err
    assert "Traceback" in asked.err
    assert asked.err.endswith(without.err)


def _assert_two_lines(answer: Answer, message: str, hint: str) -> None:
    first, second = answer.err.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("hint: ")
    assert message in first
    assert hint in second
