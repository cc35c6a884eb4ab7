"""Promise: consumer groups are listed and shown beside whoever writes, and moved by the writer."""

from __future__ import annotations

import pytest

import strandline
from strandline.cli.errors import LOCKED, WRONG_USE
from tests.cli.conftest import Command


@pytest.fixture
def orders(command: Command, data_dir: str) -> Command:
    """A topic of five records, of which the group billing is done with two."""
    with strandline.open(data_dir) as store:
        store.topic("orders").append_many([b"1", b"2", b"3", b"4", b"5"])
        with store.group("orders", "billing").join("w1") as member:
            member.ack_many(member.read(max=2))
        with store.group("orders", "audit", start="latest").join("w1"):
            pass
    return command


def test_list_shows_groups_with_their_lag(orders: Command):
    orders("append", "logs", "x")

    every = orders("group", "list", "--output", "json").json
    some = orders("group", "list", "orders", "--output", "jsonl").json_lines
    none = orders("group", "list", "logs")

    assert [(each["group"], each["done_through"], each["lag"]) for each in every] == [
        ("audit", 5, 0),
        ("billing", 2, 3),
    ]
    assert some == every
    assert (none.code, none.out) == (0, "")


def test_show_tells_where_a_group_stands(orders: Command):
    shown = orders("group", "show", "orders", "billing", "--output", "json").json

    assert shown == {
        "topic": "orders",
        "group": "billing",
        "done_through": 2,
        "head_seq": 5,
        "lag": 3,
        "lost": 0,
        "deleted": 0,
        "dead_letters": 0,
    }


def test_alter_changes_what_is_said_and_nothing_else(orders: Command, data_dir: str):
    told = orders("group", "alter", "orders", "billing", "--lease", "5m", "--output", "json").json
    more = orders("group", "alter", "orders", "billing", "--mode", "exclusive", "--window", "9")
    with strandline.open(data_dir) as store:
        group = store.group("orders", "billing")
        options, lag = group.options, group.lag()

    assert (told["group"], told["lease_s"], told["mode"]) == ("billing", 300.0, "shared")
    assert more.code == 0
    assert (options.mode, options.lease_s, options.window) == ("exclusive", 300.0, 9)
    assert (options.deliveries_max, lag) == (5, 3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("billing",), "name an option to change"),
        (("billing", "--window", "0"), "window is 1 to"),
        (("biling", "--window", "5"), "has no group 'biling'"),
    ],
)
def test_alter_refuses_what_cannot_be(orders: Command, given: tuple[str, ...], told: str):
    answer = orders("group", "alter", "orders", *given)

    assert answer.code == WRONG_USE
    assert told in answer.err


def test_dead_letters_of_a_group_are_counted(orders: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.groups.alter("orders", "billing", deliveries_max=1)
        group = store.group("orders", "billing")
        (delivery,) = group.join("w1").read()
        delivery.nack()

    shown = orders("group", "show", "orders", "billing", "--output", "json").json

    assert (shown["dead_letters"], shown["lag"]) == (1, 2)


@pytest.mark.parametrize(
    ("options", "lag"),
    [
        (["--to", "earliest"], 5),
        (["--to", "latest"], 0),
        (["--to", "5"], 1),
        (["--at", "2020-01-01T00:00:00Z"], 5),
        (["--at", "2100-01-01T00:00:00Z"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_group_goes_on_where_it_is_told(orders: Command, data_dir: str, options, lag: int):
    answer = orders("group", "seek", "orders", "billing", *options, "--output", "json")

    with strandline.open(data_dir) as store:
        member = store.group("orders", "billing").join("w1")
        assert len(member.read(max=10)) == lag
    assert answer.json["lag"] == lag


def test_looking_works_beside_the_writer_and_moving_does_not(orders: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        member = store.group("orders", "billing").join("w1")
        member.ack_many(member.read())
        store.sync()
        shown = orders("group", "show", "orders", "billing", "--output", "json")
        listed = orders("group", "list")
        moved = orders("group", "seek", "orders", "billing", "--to", "1")

    assert shown.json["lag"] == 2
    assert (listed.code, moved.code) == (0, LOCKED)


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["list", "ordes"], "no topic 'ordes'", "did you mean 'orders'?"),
        (["show", "ordes", "billing"], "no topic 'ordes'", "did you mean 'orders'?"),
        (["show", "orders", "biling"], "no group 'biling'", "did you mean 'billing'?"),
        (["show", "orders", "zzz"], "no group 'zzz'", "strandline group ls orders"),
        (
            ["show", "logs", "zzz"],
            "no group 'zzz'",
            "a group is created when its first member joins",
        ),
        (["seek", "orders", "biling", "--to", "1"], "no group 'biling'", "'billing'"),
        (["seek", "orders", "billing"], "name a position", "--help"),
        (["seek", "orders", "billing", "--to", "1", "--at", "1"], "name a position", "--help"),
        (["seek", "orders", "billing", "--to", "lates"], "'lates'", "did you mean 'latest'?"),
        (["seek", "orders", "billing", "--to", "9"], "seq 9 is not in the topic", "--help"),
        (["seek", "orders", "billing", "--at", "noon"], "'noon' is not a time", "--help"),
        (["sek", "orders", "billing"], '"sek"', 'did you mean "seek"?'),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(orders: Command, tokens, message: str, hint: str):
    orders("append", "logs", "x")

    answer = orders("group", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second
