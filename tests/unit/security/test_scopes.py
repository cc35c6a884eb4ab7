"""Promise: what no scope allows is denied, what one denies is denied, and text says all of it."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.security.scopes import ACTIONS, EVERYTHING, NOTHING, parse


def test_nothing_is_allowed_unless_a_scope_says_so():
    assert not any(NOTHING.allow(action, topic) for action in ACTIONS for topic in ("", "orders"))


def test_a_name_allows_this_topic_alone():
    scopes = parse("write:orders")

    assert scopes.allow("write", "orders")
    assert not scopes.allow("write", "orders.eu")
    assert not scopes.allow("write", "order")
    assert not scopes.allow("write", "Orders")
    assert not scopes.allow("read", "orders")
    assert not scopes.allow("write", "")


def test_a_beginning_allows_all_topics_that_begin_so_and_not_the_server():
    scopes = parse("read:orders.*")

    assert scopes.allow("read", "orders.eu.1")
    assert not scopes.allow("read", "orders")
    assert not scopes.allow("read", "")


def test_without_a_pattern_every_topic_and_the_server_is_meant():
    scopes = parse("metrics,read")

    assert scopes.allow("metrics")
    assert scopes.allow("read", "anything")
    assert not scopes.allow("write", "anything")


@pytest.mark.parametrize(
    "text",
    ["deny delete:orders.eu;all", "all;deny delete:orders.eu", "all;delete:orders.eu;deny delete"],
)
def test_a_deny_wins_wherever_it_stands(text: str):
    scopes = parse(text)

    assert not scopes.allow("delete", "orders.eu")
    assert scopes.allow("read", "orders.eu")


def test_what_belongs_to_a_topic_is_denied_with_it_and_read_with_it():
    denied = parse("all;deny read:orders")
    allowed = parse("read,write:orders")

    assert not denied.allow("read", "orders:billing:dead")
    assert denied.allow("read", "orders2:dead")
    assert allowed.allow("read", "orders:dead")
    assert not allowed.allow("write", "orders:offsets")


@pytest.mark.parametrize(
    "text",
    [
        "all",
        "read,write:orders.*;deny delete:orders.eu",
        "read:a:b;metrics",
        "deny all:x*;all",
    ],
)
def test_text_is_the_same_after_a_way_there_and_back(text: str):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "scopes are empty"),
        (" ; ", "scopes are empty"),
        ("reed:orders", "'reed' is not an action"),
        ("read:orders*eu", "is not a pattern"),
        ("read:*.eu", "is not a pattern"),
        ("read:", "is not a pattern"),
        ("read:or ders", "is not a pattern"),
        ("refuse read:orders", "is not an action"),
        ("read,,write", "is not an action"),
        (";".join(["read"] * 101), "at most 100 scopes"),
    ],
)
def test_what_is_mistyped_is_told(text: str, words: str):
    with pytest.raises(Invalid, match=words):
        parse(text)


@pytest.mark.parametrize(
    ("giver", "gift", "may"),
    [
        ("all", "all", True),
        ("all", "read:orders;deny write", True),
        ("tokens,read:orders.*", "read:orders.eu", True),
        ("tokens,read:orders.*", "read:orders.*", True),
        ("tokens;read:orders.*", "read:order*", False),
        ("tokens;read:orders.*", "write:orders.eu", False),
        ("tokens", "tokens,admin", False),
        ("all;deny read:orders.eu", "read:orders.*", False),
        ("all;deny read:orders.eu", "read:orders.*;deny read:orders.eu", True),
        ("all;deny read:orders.eu", "read:orders.*;deny read:orders.e*", True),
        ("all;deny read:orders.eu", "read:orders.us", True),
        ("all;deny read:orders:dead", "read:orders", False),
        ("all;deny read:orders", "read:orders:dead", False),
        ("all;deny read:orders", "read:orders2", True),
        ("read:orders", "read:orders*", False),
    ],
)
def test_nobody_gives_away_what_he_does_not_have(giver: str, gift: str, may: bool):
    assert parse(giver).cover(parse(gift)) is may


def test_everything_covers_everything():
    assert EVERYTHING.cover(EVERYTHING)
    assert EVERYTHING.cover(NOTHING)
    assert not NOTHING.cover(EVERYTHING)
