"""Promise: contexts name stores and servers; flags, environment and context count in this order.

A token is kept only when somebody asks for it, in a file for its owner alone, and never printed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import strandline
from strandline.cli.options import Target
from strandline.cli.target import resolve_target
from strandline.errors import Invalid
from tests.cli.conftest import Command, Program

SECRET = "strand1_abcdefghijkl_SECRETSECRET"


@pytest.fixture
def free(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command without STRANDLINE_STORE."""
    monkeypatch.delenv("STRANDLINE_STORE")
    return command


def test_a_context_is_added_used_listed_shown_and_removed(free: Command, data_dir: str):
    first = free("context", "add", "here", "--store", data_dir)
    second = free("context", "add", "there", "--url", "http://127.0.0.1:1")
    free("append", "t", "hello")
    read = free("read", "t", "--store", data_dir, "--output", "jsonl")
    used = free("context", "use", "there", "--output", "json")
    listed = free("context", "ls", "--output", "json")
    shown = free("context", "show", "--output", "json")
    removed = free("context", "rm", "there")
    after = free("context", "ls", "--output", "json")

    assert first.code == second.code == removed.code == 0
    assert [line["data"] for line in read.json_lines] == ["hello"]
    assert used.json["current"] is True
    assert [(each["name"], each["current"]) for each in listed.json] == [
        ("here", False),
        ("there", True),
    ]
    assert shown.json["url"] == "http://127.0.0.1:1"
    assert [(each["name"], each["current"]) for each in after.json] == [("here", False)]


def test_the_real_command_works_where_its_context_is(program: Program, data_dir: str):
    program.environment.pop("STRANDLINE_STORE")
    program.run("context", "add", "shop", "--store", data_dir)

    appended = program.run("append", "t", "hello")
    elsewhere = program.run("topic", "ls", "--context", "shop", "--output", "jsonl")
    shown = program.run("context", "show")

    assert appended.code == shown.code == 0
    assert [line["name"] for line in elsewhere.json_lines] == ["t"]
    with strandline.open(data_dir, readonly=True) as store:
        assert store.topics() == ["t"]


def test_a_flag_counts_before_a_variable_and_a_variable_before_the_context(
    free: Command, monkeypatch: pytest.MonkeyPatch
):
    free("context", "add", "chosen", "--store", "/chosen")
    by_context = resolve_target()
    monkeypatch.setenv("STRANDLINE_STORE", "/variable")
    by_variable = resolve_target()
    by_flag = resolve_target(url="http://flag")
    by_name = resolve_target(context="chosen")
    monkeypatch.delenv("STRANDLINE_STORE")
    free("context", "rm", "chosen")
    by_default = resolve_target()

    assert (by_context.store, by_variable.store) == ("/chosen", "/variable")
    assert (by_flag.url, by_name.store) == ("http://flag", "/chosen")
    assert by_default.store == "./strandline-data"


def test_two_places_at_once_are_refused(command: Command, monkeypatch: pytest.MonkeyPatch):
    flags = command("read", "t", "--store", "a", "--url", "http://b")
    monkeypatch.setenv("STRANDLINE_URL", "http://b")
    variables = command("read", "t")
    flag = command("topic", "ls", "--store", "a")

    assert flags.code == variables.code == 2
    assert "--store and --url both name a target" in flags.err
    assert "STRANDLINE_STORE and STRANDLINE_URL both" in variables.err
    assert "a is not a store" in flag.err


def test_the_token_is_the_files_then_the_named_contexts_then_the_variables(
    free: Command, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "flag").write_text("of-flag\n")
    (tmp_path / "context").write_text("of-context\n")
    named = ["--url", "http://c", "--token-file", str(tmp_path / "context")]
    free("context", "add", "c", *named)
    monkeypatch.setenv("STRANDLINE_TOKEN", "of-variable")

    assert resolve_target(url="http://u", token_file=str(tmp_path / "flag")).token() == "of-flag"
    assert resolve_target(url="http://u").token() == "of-variable"
    assert resolve_target(context="c").token() == "of-context"
    assert resolve_target().token() == "of-variable"
    monkeypatch.delenv("STRANDLINE_TOKEN")
    assert resolve_target().token() == "of-context"
    assert resolve_target(url="http://u").token() is None


def test_a_token_is_read_from_its_variable_each_time(free: Command, monkeypatch):
    free("context", "add", "c", "--url", "http://c", "--token-env", "SHOP_TOKEN")

    with pytest.raises(Invalid, match="SHOP_TOKEN"):
        resolve_target().token()
    monkeypatch.setenv("SHOP_TOKEN", "later")

    assert resolve_target().token() == "later"


def test_a_token_is_kept_only_when_asked_and_never_printed(program: Program, data_dir: str):
    url = ["--url", "http://127.0.0.1:1"]
    kept = program.run("context", "add", "kept", *url, "--keep-token", stdin=f"{SECRET}\n".encode())
    told = [
        program.run("context", *words, "--output", shape)
        for words in (["ls"], ["show", "kept"], ["use", "kept"])
        for shape in ("table", "json")
    ]
    failed = program.run("read", "t", "--context", "kept")
    gone = program.run("context", "rm", "kept")

    path = f"{data_dir}-contexts.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert kept.code == 0
    assert failed.code == 1
    for answer in [kept, *told, failed, gone]:
        assert "SECRET" not in answer.out + answer.err
    assert "SECRET" not in Path(path).read_text()


def test_a_kept_token_is_in_the_file(free: Command, data_dir: str, tmp_path):
    (tmp_path / "token").write_text(SECRET)

    free(
        *("context", "add", "c", "--url", "http://c", "--keep-token"),
        *("--token-file", str(tmp_path / "token")),
    )
    (tmp_path / "token").unlink()

    assert resolve_target().token() == SECRET


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["context", "use", "shpo"], "there is no context 'shpo'", "did you mean 'shop'?"),
        (["context", "rm", "zzz"], "there is no context 'zzz'", "context ls"),
        (["context", "add", "shop", "--store", "x"], "already", "--replace"),
        (["context", "add", "x"], "a directory or a server", ""),
        (["context", "add", "x", "--store", "a", "--url", "http://b"], "a directory or a", ""),
        (["context", "add", "a b", "--store", "x"], "not a valid context name", ""),
        (["context", "add", "x", "--url", "ftp://b"], "is not the URL of a server", ""),
        (["context", "add", "x", "--url", "http://u:p@b"], "must not contain a token", ""),
        (["context", "add", "x", "--store", "a", "--token-env", "T"], "needs no token", ""),
        (["context", "show"], "there is no current context", "context use"),
        (["context", "lss"], "unknown command", "did you mean"),
        (["read", "t", "--context", "shpo"], "there is no context 'shpo'", "'shop'"),
        (["read", "t", "--url", "s3://b"], "is not the URL of a server", "--lake-url"),
        (["read", "t", "--url", "http://h", "--token-file", "/none"], "cannot read the token", ""),
        (["read", "t", "--store", "x", "--token-file", "f"], "is for a server", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_two_lines(free: Command, tokens, message, hint):
    free("context", "add", "shop", "--store", "/shop")
    if tokens == ["context", "show"]:
        free("context", "rm", "shop")

    answer = free(*tokens)

    first, second = answer.err.splitlines()
    assert answer.code in (1, 2)
    assert message in first
    assert hint in second


def test_a_damaged_file_is_told_and_left_alone(free: Command, data_dir: str):
    path = f"{data_dir}-contexts.json"
    with open(path, "w") as file:
        file.write('{"current": ')

    answer = free("context", "ls")

    assert answer.code == 2
    assert "is not a file of contexts" in answer.err
    assert Path(path).read_text() == '{"current": '


def test_what_needs_the_files_says_so_of_a_server():
    target = Target(url="http://127.0.0.1:1")

    with pytest.raises(Invalid, match="reads the files") as caught:
        _ = target.store

    assert "--store DIR" in caught.value.__notes__[0]
