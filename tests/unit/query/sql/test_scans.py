"""Promise: a question reads the columns and rows that it needs, as they are needed, and the answer
is the one that plain Python gives."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from strandline.config.settings import MIB
from strandline.errors import MemoryPressure
from strandline.query.sql.as_of import pin
from strandline.query.sql.dataset import RelationDataset
from strandline.query.sql.filters import AllOf, AnyOf, Comparison, Where
from strandline.query.sql.names import RelationNames
from strandline.query.sql.relations.event_table import condition_of
from strandline.query.sql.relations.relation import Relation
from strandline.query.sql.sandbox import SHARED, Sandbox
from strandline.query.sql.sql import sql, stream
from strandline.query.sql.statement import read
from strandline.store import Store
from strandline.views.table.condition import Compare
from tests.unit.query.sql.asking import ask
from tests.unit.store.world import World, read_all


class Counted:
    """A relation that notes what it was asked for, and how many rows it gave."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self.schema = relation.schema
        self.asked: list[list[str]] = []
        self.rows = 0

    def batches(self, columns: Sequence[str], where: Where | None) -> Iterator[pa.RecordBatch]:
        self.asked.append(list(columns))
        for batch in self._relation.batches(columns, where):
            self.rows += batch.num_rows
            yield batch


def _run(store: Store, text: str) -> tuple[list[dict[str, Any]], Counted]:
    """The answer to a question over one relation, and what was read for it."""
    with SHARED.parser() as connection:
        statement = read(text, connection)
    (named,) = set(statement.relations)
    source = RelationNames(store, statement, None, copied=False).find(named)
    counted = Counted(pin(store, [source], None)[0])
    with SHARED.open_database() as room:
        room.add(named.schema, named.name, RelationDataset(counted, []))
        return room.query(text, None).to_pylist(), counted


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("condition", "rows_max", "count"),
    [
        ("seq > 900 AND seq <= 910", 10, 10),
        ("seq = 5", 1, 1),
        ("seq IN (7, 9)", 3, 2),
        ("seq BETWEEN 990 AND 5000", 11, 11),
        ("ts >= make_timestamptz(1700000000000000 + 950 * 1000000)", 50, 50),
        ("ts < make_timestamptz(1700000000000000 + 20 * 1000000)", 20, 20),
        ("seq > 5000", 0, 0),
        ("seq > 990 AND data <> 'x'::BLOB", 10, 10),
    ],
)
def test_of_a_topic_only_the_seqs_and_times_in_question_are_read(world, condition, rows_max, count):
    topic = world.store.topic("t")
    for number in range(1000):
        topic.append(b"%d" % number)
        world.clock.advance(1)

    found, counted = _run(world.store, f"SELECT count(*) AS n FROM t WHERE {condition}")

    assert found == [{"n": count}]
    assert counted.rows <= rows_max


def test_only_the_columns_of_a_question_are_asked_for(world):
    world.store.topic("t", schema={"a": "i64", "b": "i64"}).append([b'{"a": 1, "b": 2}'] * 3)

    found, counted = _run(world.store, "SELECT sum(a) AS s FROM t WHERE tag IS NULL")

    assert found == [{"s": 3}]
    assert {name for asked in counted.asked for name in asked} == {"a", "tag"}


def test_a_scan_stops_when_nobody_needs_more(world):
    topic = world.store.topic("t")
    for _ in range(20):
        topic.append([b"x" * 10] * 10_000)

    found, counted = _run(world.store, "SELECT seq FROM t LIMIT 5")

    assert len(found) == 5
    assert counted.rows < 150_000


@pytest.mark.parametrize(
    ("condition", "rows_max", "count"),
    [
        ("key = 'k0500'", 1, 1),
        ("key_bytes = 'k0500'::BLOB", 1, 1),
        ("key >= 'k0990'", 10, 10),
        ("key >= 'k012' AND key < 'k013'", 11, 10),
        ("key IN ('k0001', 'k0003')", 3, 2),
        ("key > 'k0100' AND key < 'k0103'", 4, 2),
    ],
)
def test_of_a_map_only_the_keys_in_question_are_read(world, condition, rows_max, count):
    world.store.kv("m").put_many({f"k{n:04}": b"v" for n in range(1000)})

    found, counted = _run(world.store, f"SELECT count(*) AS n FROM m WHERE {condition}")

    assert found == [{"n": count}]
    assert counted.rows <= rows_max


def test_of_a_series_only_the_sources_and_times_in_question_are_read(world):
    world.store.series("s").append_many(
        [(f"bus-{n % 10}", n, b"p") for n in range(1000)],
    )

    found, counted = _run(
        world.store, "SELECT count(*) AS n FROM s WHERE source = 'bus-3' AND tick >= 500"
    )

    assert found == [{"n": 50}]
    assert counted.rows == 50


def test_of_metrics_only_the_points_in_question_are_read(world):
    metrics = world.store.metrics("m")
    for n in range(100):
        metrics.write("cpu", {"host": f"h{n % 4}"}, {"load": n, "jobs": n}, at=n * 1000)
        metrics.write("mem", {}, {"used": n}, at=n * 1000)

    long = (
        "SELECT count(*) AS n FROM m WHERE measurement = 'cpu' AND field = 'load' AND ns <= 49000"
    )
    wide = "SELECT count(*) AS n FROM metrics.\"m/cpu\" WHERE host = 'h1' AND ns >= 40000"
    found_long, counted_long = _run(world.store, long)
    found_wide, counted_wide = _run(world.store, wide)

    assert (found_long, counted_long.rows) == ([{"n": 50}], 50)
    assert (found_wide, counted_wide.rows) == ([{"n": 15}], 15)


def test_of_a_table_only_zones_that_may_match_are_read(world):
    table = world.store.table("e", zone_rows=256)
    table.define({"n": "i64"})
    table.store_many([f"u{n:05}" for n in range(4096)], [{"n": n} for n in range(4096)])
    table.flush()

    found, counted = _run(world.store, "SELECT count(*) AS c FROM e WHERE n = 1000 OR n = 1001")

    assert found == [{"c": 2}]
    assert counted.rows <= 512


def test_a_condition_of_which_one_side_is_unknown_rules_out_nothing():
    known, unknown = Comparison("n", "=", 1), Comparison("raw", "=", b"bytes")

    assert condition_of(AnyOf((known, unknown))) is None
    assert condition_of(AllOf((known, unknown))) == Compare("n", "=", 1)


def test_of_a_queue_payloads_are_read_only_when_they_are_asked_for(world):
    world.store.queue("q").put_many([b"%d" % n for n in range(100)])

    _, counted = _run(world.store, "SELECT state, count(*) FROM q WHERE seq > 90 GROUP BY 1")

    assert counted.rows == 10
    assert {name for asked in counted.asked for name in asked} == {"state", "seq"}


def test_a_relation_may_be_named_as_often_as_one_likes(world):
    world.store.topic("t").append([b"%d" % n for n in range(100)])

    found = ask(
        world.store,
        "WITH x AS (FROM t) SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM t a JOIN T b "
        "USING (seq)), (SELECT count(*) FROM x JOIN x y ON x.seq = y.seq + 1)",
    )

    assert found == [(100, 100, 99)]


def test_groups_joins_and_windows_are_what_python_makes_of_the_same_records(world):
    chance = random.Random(7)
    orders = world.store.topic("orders", schema={"who": "string", "price": "f64 | null"})
    for number in range(400):
        price = "null" if chance.random() < 0.2 else f"{chance.randrange(1000) / 4}"
        data = b'{"who": "u%d", "price": %s}' % (chance.randrange(9), price.encode())
        orders.append(data, tag=chance.choice(["eu", "us", "eu/de"]))
        if number % 90 == 0:
            world.store.checkpoint()
    orders.delete(match="eu/*")
    orders.delete(before=30)

    found = ask(
        world.store,
        "SELECT tag, json_extract_string(text, '$.who') AS w, count(*), count(price), "
        "coalesce(sum(price), 0), max(seq) FROM orders GROUP BY ALL ORDER BY ALL",
    )

    groups: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, 0.0, 0])
    for record in read_all(orders):
        row = json.loads(record.data)
        group = groups[record.tag, row["who"]]
        group[0] += 1
        group[1] += row["price"] is not None
        group[2] += row["price"] or 0.0
        group[3] = record.seq
    assert found == sorted((*key, *values) for key, values in groups.items())


def test_an_answer_can_be_read_bit_by_bit(world):
    world.store.topic("t").append([b"x"] * 30_000)

    with stream(world.store, "SELECT seq FROM t WHERE seq % 2 = 0") as batches:
        sizes = [batch.num_rows for batch in batches]

    assert sum(sizes) == 15_000
    assert len(sizes) > 1


def test_a_question_that_needs_too_much_memory_is_refused(world):
    world.store.topic("t").append([b"%09d" % n * 20 for n in range(5_000)] * 2)
    small = Sandbox(memory_max=32 * MIB, threads=1)

    with pytest.raises(MemoryPressure, match="32 MiB"):
        sql(
            world.store,
            "SELECT a.data || b.data AS d FROM t a, t b WHERE b.seq < 200 ORDER BY d LIMIT 900000",
            sandbox=small,
        )

    assert ask(world.store, "SELECT count(*) FROM t", sandbox=small) == [(10_000,)]
    small.close()
