"""Promise: bounds and nulls of a zone rule it out exactly when they may."""

from __future__ import annotations

import pytest

from strandline.views.table.condition import And, Compare, In, Not, Truth
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.index.min_max import TEXT_MAX
from tests.unit.views.table.index.world import FILTERING, indexed, kept, sorted_rows, used

NUMBERS = [[1, 5], [5, 9], [None, 12], [None, None], [20, 20]]


def _numbers():
    rows = sorted_rows([{"size": value} for zone in NUMBERS for value in zone])
    return indexed(rows, {"size": "i64 | null"}, zone_rows=2)


@pytest.mark.parametrize(
    ("op", "value", "zones"),
    [
        ("=", 5, [0, 1]),
        ("=", 10, []),
        ("!=", 20, [0, 1, 2, 3]),
        ("<", 1, []),
        ("<", 2, [0]),
        ("<=", 1, [0]),
        (">", 12, [4]),
        (">=", 12, [2, 4]),
        (">", 20, []),
        (">=", 20, [4]),
        ("=", None, [2, 3]),
        ("!=", None, [0, 1, 2, 4]),
    ],
)
def test_a_comparison_keeps_the_zones_whose_bounds_allow_it(op, value, zones):
    assert kept(_numbers(), Compare("size", op, value)) == zones


@pytest.mark.parametrize(
    ("op", "value", "zones"),
    [
        ("=", 20, [0, 1, 2, 3]),
        ("!=", 5, [0, 1]),
        ("<", 9, [1, 2, 3, 4]),
        ("<=", 9, [2, 3, 4]),
        (">", 1, [0, 2, 3]),
        (">=", 1, [2, 3]),
        ("=", None, [0, 1, 2, 4]),
        ("!=", None, [2, 3]),
    ],
)
def test_not_keeps_the_zones_that_may_have_a_row_for_which_it_is_false(op, value, zones):
    assert kept(_numbers(), Not(Compare("size", op, value))) == zones


def test_in_is_the_sum_of_its_values():
    indexes = _numbers()

    assert kept(indexes, In("size", (1, 12))) == [0, 2]
    assert kept(indexes, In("size", (3, None))) == [2, 3]
    assert kept(indexes, In("size", ())) == []
    assert kept(indexes, Not(In("size", (20,)))) == [0, 1, 2, 3]
    assert kept(indexes, Not(In("size", (20, None)))) == [0, 1, 2]


def test_bools_are_known_by_their_bounds():
    values = [True, True, False, True, False, False, None, None]
    indexes = indexed(sorted_rows([{"ok": each} for each in values]), {"ok": "bool"}, zone_rows=2)

    assert kept(indexes, Truth("ok")) == [0, 1]
    assert kept(indexes, Not(Truth("ok"))) == [1, 2, 3]
    assert kept(indexes, Compare("ok", "=", False)) == [1, 2]
    assert kept(indexes, Compare("ok", "!=", True)) == [1, 2, 3]


def test_the_largest_numbers_are_told_apart():
    values = [2**64 - 1, 2**64 - 1, 2**64 - 2, 0, None, 2**64 - 1]
    indexes = indexed(
        sorted_rows([{"size": each} for each in values]), {"size": "u64"}, zone_rows=2
    )

    assert kept(indexes, Compare("size", "=", 2**64 - 1)) == [0, 2]
    assert kept(indexes, Compare("size", "<", 2**64 - 1)) == [1]
    assert kept(indexes, Compare("size", ">", 2**64 - 1)) == []
    assert kept(indexes, Compare("size", "=", 2**64)) == []
    assert kept(indexes, Compare("size", ">", -1)) == [0, 1, 2]
    assert kept(indexes, Compare("size", "<", -1)) == []


def test_zero_and_minus_zero_are_one_number():
    rows = sorted_rows([{"price": -0.0}, {"price": 0.0}, {"price": 1.0}])
    indexes = indexed(rows, {"price": "f64"}, zone_rows=1)

    assert kept(indexes, Compare("price", "=", 0.0)) == [0, 1]
    assert kept(indexes, Compare("price", "=", -0.0)) == [0, 1]
    assert kept(indexes, Compare("price", "!=", -0.0)) == [2]
    assert kept(indexes, Compare("price", "<", 0.0)) == []


def test_a_column_without_an_order_is_not_indexed():
    rows = sorted_rows([{"price": float("nan")}, {"price": 1.0}])
    indexes = indexed(rows, {"price": "f64"}, zone_rows=1)

    assert indexes.catalogue()["price"] == []
    assert kept(indexes, Compare("price", "=", 7.0)) == [0, 1]


@pytest.mark.parametrize("policy", [FILTERING, IndexPolicy()])
def test_long_texts_are_told_apart_by_their_beginning_alone(policy):
    begin = "x" * TEXT_MAX
    rows = sorted_rows([{"name": begin + end} for end in ("a", "b", "c")] + [{"name": "z"}])
    indexes = indexed(rows, {"name": "string"}, zone_rows=1, policy=policy)

    for op in ("<", "<=", ">", ">=", "!="):
        for end in ("a", "b", "c"):
            condition = Compare("name", op, begin + end)
            assert {0, 1, 2, 3} >= set(kept(indexes, condition)) >= _truth(rows, condition)
    assert kept(indexes, Compare("name", ">=", "y")) == [3]
    assert kept(indexes, Compare("name", "<", "x")) == []


def _truth(rows, condition):
    compare = {
        "<": str.__lt__, "<=": str.__le__, ">": str.__gt__, ">=": str.__ge__, "!=": str.__ne__
    }  # fmt: skip
    test = compare[condition.op]
    return {place for place, row in enumerate(rows) if test(row["name"], condition.value)}


def test_texts_that_end_with_nul_are_not_lost():
    rows = sorted_rows([{"name": name} for name in ("a", "a\0", "a\0b", "b")])
    indexes = indexed(rows, {"name": "string"}, zone_rows=1, policy=FILTERING)

    assert 0 in kept(indexes, Compare("name", "<", "a\0"))
    assert 1 in kept(indexes, Compare("name", ">", "a"))
    assert 1 in kept(indexes, Not(Compare("name", "=", "a")))
    assert 0 in kept(indexes, Not(Compare("name", "=", "a\0")))


def test_both_bounds_of_a_range_are_asked_together():
    rows = sorted_rows([{"size": value} for value in (0, 100, 40, 60)])
    indexes = indexed(rows, {"size": "i64"}, zone_rows=2)

    inside = And((Compare("size", ">", 30), Compare("size", "<", 70)))

    assert kept(indexes, inside) == [1]
    assert kept(indexes, Not(Not(inside))) == [1]
    assert used(indexes, inside) == ["size: imprint"]


def test_a_literal_of_another_type_keeps_every_zone():
    indexes = _numbers()

    for value in ("5", 5.5, 7.0, True):
        assert kept(indexes, Compare("size", "=", value)) == [0, 1, 2, 3, 4]
        assert kept(indexes, Not(Compare("size", "=", value))) == [0, 1, 2, 3, 4]
    assert kept(indexes, Compare("size", "<", None)) == [0, 1, 2, 3, 4]


def test_a_field_that_nobody_knows_keeps_every_zone_either_way():
    indexes = _numbers()

    assert kept(indexes, Compare("?", "=", 5)) == [0, 1, 2, 3, 4]
    assert kept(indexes, Not(Compare("?", "=", 5))) == [0, 1, 2, 3, 4]


def test_bounds_of_seqs_and_times_are_handed_out():
    indexes = _numbers()

    least, greatest = indexes.seq_bounds()
    begin, end = indexes.ts_bounds()

    assert (least.tolist(), greatest.tolist()) == ([1, 3, 5, 7, 9], [2, 4, 6, 8, 10])
    assert (end - begin).tolist() == [1_000_000] * 5
