"""Promise: values that do not fit their typed column are counted, however a query reads them."""

from __future__ import annotations

import random

import msgspec
import pytest

from strandline.schema import Schema
from tests.unit.lake.plain_types import plain_rows
from tests.unit.store.world import World

FIELDS = {"n": "u64", "f": "f64", "moment": "datetime", "ok": "bool", "one": '["a","b"]'}
VALUES = [
    *(0, 5, -1, 2**64, 1.5, 1e300, True, False, None, "a", "b", "c", "", "5", [1], {"n": 1}),
    *("2026-01-02", "never", "2024-12-31T23:59:59.9999999Z", 10**19),
]


@pytest.mark.parametrize("seed", range(4))
def test_as_many_values_are_noted_as_a_plain_reading_finds(seed):
    chance = random.Random(seed)
    rows = []
    for _ in range(300):
        names = chance.sample(list(FIELDS), chance.randint(0, len(FIELDS)))
        rows.append({name: chance.choice(VALUES) for name in names})
    data = [msgspec.json.encode(row) for row in rows] + [b"no json", b"[1]"]
    world = World()
    topic = world.store.topic("t", schema=FIELDS)
    for first in range(0, len(data), 50):
        topic.append_many(data[first : first + 50])
    kinds = topic.config.schema

    result = world.store.sql(
        "select count(n), count(f), count(moment), count(ok), count(one) from t"
    )

    plain = plain_rows(data, Schema(1, kinds).types())
    wanted = {}
    for name in FIELDS:
        bad = [
            place
            for place, row in enumerate(rows)
            if row.get(name) is not None and plain[name][place] is None
        ]
        if bad:
            wanted[name] = (len(bad), bad[0] + 1)
    told = {}
    for note in result.notes:
        words = note.split()
        told[words[3].removeprefix("t.")] = (int(words[0]), int(words[-1]))
    assert told == wanted


def test_a_query_that_reads_a_topic_twice_counts_once():
    world = World()
    topic = world.store.topic("t", schema={"n": "u64"})
    topic.append_many([b'{"n": "x"}', b'{"n": 1}', b'{"n": "y"}'])

    result = world.store.sql(
        "select count(a.n) from t a join t b on a.seq = b.seq where b.n is null"
    )

    assert [note.split()[0] for note in result.notes] == ["2"]


def test_a_name_that_is_written_with_escapes_is_seen():
    world = World()
    topic = world.store.topic("t", schema={"price": "f64"})
    topic.append(b'{"pr\\u0069ce": "x"}')

    assert len(world.store.sql("select sum(price) from t").notes) == 1


def test_a_field_with_the_name_of_a_system_column_is_noted_by_its_own_name():
    world = World()
    topic = world.store.topic("t", schema={"key": "u64"})
    topic.append_many([b'{"key": 1}', b'{"key": "one"}'])

    result = world.store.sql("select sum(__data_key) as total from t")

    assert result.rows() == [{"total": 1}]
    assert result.notes == ('1 value of t.key is not u64 and is null here: "one" of seq 2',)
