"""Promise: EXPLAIN tells what an answer has cost: files, zones, bytes, indexes, rows, time, SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

from strandline.errors import Invalid
from strandline.query.execute.arrow_snapshot import ArrowSnapshot
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.explain import explain_dict, explain_text
from strandline.query.execute.result import Result
from strandline.testing.sim_clock import SimClock
from strandline.views.table.snapshot import ReadStatistics
from tests.unit.query.asking import Tables, table
from tests.unit.store.world import World


class FromFiles:
    """A snapshot whose readings say that they were of files, and take time."""

    def __init__(self, inner: ArrowSnapshot, clock: SimClock) -> None:
        self._inner = inner
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def read(self, columns, where=None, *, after=0, top=None):
        self._clock.advance(0.25)
        reading = self._inner.read(columns, where, after=after, top=top)
        reading.facts = ReadStatistics(
            files=4,
            files_kept=1,
            zones=37,
            zones_kept=2,
            memory_rows=120,
            rows=2,
            bytes_read=98304,
            indexes=["amount: fence"],
            seconds={"prune": 0.002},
        )
        return reading


@pytest.fixture
def tables() -> Tables:
    clock = SimClock()
    rows = [{"amount": 1.0}, {"amount": 200.0}]
    pay = FromFiles(table("pay", {"amount": "f64"}, rows), clock)
    return Tables(pay, engine=DuckDbEngine(clock, threads=1))


def test_everything_that_was_measured_is_told(tables):
    told = explain_dict(tables.ask("QUERY pay WHERE amount > 100 RETURN [amount]"))

    assert told["rows"] == 1
    assert told["tables"] == [
        {
            "table": "pay",
            "columns": ["seq", "amount"],
            "where": "amount > 100.0",
            "files": 4,
            "files_kept": 1,
            "zones": 37,
            "zones_kept": 2,
            "memory_rows": 120,
            "rows": 2,
            "bytes_read": 98304,
            "indexes": ["amount: fence"],
            "seconds": {"prune": 0.002},
        }
    ]
    assert told["sql"] == [
        'SELECT "amount" AS "__c0" FROM "rows0" '
        'WHERE "amount" > CAST(\'100.0\' AS DOUBLE) ORDER BY "seq" ASC'
    ]
    assert told["seconds"] == {"plan": 0.25, "read": 0.0, "calculate": 0.0, "total": 0.25}


def test_people_are_told_the_same(tables):
    text = explain_text(tables.ask("QUERY pay WHERE amount > 100 RETURN [amount]"))

    assert text.splitlines() == [
        "pay: 1 rows in 250.0 ms",
        "read pay",
        "  columns  seq, amount",
        "  where    amount > 100.0",
        "  files    1 of 4",
        "  zones    2 of 37",
        "  memory   120 rows",
        "  rows     2",
        "  bytes    98304",
        "  indexes  amount: fence",
        "  time     prune 2.0 ms",
        "time",
        "  plan 250.0 ms, read 0.0 ms, calculate 0.0 ms",
        "sql",
        '  SELECT "amount" AS "__c0" FROM "rows0" '
        'WHERE "amount" > CAST(\'100.0\' AS DOUBLE) ORDER BY "seq" ASC',
    ]


def test_every_event_of_a_sequence_is_told(tables):
    told = explain_dict(tables.ask("QUERY pay FOLLOWED BY pay WHERE pay2.amount > 5"))

    assert [(each["table"], each["where"]) for each in told["tables"]] == [
        ("pay", ""),
        ("pay", "amount > 5.0"),
    ]
    assert "match" in told["seconds"]


def test_conditions_are_told_with_their_parentheses(tables):
    question = "QUERY pay WHERE NOT (amount = 1 AND amount IN (2, 3)) AND amount != 4"

    (told,) = explain_dict(tables.ask(question))["tables"]

    assert told["where"] == "NOT (amount = 1.0 AND amount IN (2.0, 3.0)) AND amount != 4.0"


def test_an_answer_that_nobody_calculated_cannot_be_explained():
    with pytest.raises(Invalid, match="nothing to explain"):
        explain_dict(Result(pa.table({"a": [1]})))


def test_zones_that_a_store_has_skipped_are_told():
    world = World()
    made = world.store.table("pay", flush_rows=512, zone_rows=256)
    made.define({"n": "i64"})
    made.store_many("c", [{"n": n} for n in range(1024)])
    made.flush()

    told = explain_dict(Tables(made.snapshot()).ask("QUERY pay WHERE n = 700"))

    (source,) = told["tables"]
    assert told["rows"] == 1
    assert source["zones"] == 4
    assert source["zones_kept"] == 1
    assert source["bytes_read"] > 0
    assert source["indexes"]
    world.store.close()
