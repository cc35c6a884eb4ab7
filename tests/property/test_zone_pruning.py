"""Promise: zones that hold rows which fulfil a condition are never ruled out, whatever the
condition; and selective questions do rule out most of the others.

Every condition is compared with its truth row by row, NOT included. That zones are really ruled out
is counted: indexes that keep everything would pass otherwise.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from strandline.views.table.index.index_builder import build
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.index.index_reader import Indexes, top_across
from strandline.views.table.snapshot import Top
from tests.unit.views.table.index.world import (
    EAGER,
    FILTERING,
    HOUR_US,
    START_US,
    is_true,
    kept,
    opened,
    sorted_rows,
    table_of,
    true_zones,
)

FIELDS = {
    "name": "string | null",
    "plan": '["free","pro","team"] | null',
    "size": "u64 | null",
    "change": "i64 | null",
    "price": "f64 | null",
    "ok": "bool | null",
    "at": "datetime | null",
    "day": "date | null",
}
SCHEMA = Schema(1, FIELDS)
ORDERED = ("<", "<=", ">", ">=")

LONG = "x" * 60
TEXTS = [
    "",
    "a",
    "a\0",
    "a\0b",
    "b",
    "bb",
    "zebra",
    "é",
    "\U0001f40e",
    LONG,
    LONG + "y",
    LONG + "z",
]
POOLS = {
    "context": ["", "c1", "c2", "c3", LONG + "1", LONG + "2"],
    "ts": [START_US + hour * HOUR_US + more for hour in (-1, 0, 1, 30) for more in (-1, 0, 1)],
    "seq": list(range(1, 40)),
    "name": TEXTS,
    "plan": ["free", "pro", "team"],
    "size": [0, 1, 2, 7, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    "change": [-(2**63), -(2**53) - 1, -5, -1, 0, 1, 2**62, 2**63 - 1],
    "price": [-1e300, -1.5, -0.0, 0.0, 5e-324, 0.1, 1.0, 2.0**53, 1e300],
    "ok": [False, True],
    "at": [START_US + hour * HOUR_US + more for hour in (-50, 0, 1, 2) for more in (-1, 0, 1)],
    "day": [-1, 0, 1, 20454, 20455, 2932896],
}
POLICIES = [
    EAGER,
    FILTERING,
    IndexPolicy(),
    IndexPolicy(calendar_share=0.5, filtered_min=0, rank_max=2),
]


def _table(rng: random.Random) -> list[dict]:
    """A few rows in the order of a file. Neighbours are often alike, as they are in real ones."""
    rows: list[dict] = []
    for _ in range(rng.randint(1, 24)):
        row = {field: rng.choice(POOLS[field]) for field in POOLS if field != "seq"}
        row |= {field: None for field in FIELDS if rng.random() < 0.2}
        if rows and rng.random() < 0.5:
            row |= rng.sample(list(rows[-1].items()), 8)
        rows.append(row)
    return sorted_rows(rows)


def _leaf(rng: random.Random, field: str) -> Condition:
    value = rng.choice(POOLS[field])
    match rng.randrange(8):
        case 0:
            return In(field, tuple(rng.choices(POOLS[field], k=rng.randrange(4))))
        case 1:
            return Compare(field, rng.choice(("=", "!=")), None)
        case 2:
            return Truth(field) if field == "ok" else Compare(field, "=", value)
        case 3:
            return Compare(field, rng.choice(("=", "!=")), value)
        case _:
            return Compare(field, rng.choice(ORDERED), value)


def _condition(rng: random.Random) -> Condition:
    """Nested, of one or two fields: what is asked of a field several times goes together."""
    fields = rng.sample(list(POOLS), rng.choice((1, 1, 2)))

    def nested(depth: int) -> Condition:
        match rng.randrange(2 + 2 * depth):
            case 0:
                return Not(nested(depth))
            case 1 | 2:
                return _leaf(rng, rng.choice(fields))
            case _:
                parts = tuple(nested(depth - 1) for _ in range(rng.choice((0, 1, 2, 2, 2, 3))))
                return rng.choice((And, Or))(parts)

    return nested(rng.randrange(3))


def _indexes(rng: random.Random, rows: list[dict], zone_rows: int) -> Indexes:
    table = table_of(rows, SCHEMA, coded=rng.random() < 0.5)
    return opened(build(table, SCHEMA, zone_rows, rng.choice(POLICIES)))


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_no_zone_with_a_matching_row_is_ruled_out(seed):
    rng = random.Random(seed)
    rows, zone_rows = _table(rng), rng.choice((1, 1, 2, 3, 7))
    indexes = _indexes(rng, rows, zone_rows)

    for condition in (_condition(rng) for _ in range(200)):
        lost = true_zones(rows, condition, zone_rows) - set(kept(indexes, condition, SCHEMA))

        assert not lost, condition


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(("u64", "i64", "f64", "date", "datetime")))
def test_no_zone_is_ruled_out_where_a_bin_holds_many_values(seed, kind):
    rng = random.Random(seed)
    make = float if kind == "f64" else int
    centers = [rng.randrange(400) for _ in range(40)]
    near = [rng.choice((7, center + rng.randrange(30))) for center in centers for _ in range(5)]
    rows = sorted_rows([{"x": make(value) if rng.random() < 0.9 else None} for value in near])
    schema = Schema(1, {"x": f"{kind} | null"})
    indexes = opened(build(table_of(rows, schema), schema, 5, EAGER))

    for _ in range(60):
        one, other = (
            Compare("x", rng.choice((*ORDERED, "=")), make(rng.choice(near))) for _ in range(2)
        )
        condition = rng.choice((one, Not(one), And((one, other)), Not(Or((one, other)))))

        assert true_zones(rows, condition, 5) <= set(kept(indexes, condition)), condition


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_a_condition_and_its_opposite_are_both_answered_for_every_zone(seed):
    """A row is in one half or the other, so no zone may be ruled out for both."""
    rng = random.Random(seed)
    indexes = _indexes(rng, _table(rng), rng.choice((1, 2, 7)))

    for condition in (_condition(rng) for _ in range(100)):
        both = {*kept(indexes, condition), *kept(indexes, Not(condition))}

        assert both == set(range(indexes.zones)), condition


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_the_first_rows_are_in_the_zones_that_are_left_for_them(seed):
    rng = random.Random(seed)
    zone_rows, tables = rng.randint(1, 5), [_table(rng) for _ in range(rng.randint(1, 3))]
    files = [_indexes(rng, rows, zone_rows) for rows in tables]
    for _ in range(20):
        where = rng.choice((None, _condition(rng)))
        field, descending = rng.choice(list(POOLS)), rng.random() < 0.5
        top = Top(field=field, descending=descending, rows=rng.randrange(12))
        among = [(each, each.prune(where, SCHEMA)[0]) for each in files]

        left = top_across(among, top, where=where, schema=SCHEMA)

        matching = [
            (row[field], file, place // zone_rows)
            for file, rows in enumerate(tables)
            for place, row in enumerate(rows)
            if where is None or is_true(where, row)
        ]
        assert _first(matching, top) <= {
            (file, zone) for file, mask in enumerate(left) for zone in np.flatnonzero(mask).tolist()
        }, (top, where)


def _first(rows: list[tuple], top: Top) -> set[tuple[int, int]]:
    """The zones of the first rows, nulls last, and of all that are equal to the last of them."""
    there = [row for row in rows if row[0] is not None]
    there.sort(key=lambda row: row[0], reverse=top.descending)
    if not top.rows or len(there) < top.rows:
        return {row[1:] for row in rows} if top.rows else set()
    last = there[top.rows - 1][0]
    return {row[1:] for row in there if (row[0] >= last if top.descending else row[0] <= last)}


ROWS, ZONE_ROWS = 20_000, 500


def _large(seed: int) -> tuple[pa.Table, Schema, random.Random]:
    rng = np.random.default_rng(seed)
    contexts = np.sort(rng.integers(0, 3000, ROWS))
    schema = Schema(1, {"id": "string", "user": "u64", "page": "string", "at": "datetime"})
    table = pa.table(
        {
            "seq": pa.array(rng.permutation(ROWS) + 1, pa.uint64()),
            "ts": pa.array(START_US + rng.integers(0, 9 * HOUR_US, ROWS)).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "context": pa.array([f"user-{each:05}" for each in contexts]),
            "id": pa.array([f"{each:016x}" for each in rng.integers(0, 2**63, ROWS)]),
            "user": pa.array(rng.integers(0, 2**64, ROWS, dtype="u8")),
            "page": pa.array([f"/{each}" for each in rng.zipf(1.3, ROWS).clip(max=900)]),
            # A zone has two days of its own in a year, so most hours are in few zones.
            "at": pa.array(
                START_US + (contexts // 75 * 48 + rng.integers(0, 48, ROWS)) * HOUR_US
            ).cast(pa.timestamp("us", tz="UTC")),
        }
    )
    return table, schema, random.Random(seed)


def test_selective_questions_rule_most_zones_out():
    table, schema, rng = _large(1)
    indexes = opened(build(table, schema, ZONE_ROWS))
    rows = [table.slice(rng.randrange(ROWS), 1) for _ in range(200)]
    shares: dict[str, float] = {}

    for field in ("context", "id", "user"):
        values = [row[field][0].as_py() for row in rows]
        found = [len(kept(indexes, Compare(field, "=", value))) for value in values]
        shares[field] = sum(found) / len(found) / indexes.zones
    hours = [row["at"].cast(pa.int64())[0].as_py() // HOUR_US * HOUR_US for row in rows]
    found = [len(kept(indexes, _within_hour("at", hour))) for hour in hours]
    shares["at"] = sum(found) / len(found) / indexes.zones
    absent = [len(kept(indexes, Compare("id", "=", f"{rng.getrandbits(60):016x}"))) for _ in rows]

    assert indexes.zones == 40
    assert shares["context"] < 1.3 / 40
    assert shares["id"] < 1.5 / 40
    assert shares["user"] < 1.5 / 40
    assert shares["at"] < 3 / 40
    assert sum(absent) / len(absent) < 0.1


def test_zones_are_ruled_out_by_the_opposite_of_what_they_hold():
    rows = sorted_rows([{"plan": "pro" if place < 30 else "free"} for place in range(40)])
    indexes = opened(build(table_of(rows, SCHEMA), SCHEMA, 10))

    assert kept(indexes, Not(Compare("plan", "=", "pro"))) == [3]
    assert kept(indexes, Not(In("plan", ("free", "team")))) == [0, 1, 2]


def _within_hour(field: str, hour: int) -> Condition:
    return And((Compare(field, ">=", hour), Compare(field, "<", hour + HOUR_US)))
