"""Promise: zones that hold rows which fulfil a condition are never ruled out, whatever the
condition; and selective questions do rule out most of the others.

Every condition is compared with its truth row by row, NOT included. That zones are really ruled out
is counted: indexes that keep everything would pass otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.schema import Schema
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth
from strandline.views.table.index.build import build
from strandline.views.table.index.policy import Policy
from strandline.views.table.index.read import Indexes, top_across
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
POLICIES = [EAGER, FILTERING, Policy(), Policy(calendar_share=0.5, filtered_min=0, rank_max=2)]


def _row() -> st.SearchStrategy[dict]:
    values = {
        field: st.one_of(st.sampled_from(pool), st.none())
        if field in FIELDS
        else st.sampled_from(pool)
        for field, pool in POOLS.items()
        if field != "seq"
    }
    return st.fixed_dictionaries(values)


def _leaf(fields: Sequence[str] = tuple(POOLS)) -> st.SearchStrategy[Condition]:
    def of(field: str) -> st.SearchStrategy[Condition]:
        value = st.sampled_from(POOLS[field])
        found = [
            st.builds(Compare, st.just(field), st.sampled_from(("=", "!=")), value | st.none()),
            st.builds(Compare, st.just(field), st.sampled_from(ORDERED), value),
            st.builds(In, st.just(field), st.lists(value, max_size=4).map(tuple)),
        ]
        return st.one_of(*found, st.just(Truth(field))) if field == "ok" else st.one_of(*found)

    return st.sampled_from(fields).flatmap(of)


def _conditions() -> st.SearchStrategy[Condition]:
    def nest(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        parts = st.lists(inner, max_size=4).map(tuple)
        return st.one_of(parts.map(And), parts.map(Or), inner.map(Not))

    # Few fields in one condition: what is asked of one of them several times goes together.
    fields = st.lists(st.sampled_from(list(POOLS)), min_size=1, max_size=2)
    return fields.flatmap(lambda few: st.recursive(_leaf(few), nest, max_leaves=8))


TABLES = st.lists(_row(), min_size=1, max_size=24).map(sorted_rows)


def _indexes(rows: list[dict], zone_rows: int, policy: Policy, *, coded: bool = False) -> Indexes:
    return opened(build(table_of(rows, SCHEMA, coded=coded), SCHEMA, zone_rows, policy))


@settings(max_examples=100, deadline=None)
@given(
    TABLES,
    st.lists(_conditions(), min_size=1, max_size=25),
    st.integers(1, 7),
    st.sampled_from(POLICIES),
    st.booleans(),
)
def test_no_zone_with_a_matching_row_is_ruled_out(rows, conditions, zone_rows, policy, coded):
    indexes = _indexes(rows, zone_rows, policy, coded=coded)

    for condition in conditions:
        lost = true_zones(rows, condition, zone_rows) - set(kept(indexes, condition, SCHEMA))

        assert not lost, condition


@settings(max_examples=60, deadline=None)
@given(
    TABLES, st.lists(_leaf(), min_size=1, max_size=40), st.integers(1, 7), st.sampled_from(POLICIES)
)
def test_a_leaf_and_its_opposite_are_both_answered_for_every_zone(rows, leaves, zone_rows, policy):
    """A row is in one half or the other, so no zone may be ruled out for both."""
    indexes = _indexes(rows, zone_rows, policy)

    for leaf in leaves:
        both = {*kept(indexes, leaf), *kept(indexes, Not(leaf))}

        assert both == set(range(indexes.zones)), leaf


@settings(max_examples=80, deadline=None)
@given(
    st.lists(TABLES, min_size=1, max_size=3),
    st.integers(1, 5),
    st.sampled_from(list(POOLS)),
    st.booleans(),
    st.integers(0, 12),
    st.none() | _conditions(),
    st.sampled_from(POLICIES),
)
def test_the_first_rows_are_in_the_zones_that_are_left_for_them(
    tables, zone_rows, field, descending, wanted, where, policy
):
    files = [_indexes(rows, zone_rows, policy) for rows in tables]
    among = [each.prune(where, SCHEMA)[0] for each in files]
    top = Top(field=field, descending=descending, rows=wanted)

    left = top_across(list(zip(files, among, strict=True)), top, where=where, schema=SCHEMA)

    matching = [
        (row[field], file, place // zone_rows)
        for file, rows in enumerate(tables)
        for place, row in enumerate(rows)
        if where is None or is_true(where, row)
    ]
    assert _first(matching, wanted, descending=descending) <= {
        (file, zone) for file, mask in enumerate(left) for zone in np.flatnonzero(mask).tolist()
    }


def _first(rows: list[tuple], wanted: int, *, descending: bool) -> set[tuple[int, int]]:
    """The zones of the first rows, nulls last, and of all that are equal to the last of them."""
    there = sorted((row for row in rows if row[0] is not None), key=lambda row: row[0])
    there = [*reversed(there)] if descending else there
    missing = [row for row in rows if row[0] is None]
    if not wanted:
        return set()
    if len(there) < wanted:
        return {row[1:] for row in [*there, *missing]}
    last = there[wanted - 1][0]
    ahead = [row for row in there if (row[0] >= last if descending else row[0] <= last)]
    return {row[1:] for row in ahead}


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
