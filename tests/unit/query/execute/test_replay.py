"""Promise: a replay tells what happened to one context, in the order it happened."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.unit.query.asking import Tables, table


@pytest.fixture
def tables() -> Tables:
    view = table(
        "view",
        {"page": "string", "at_time": "datetime | null"},
        [
            {"at": 0, "context": "a", "page": "/", "at_time": datetime(2026, 1, 1, tzinfo=UTC)},
            {"at": 1, "context": "b", "page": "/x"},
            {"at": 2, "context": "a", "page": "/buy"},
        ],
    )
    pay = table(
        "pay",
        {"amount": "f64", "page": "u64"},
        [
            {"at": 1, "context": "a", "amount": 1.5, "page": 2**64 - 1},
            {"at": 2, "context": "a", "amount": 2.5, "page": 7},
            {"at": 2, "context": "a", "amount": 3.5, "page": 8},
        ],
    )
    return Tables(view, pay)


def test_events_of_all_types_come_by_time_then_seq_then_name(tables):
    found = tables.tuples("REPLAY FOR a")

    assert [(event, seq) for event, seq, _, _ in found] == [
        ("view", 1),
        ("pay", 1),
        ("pay", 2),
        ("pay", 3),
        ("view", 3),
    ]


def test_the_fields_of_several_types_are_json(tables):
    result = tables.ask("REPLAY FOR a")

    assert result.columns == ["event", "seq", "ts", "payload"]
    payloads = [json.loads(row["payload"]) for row in result]
    assert payloads[0] == {"page": "/", "at_time": "2026-01-01T00:00:00Z"}
    assert payloads[1] == {"amount": 1.5, "page": 2**64 - 1}
    assert payloads[4] == {"page": "/buy", "at_time": None}


def test_one_type_has_its_own_columns(tables):
    result = tables.ask("REPLAY view FOR a")

    assert result.columns == ["seq", "ts", "context", "page", "at_time"]
    assert [row["page"] for row in result] == ["/", "/buy"]


def test_since_leaves_out_what_was_before(tables):
    assert tables.column('REPLAY FOR a SINCE "2026-01-01T02:00:00Z"') == [2, 3, 3]
    assert tables.column('REPLAY view FOR a SINCE "2026-01-01T02:00:00Z"') == [3]


def test_returned_fields_are_those_that_an_event_has(tables):
    found = tables.ask("REPLAY FOR a RETURN [amount]")

    payloads = [json.loads(row["payload"]) for row in found]
    assert payloads == [{}, {"amount": 1.5}, {"amount": 2.5}, {"amount": 3.5}, {}]
    assert tables.ask("REPLAY pay FOR a RETURN [amount]").columns == ["amount"]


def test_a_context_that_nothing_happened_to_is_empty(tables):
    result = tables.ask("REPLAY FOR nobody")

    assert result.message == "No matching events found"
    assert result.columns == ["event", "seq", "ts", "payload"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("clauses", ["", "RETURN [n]", 'SINCE "2026-01-01"', "USING at_time"])
def test_the_columns_do_not_depend_on_how_many_events_there_are(count: int, clauses: str):
    """Those of a replay without an event are always the same; one of an event has its own."""
    fields = {"n": "u64", "at_time": "datetime"}
    row = {"context": "a", "n": 7, "at_time": datetime(2026, 1, 1, tzinfo=UTC)}
    some = Tables(*(table(f"e{place}", fields, [row]) for place in range(count)))

    result = some.ask(f"REPLAY FOR a {clauses}")

    assert result.columns == ["event", "seq", "ts", "payload"]
    assert [row["event"] for row in result] == [f"e{place}" for place in range(count)]
    assert {json.loads(row["payload"])["n"] for row in result} == {7}
    assert some.ask("REPLAY e0 FOR a").columns == ["seq", "ts", "context", "n", "at_time"]


def test_a_replay_that_one_event_alone_has_the_time_of_has_the_same_columns(tables):
    found = tables.ask("REPLAY FOR a USING at_time")

    assert found.columns == ["event", "seq", "ts", "payload"]
    assert [row["event"] for row in found] == ["view"]
