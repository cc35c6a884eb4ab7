"""Promise: a file of an older schema is asked in the words of the newest one."""

from __future__ import annotations

import pytest

from strandline.schema import Schema
from strandline.views.table.condition import Compare, In, Not
from strandline.views.table.index.predicate import DAY_US
from tests.unit.views.table.index.world import indexed, is_true, kept, sorted_rows

OPS = ("=", "!=", "<", "<=", ">", ">=")


def _check(stored: str, values: list, asked: str, widen, literals: list) -> list[int]:
    """Every question about every zone of one row; returns how many zones each kept."""
    rows = sorted_rows([{"x": value} for value in values])
    indexes = indexed(rows, {"x": stored}, zone_rows=1)
    newest = Schema(2, {"x": asked})
    counts = []
    for literal in literals:
        for op in OPS:
            for condition in (Compare("x", op, literal), Not(Compare("x", op, literal))):
                wide = [{"x": None if value is None else widen(value)} for value in values]
                truth = [place for place, row in enumerate(wide) if is_true(condition, row)]
                found = kept(indexes, condition, newest)
                assert set(truth) <= set(found), condition
                counts.append(len(found) - len(truth))
    return counts


def test_days_are_asked_as_moments():
    moments = [day * DAY_US + more for day in (-1, 0, 3) for more in (-1, 0, 1)]

    spare = _check(
        "date | null", [-2, -1, 0, 3, None], "datetime", lambda day: day * DAY_US, moments
    )

    assert set(spare) == {0}


def test_whole_numbers_are_asked_as_floats():
    literals = [-1.5, -1.0, -0.0, 0.5, 3.0, 3.5]

    signed = _check("i64 | null", [-2, -1, 0, 3, 4, None], "f64", float, literals)
    unsigned = _check("u64", [0, 1, 3, 4], "f64", float, literals)

    assert set(signed) == set(unsigned) == {0}


@pytest.mark.parametrize("stored", ["i64", "u64"])
def test_whole_numbers_that_no_float_holds_are_never_lost(stored):
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**62 + 1]

    _check(stored, values, "f64", float, [float(value) for value in values] + [1e300, -1e300])


def test_variants_are_asked_as_texts():
    rows = sorted_rows([{"x": "a"}, {"x": "b"}])
    indexes = indexed(rows, {"x": '["a","b"]'}, zone_rows=1)

    assert kept(indexes, Compare("x", "=", "b"), Schema(2, {"x": "string"})) == [1]
    assert kept(indexes, Compare("x", "=", "c"), Schema(2, {"x": "string"})) == []


def test_a_field_that_the_file_does_not_have_is_null_in_all_its_rows():
    indexes = indexed(sorted_rows([{}, {}]), {}, zone_rows=1)
    newest = Schema(2, {"x": "i64 | null"})

    assert kept(indexes, Compare("x", "=", 1), newest) == []
    assert kept(indexes, Compare("x", "!=", 1), newest) == [0, 1]
    assert kept(indexes, Compare("x", "=", None), newest) == [0, 1]
    assert kept(indexes, Not(Compare("x", ">", 1)), newest) == [0, 1]
    assert kept(indexes, In("x", (1, 2)), newest) == []
    assert kept(indexes, Compare("x", "=", 1)) == [0, 1]
