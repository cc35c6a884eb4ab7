"""Promise: views are listed, made, shown, altered and rebuilt by kind and name.

A topic that is there gets a view only when that is said. A rebuild loses nothing.
"""

from __future__ import annotations

import re

import pytest

import strandline
from strandline.cli.errors import LOCKED, WRONG_USE
from tests.cli.conftest import Command

KINDS = ("kv", "queue", "series", "metrics")


@pytest.fixture
def profiles(command: Command) -> Command:
    command("kv", "put", "profiles", "u1", "Ada")
    command("kv", "put", "profiles", "u2", "Grace")
    return command


def test_list_shows_every_view_with_its_options(profiles: Command):
    profiles("view", "create", "kv", "settings", "--option", "history=3")
    profiles("append", "plain", "x")

    table = profiles("view", "list")
    views = profiles("view", "list", "--output", "json").json

    assert [(view["kind"], view["name"]) for view in views] == [
        ("kv", "profiles"),
        ("kv", "settings"),
    ]
    assert (views[0]["records"], views[1]["options"]["history"]) == (2, 3)
    assert table.lines[0].split() == ["KIND", "NAME", "RECORDS", "HEAD", "SIZE", "OPTIONS"]
    assert len(table.lines) == 3


def test_a_store_without_views_has_an_empty_list(command: Command):
    command("append", "plain", "x")

    assert command("view", "list").out == ""
    assert command("view", "list", "--output", "json").json == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made_shown_and_rebuilt(command: Command, kind: str):
    made = command("view", "create", kind, "v", "--durability", "fsync", "--output", "json")
    shown = command("view", "show", kind, "v", "--output", "json")
    before = command("view", "digest", kind, "v", "--output", "json")
    rebuilt = command("view", "rebuild", kind, "v", "--output", "json")
    topic = command("topic", "show", "v", "--output", "json").json

    assert [each.code for each in (made, shown, before, rebuilt)] == [0, 0, 0, 0]
    assert (made.json["kind"], shown.json["name"]) == (kind, "v")
    assert rebuilt.json[0]["digest"] == before.json["digest"]
    assert topic["config"]["durability"] == "fsync"
    assert topic["config"]["views"] == {kind: made.json["options"]}


def test_an_existing_topic_gets_a_view_of_what_it_has(command: Command):
    command("append", "orders", "tea", "--key", "table-4")

    before = command("topic", "show", "orders")
    made = command("view", "create", "kv", "orders", "--output", "json").json
    shown = command("topic", "show", "orders")

    assert (made["records"], made["head_seqs"]) == ([1], [1])
    assert command("kv", "get", "orders", "table-4", "--output", "json").json["value"] == "tea"
    assert before.lines[-1].split() == ["views", "-"]
    assert shown.lines[-1].split() == ["views", "kv"]


def test_a_topic_may_have_several_views(profiles: Command):
    profiles("view", "create", "series", "profiles")

    shown = profiles("topic", "show", "profiles")
    listed = profiles("view", "list", "--output", "json").json
    missing = profiles("view", "show", "queue", "profiles")

    assert shown.lines[-1].split() == ["views", "kv,", "series"]
    assert {view["kind"] for view in listed} == {"kv", "series"}
    assert "it has kv, series" in missing.err


def test_a_topic_of_a_view_says_whose_it_is(command: Command):
    command("view", "create", "queue", "mails")

    leases = command("topic", "show", "mails:leases")
    created = command("view", "create", "kv", "mails:leases")
    shown = command("view", "show", "queue", "mails:leases")

    assert leases.lines[-1].split() == ["views", "of", "mails"]
    for answer in (created, shown):
        assert answer.code == WRONG_USE
        assert "belongs to a view of 'mails'" in answer.err


def test_show_tells_how_far_a_view_is_saved(profiles: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.checkpoint()
        store.topic("profiles").append(b"Hedy", key="u3")
        store.sync()

        table = profiles("view", "show", "kv", "profiles")
        shown = profiles("view", "show", "kv", "profiles", "--output", "json").json

    facts = dict(re.split(r"  +", line, maxsplit=1) for line in table.lines)
    assert (shown["head_seqs"], shown["saved_seqs"], shown["notes"]) == ([3], [2], [])
    assert (facts["head seqs"], facts["saved seqs"], facts["topics"]) == ("3", "2", "profiles")


def test_a_digest_is_of_what_can_be_seen(profiles: Command):
    first = _digest(profiles)
    profiles("kv", "put", "profiles", "u3", "Hedy")
    second = _digest(profiles)
    profiles("checkpoint")

    assert first != second
    assert _digest(profiles) == second


def test_alter_changes_an_option_and_folds_again(profiles: Command):
    for number in range(4):
        profiles("kv", "put", "profiles", "n", str(number))

    answer = profiles("view", "alter", "kv", "profiles", "--option", "history=2")
    versions = profiles("kv", "history", "profiles", "n", "--output", "json").json

    assert answer.code == 0
    assert [each["value"] for each in versions] == ["3", "2"]


def test_a_rebuild_may_be_of_all_views(profiles: Command):
    profiles("kv", "put", "settings", "a", "b")
    before = _digest(profiles)

    rebuilt = profiles("view", "rebuild", "--all", "--output", "json").json

    assert [(each["name"], each["records"]) for each in rebuilt] == [
        ("profiles", 2),
        ("settings", 1),
    ]
    assert rebuilt[0]["digest"] == before == _digest(profiles)


def test_memory_is_told_by_share(profiles: Command):
    shares = profiles("view", "memory", "--output", "json").json

    used = {share["name"]: share["used"] for share in shares}
    assert len(used) == 8
    assert used["kv"] > 0
    assert used["queue"] == 0


def test_looking_works_beside_the_writer_and_rebuilding_does_not(profiles: Command, data_dir: str):
    with strandline.open(data_dir):
        looks = [
            profiles("view", *tokens)
            for tokens in (
                ("list",),
                ("show", "kv", "profiles"),
                ("digest", "kv", "profiles"),
                ("memory",),
            )
        ]
        rebuild = profiles("view", "rebuild", "kv", "profiles")
        create = profiles("view", "create", "queue", "profiles")

    assert [answer.code for answer in looks] == [0, 0, 0, 0]
    assert (rebuild.code, create.code) == (LOCKED, LOCKED)


def test_views_saved_elsewhere_are_found_by_their_url(command: Command, tmp_path, data_dir: str):
    url = str(tmp_path / "elsewhere")
    command("kv", "put", "profiles", "u1", "Ada", "--views-url", url)

    shown = command("view", "show", "kv", "profiles", "--views-url", url, "--output", "json").json
    without = command("view", "show", "kv", "profiles", "--output", "json").json

    assert (shown["saved_seqs"], without["saved_seqs"]) == ([1], [0])


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["show", "kvs", "profiles"], '"kvs"', 'did you mean "kv"?'),
        (["show", "kv", "profils"], "no topic 'profils'", "did you mean 'profiles'?"),
        (["show", "kv", "zzz"], "no topic 'zzz'", "strandline view ls"),
        (["digest", "queue", "profiles"], "has no queue view", "it has kv;"),
        (["rebuild"], "KIND NAME, or --all", "--help"),
        (["rebuild", "kv"], "KIND NAME, or --all", "--help"),
        (["rebuild", "kv", "profiles", "--all"], "KIND NAME, or --all", "--help"),
        (["rebuild", "kv", "profils"], "no topic 'profils'", "did you mean 'profiles'?"),
        (["alter", "kv", "profiles"], "name an option to alter", "--help"),
        (["alter", "kv", "profiles", "--option", "history"], "NAME=VALUE", "history, grace_ms"),
        (["alter", "kv", "profiles", "--option", "histry=3"], "'histry=3'", "history, grace_ms"),
        (["alter", "kv", "profiles", "--option", "history=many"], "bad kv option", "--help"),
        (["alter", "kv", "profiles", "--option", "history=0"], "history is 0", "--help"),
        (["create", "kv", "profiles", "--option", "history=3"], "other options", "--help"),
        (["create", "kv", "a/b"], "cannot name a topic", "--help"),
        (["creat", "kv", "a"], '"creat"', 'did you mean "create"?'),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(profiles: Command, tokens, message: str, hint: str):
    answer = profiles("view", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second


def _digest(command: Command) -> object:
    return command("view", "digest", "kv", "profiles", "--output", "json").json["digest"]
