"""Promise: conditions are taken apart without losing a row, however they are nested."""

from __future__ import annotations

from strandline.views.table.condition import And, Compare, Not, Or
from tests.unit.views.table.index.world import indexed, kept, sorted_rows, used

FIELDS = {"x": "i64 | null", "y": "i64 | null"}
ZONES = [(1, 1), (1, 2), (2, 1), (None, 3), (7, None)]


def _indexes():
    return indexed(sorted_rows([{"x": x, "y": y} for x, y in ZONES]), FIELDS, zone_rows=1)


ONE_ONE = And((Compare("x", "=", 1), Compare("y", "=", 1)))
EITHER_ONE = Or((Compare("x", "=", 1), Compare("y", "=", 1)))


def test_and_keeps_what_all_parts_keep_and_or_what_one_does():
    assert kept(_indexes(), ONE_ONE) == [0]
    assert kept(_indexes(), EITHER_ONE) == [0, 1, 2]


def test_not_of_and_is_or_and_not_of_or_is_and():
    assert kept(_indexes(), Not(ONE_ONE)) == [1, 2, 3, 4]
    assert kept(_indexes(), Not(EITHER_ONE)) == [3, 4]


def test_not_of_and_is_or_inside_of_and_as_well():
    assert kept(_indexes(), And((Compare("x", "<", 5), Not(ONE_ONE)))) == [1, 2]
    assert kept(_indexes(), Not(Or((Compare("x", ">", 5), ONE_ONE)))) == [1, 2, 3]


def test_a_missing_value_is_on_no_side_of_two_bounds():
    outside = Or((Compare("x", "<", 2), Compare("x", ">", 5)))

    assert kept(_indexes(), outside) == [0, 1, 4]
    assert kept(_indexes(), Not(outside)) == [2, 3]


def test_a_missing_value_counts_for_two_bounds_only_when_it_does_for_both():
    mixed = And((Compare("x", ">", 0), Not(Compare("x", ">", 5))))

    assert kept(_indexes(), mixed) == [0, 1, 2]


def test_of_several_bounds_the_tightest_count():
    several = And(tuple(Compare("x", ">=", bound) for bound in (1, 7, 2)))

    assert kept(_indexes(), several) == [4]
    assert kept(_indexes(), And((several, Compare("x", ">", 7)))) == []


def test_conditions_of_nothing_are_true_for_and_and_false_for_or():
    assert kept(_indexes(), And(())) == [0, 1, 2, 3, 4]
    assert kept(_indexes(), Or(())) == []
    assert kept(_indexes(), Not(And(()))) == []
    assert kept(_indexes(), Not(Or(()))) == [0, 1, 2, 3, 4]


def test_no_condition_keeps_every_zone():
    found, told = _indexes().prune(None)

    assert (found.all(), told) == (True, [])


def test_only_indexes_that_ruled_zones_out_are_told():
    assert used(_indexes(), Compare("y", "<=", 3)) == ["y: fence"]  # a missing value is not below
    assert used(_indexes(), And((Compare("seq", ">=", 1), Compare("x", "=", 9)))) == ["x: fence"]
    assert used(_indexes(), Compare("seq", ">=", 1)) == []
