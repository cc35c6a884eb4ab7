"""Promise: routers are made, shown and removed from the command line, and work while it runs."""

from __future__ import annotations

import pytest

from strandline.cli.errors import WRONG_USE
from tests.cli.conftest import Command


@pytest.fixture
def orders(command: Command) -> Command:
    for tag in ("eu", "us"):
        command("append", "orders", f"for {tag}", "--tag", tag)
    return command


def test_a_router_forwards_what_it_is_told_to(orders: Command):
    made = orders(
        "router", "put", "eu", "orders", "orders-eu", "--tag", "eu*", "--from-start",
        "--output", "json",
    ).json  # fmt: skip

    read = orders("read", "orders-eu", "--output", "jsonl").json_lines

    assert made == {
        "router": "eu",
        "source": "orders",
        "dest": "orders-eu",
        "filter": ["tag", "Glob", "eu*"],
        "guarantee": "at_least_once",
        "forwarded": 1,
        "lag": 0,
        "held": "",
    }
    assert len(read) == 1


def test_routers_are_listed_and_shown(orders: Command):
    orders("router", "put", "b", "orders", "copy-b", "--exactly-once")
    orders("router", "put", "a", "orders", "copy-a")

    names = [each["router"] for each in orders("router", "ls", "--output", "json").json]
    into = orders("router", "ls", "--dest", "copy-b", "--output", "jsonl").json_lines
    shown = orders("router", "show", "b", "--output", "json").json

    assert names == ["a", "b"]
    assert into == [shown]
    assert shown["guarantee"] == "exactly_once"


def test_a_router_that_is_removed_is_gone(orders: Command):
    orders("router", "put", "a", "orders", "copy")

    removed = orders("router", "rm", "a")
    again = orders("router", "rm", "a")

    assert removed.code == 0
    assert again.code == WRONG_USE
    assert "no router 'a'" in again.err


def test_a_wrong_name_is_told_with_the_right_one(orders: Command):
    orders("router", "put", "orders-eu", "orders", "copy")

    wrong = orders("router", "show", "order-eu")

    assert wrong.code == WRONG_USE
    assert "orders-eu" in wrong.err


def test_a_circle_is_refused(orders: Command):
    orders("router", "put", "a", "orders", "copy")

    refused = orders("router", "put", "b", "copy", "orders")

    assert refused.code != 0
    assert "cycle" in refused.err
