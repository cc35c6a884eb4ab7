"""Promise: an event table of a server takes, gives and refuses what one of an open store does."""

from __future__ import annotations

import pytest

from strandline import AppendResult, Invalid, StrandlineError
from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, In, Not
from strandline.views.table.table import TableStats


@pytest.fixture
def table(store, name):
    made = store.table(name)
    made.define({"plan": "string", "n": "i64 | null", "country": ["US", "DE"]})
    return made


def test_a_table_is_defined_once_and_grows(store, name):
    table = store.table(name)

    assert table.schema == Schema()
    first = table.define({"plan": "string"})
    again = table.define({"plan": "string"})
    second = table.define({"plan": "string", "n": "int | null"}, version=2)
    assert isinstance(first, Schema)
    assert first == again == Schema(1, {"plan": "string"})
    assert second == table.schema == Schema(2, {"plan": "string", "n": "i64 | null"})
    with pytest.raises(Invalid):
        table.define({"plan": "string"}, new=True)
    with pytest.raises(Invalid):
        table.define({"plan": "string", "n": "int | null"}, version=7)
    with pytest.raises(Invalid):
        table.define({"plan": "i64"})


def test_events_are_stored_as_they_come(table):
    appended = table.store("user-1", {"plan": "pro", "country": "US"})
    table.store("user-2", b'{"plan": "free",  "n": 5, "country": "DE"}')
    many = table.store_many("user-3", ['{"plan":"ä","country":"US"}'] * 3)

    assert appended == AppendResult(1, 1, 1) or appended.first_seq == appended.last_seq
    assert many.last_seq - many.first_seq == 2
    told = table.statistics()
    assert isinstance(told, TableStats)
    assert (told.rows, told.misfits, told.schema_version) == (5, 0, 1)


def test_one_that_does_not_fit_keeps_all_out(table):
    with pytest.raises(Invalid):
        table.store_many(["a", "b"], [{"plan": "x", "country": "US"}, {"plan": "x"}])

    assert table.statistics().rows == 0


def test_checking_stores_nothing(table):
    table.check({"plan": "x", "country": "US"})

    with pytest.raises(Invalid):
        table.check({"plan": "x", "country": "FR"})
    assert table.statistics().rows == 0


def test_rows_are_deleted_by_a_condition(table):
    table.store_many("c", [{"plan": "p", "n": n, "country": "US"} for n in range(10)])

    assert table.delete(Compare("n", "<", 3)) == 3
    assert table.delete(And((In("n", (3, 4)), Not(Compare("n", "=", 4))))) == 1
    assert table.delete(Compare("n", ">", 100)) == 0
    assert table.statistics().rows == 6


def test_a_snapshot_stays_where_it_was(table):
    table.store("a", {"plan": "p", "n": 1, "country": "US"})
    then = table.snapshot()
    table.store("b", {"plan": "p", "n": 2, "country": "US"})

    assert (then.name, then.schema.version, then.rows) == (table.name, 1, 1)
    assert then.columns.names == ["seq", "ts", "context", "plan", "n", "country"]
    assert table.snapshot().rows == 2
    assert table.snapshot(then.position).rows == 1
    with pytest.raises(Invalid):
        then.read(["colour"])


def test_files_are_written_and_merged(table):
    table.store("a", {"plan": "p", "country": "US"})

    table.flush()
    table.compact()

    told = table.statistics()
    assert (told.rows, told.memory_rows) == (1, 0)


REFUSED = {
    "no context": lambda table: table.store("", {"plan": "x", "country": "US"}),
    "context is bytes": lambda table: table.store(b"a", {"plan": "x", "country": "US"}),
    "long context": lambda table: table.store("c" * 1025, {"plan": "x", "country": "US"}),
    "reserved context": lambda table: table.store("__system_x", {"plan": "x", "country": "US"}),
    "no event": lambda table: table.store_many([], []),
    "too few contexts": lambda table: table.store_many(["a"], [{}, {}]),
    "a number": lambda table: table.store("a", 5),
    "no JSON": lambda table: table.store("a", b"{"),
    "no object": lambda table: table.store("a", b"[]"),
    "not for JSON": lambda table: table.store("a", {"plan": object()}),
    "unknown field": lambda table: table.store("a", {"plan": "x", "country": "US", "z": 1}),
    "missing field": lambda table: table.store("a", {"plan": "x"}),
    "bad type": lambda table: table.define({"plan": "colour"}),
    "no fields": lambda table: table.define({}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(table, what):
    with pytest.raises(StrandlineError) as refused:
        REFUSED[what](table)

    assert refused.type is Invalid


def test_a_table_without_fields_stores_nothing(store, name):
    with pytest.raises(Invalid):
        store.table(name).store("a", {})
