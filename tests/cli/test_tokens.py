"""Promise: whoever has the files makes, lists and revokes tokens, and looks after the audit log."""

from __future__ import annotations

import pytest

import strandline
from strandline.cli.errors import DAMAGED, LOCKED, WRONG_USE
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.security import audit, token_store
from strandline.security.token_store import TokenStore
from tests.cli.conftest import Command, Program


def created(command: Command, *options: str) -> dict:
    answer = command("token", "create", *options, "--output", "json")
    assert answer.code == 0, answer.err
    return answer.json


def test_a_token_is_told_once_and_works(command: Command, data_dir: str):
    made = created(command, "ci", "--scopes", "read,write:orders.*", "--label", "nightly")
    listed = command("token", "ls", "--output", "json")

    with strandline.open(data_dir) as store:
        found = TokenStore(store, SystemClock(), OsDisk().random_id).find(made["token"])
    assert (found.principal, found.scopes, found.label) == ("ci", "read,write:orders.*", "nightly")
    assert made["token"] not in listed.out
    assert [each["id"] for each in listed.json] == [made["id"]]
    assert listed.json[0]["valid"]


def test_on_a_terminal_it_says_that_it_cannot_be_shown_again(command: Command):
    answer = command("token", "create", "--scopes", "all")

    assert "strand1_" in answer.out
    assert "cannot be shown again" in answer.err


def test_a_store_without_tokens_lists_none(command: Command):
    command("append", "orders", "x")

    answer = command("token", "ls", "--output", "json")

    assert (answer.code, answer.json) == (0, [])


def test_a_revoked_token_is_listed_as_such(command: Command):
    made = created(command, "--scopes", "read")

    answer = command("token", "revoke", made["id"])
    listed = command("token", "ls")

    assert answer.code == 0
    assert "was revoked" in listed.out


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--scopes", "reed"], "not an action"),
        (["--scopes", "read:*x"], "not a pattern"),
        (["--scopes", "read", "--valid", "400d"], "at most 366 days"),
        (["--scopes", "read", "--valid", "0"], "at most 366 days"),
        (["a b", "--scopes", "read"], "invalid token owner"),
        (["--scopes", "read", "--not-before", "soon"], "is not a time"),
        ([], "scopes"),
    ],
)
def test_what_is_mistyped_is_told_in_a_line(command: Command, options: list[str], hint: str):
    answer = command("token", "create", *options)

    assert answer.code == WRONG_USE
    assert hint in answer.err


@pytest.mark.parametrize("options", [[], ["abc", "--all"], ["nothing"]])
def test_what_is_not_there_is_not_revoked(command: Command, options: list[str]):
    created(command, "--scopes", "read")

    assert command("token", "revoke", *options).code != 0


def test_damaged_tokens_can_be_ended_so_that_a_server_starts_again(command: Command, data_dir: str):
    made = created(command, "--scopes", "all")
    with strandline.open(data_dir) as store:
        store.kv(token_store.TOPIC).put(f"token:{made['id']}", b"{}")

    listed = command("token", "ls")
    ended = command("token", "revoke", "--all")
    fresh = created(command, "--scopes", "all")

    assert listed.code == DAMAGED
    assert "token revoke --all" in listed.err
    assert ended.code == 0
    assert [each["id"] for each in command("token", "ls", "--output", "json").json] == [fresh["id"]]


def test_every_change_is_in_the_audit_log(command: Command):
    made = created(command, "--scopes", "all")
    command("token", "revoke", made["id"])

    shown = command("audit", "show", "--output", "json").json
    verified = command("audit", "verify", "--output", "json")

    assert [each["kind"] for each in shown] == ["token-created", "token-revoked"]
    assert {each["who"] for each in shown} == {"command line"}
    assert (verified.code, verified.json["holds"], verified.json["entries"]) == (0, True, 2)
    assert made["token"] not in command("audit", "show").out


def test_a_chain_that_does_not_hold_is_told_and_goes_on_when_asked_to(
    command: Command, data_dir: str
):
    created(command, "--scopes", "all")
    with strandline.open(data_dir) as store:
        store.topic(audit.TOPIC).append(b'{"forged": true}')

    broken = command("audit", "verify")
    unasked = command("audit", "restart")
    asked = command("audit", "restart", "--yes")
    after = command("audit", "verify", "--output", "json")

    assert broken.code == DAMAGED
    assert unasked.code == WRONG_USE
    assert asked.code == 0
    assert (after.code, after.json["restarts"]) == (0, 1)
    assert "damaged" in command("audit", "show").out


def test_without_an_audit_log_there_is_nothing_to_verify(command: Command):
    command("append", "orders", "x")

    assert command("audit", "verify").code == WRONG_USE
    assert command("audit", "show", "--output", "json").json == []


def test_while_a_server_has_the_store_it_is_to_be_asked(command: Command, data_dir: str):
    with strandline.open(data_dir):
        answer = command("token", "create", "--scopes", "all")

    assert answer.code == LOCKED
    assert "--url URL" in answer.err


def test_the_real_command_makes_and_lists_a_token(program: Program):
    made = program.run("token", "create", "ci", "--scopes", "all", "--output", "jsonl")
    listed = program.run("token", "ls", "--output", "jsonl")
    verified = program.run("audit", "verify")

    assert made.code == listed.code == verified.code == 0
    assert made.json_lines[0]["id"] == listed.json_lines[0]["id"]
