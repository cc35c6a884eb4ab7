"""Promise: each kind of index rules out what the others cannot, and never a zone too many."""

from __future__ import annotations

import pytest

from strandline.views.table.condition import And, Compare, In, Not
from strandline.views.table.index import binary_fuse
from strandline.views.table.index.index_choice import IndexPolicy
from tests.unit.views.table.index.world import (
    EAGER,
    FILTERING,
    HOUR_US,
    START_US,
    indexed,
    kept,
    sorted_rows,
    true_zones,
    used,
)

PLANS = '["corp","free","pro"]'


def _of(field: str, kind: str, zones: list[list], **options):
    rows = sorted_rows([{field: value} for zone in zones for value in zone])
    return indexed(rows, {field: kind}, zone_rows=len(zones[0]), **options)


@pytest.mark.parametrize("coded", [True, False])
def test_a_bitmap_knows_the_zones_of_each_variant(coded):
    zones = [["corp", "pro"], ["corp", None], ["free", "free"], [None, None]]
    indexes = _of("plan", f"{PLANS} | null", zones, coded=coded)

    assert kept(indexes, Compare("plan", "=", "free")) == [2]
    assert kept(indexes, Compare("plan", "!=", "free")) == [0, 1, 3]
    assert kept(indexes, Not(Compare("plan", "=", "corp"))) == [0, 1, 2, 3]
    assert kept(indexes, Not(In("plan", ("corp", "pro")))) == [1, 2, 3]
    assert kept(indexes, Compare("plan", ">", "free")) == [0]
    assert kept(indexes, Compare("plan", "<=", "corp")) == [0, 1]
    assert kept(indexes, Compare("plan", "=", "nobody's")) == []


def test_a_bitmap_sees_what_lies_between_the_bounds():
    zones = [["corp", "pro"], ["free", "pro"], ["corp", "free"]]
    indexes = _of("plan", PLANS, zones)

    assert kept(indexes, Compare("plan", "=", "free")) == [1, 2]
    assert used(indexes, Compare("plan", "=", "free")) == ["plan: bitmap"]


def test_a_filter_knows_the_zones_of_a_value_between_bounds():
    zones = [[0, 7, 100], [0, 8, 100], [0, 9, 100]]
    wide = [[value + step * 1000 for step in range(50) for value in zone] for zone in zones]
    indexes = _of("size", "u64", wide)

    # A zone is kept for nothing once in 256.
    found = [len(kept(indexes, Compare("size", "=", 8 + step * 1000))) for step in range(50)]

    assert all(1 in kept(indexes, Compare("size", "=", 8 + step * 1000)) for step in range(50))
    assert sum(found) <= 53
    assert "size: membership" in used(indexes, Compare("size", "=", 8008))


def test_the_filter_of_the_file_rules_all_zones_out():
    zones = [[f"name {zone} {place}" for place in range(200)] for zone in range(3)]
    indexes = _of("name", "string", zones, policy=FILTERING)

    absent = [Compare("name", "=", f"name 1 {place}x") for place in range(100)]

    assert sum(len(kept(indexes, each)) for each in absent) <= 3
    assert all("name: file-membership" in used(indexes, each) for each in absent[:3])


def test_large_filters_are_cut_into_shards(monkeypatch):
    monkeypatch.setattr(binary_fuse, "SHARD_KEYS", 250)
    zones = [[place * 7 + zone for place in range(100)] for zone in range(7)]
    indexes = _of("size", "u64", zones)

    for zone, values in enumerate(zones):
        found = [kept(indexes, Compare("size", "=", value)) for value in values]

        assert all(zone in each for each in found)
        assert sum(map(len, found)) < 110


def test_a_long_list_of_values_is_answered_without_a_filter():
    zones = [[place * 3 + zone for place in range(400)] for zone in range(3)]
    indexes = _of("size", "u64", zones)

    assert kept(indexes, In("size", tuple(range(100_000)))) == [0, 1, 2]


def test_an_imprint_sees_gaps_between_the_bounds():
    zones = [[0, 1, 2, 997, 998, 999], [0, 400, 500, 600, 700, 999], [0, 1, 300, 301, 302, 999]]
    indexes = _of("change", "i64", zones, policy=IndexPolicy())

    assert kept(indexes, And((Compare("change", ">=", 350), Compare("change", "<", 950)))) == [1]
    assert kept(indexes, And((Compare("change", ">", 2), Compare("change", "<", 400)))) == [2]


@pytest.mark.parametrize("kind", ["i64", "f64", "date", "datetime", "u64"])
def test_an_imprint_is_right_at_the_edges_of_its_bins(kind):
    """With many values the bins hold several each, and every value may be an edge."""
    make = float if kind == "f64" else int
    zones = [[make(zone * 7 + step * 2) for step in range(6)] for zone in range(30)]
    rows = sorted_rows([{"x": value} for zone in zones for value in zone])
    indexes = indexed(rows, {"x": kind}, zone_rows=6, policy=IndexPolicy(calendar_share=0))

    for value in range(-1, 220, 5):
        for near in (value, value + 1, value + 2):
            for op in ("<", "<=", ">", ">=", "="):
                one = Compare("x", op, make(near))
                both = And((one, Compare("x", "<", make(150))))

                assert true_zones(rows, one, 6) <= set(kept(indexes, one))
                assert true_zones(rows, both, 6) <= set(kept(indexes, both))


def test_a_value_that_fills_bins_has_one_of_its_own():
    common = [[0] * 90 + [zone * 10 + place + 1 for place in range(10)] for zone in range(100)]
    indexes = _of("size", "i64", common, policy=IndexPolicy())

    assert len(kept(indexes, And((Compare("size", ">", 0), Compare("size", "<", 9))))) < 50


def test_a_calendar_knows_the_hours_of_a_zone():
    zones = [[START_US, START_US + 50 * HOUR_US], [START_US + hour * HOUR_US for hour in (20, 21)]]
    zones += [[START_US - 1, START_US + 60 * HOUR_US]]
    indexes = _of("at", "datetime", zones * 40)

    for hour, own in ((0, 0), (20, 1), (-1, 2)):
        begin = START_US + hour * HOUR_US
        within = And((Compare("at", ">=", begin), Compare("at", "<", begin + HOUR_US)))

        assert {zone % 3 for zone in kept(indexes, within)} == {own}


def test_a_moment_on_the_hour_is_in_the_hour_that_it_begins():
    zones = [[START_US + hour * HOUR_US + more] for hour in range(5) for more in (-1, 0, 1)]
    rows = sorted_rows([{"at": value} for (value,) in zones])
    indexes = indexed(rows, {"at": "datetime"}, zone_rows=1, policy=EAGER)
    calendar = dict(indexes.indexes_for("at", None))["calendar"]

    for hour in range(6):
        for more in (-1, 0, 1):
            for op in ("<", "<=", ">", ">=", "="):
                condition = Compare("at", op, START_US + hour * HOUR_US + more)
                assert true_zones(rows, condition, 1) <= set(kept(indexes, condition))
    assert calendar is not None


def test_days_are_kept_when_hours_are_too_many():
    zones = [
        [START_US + (zone * 48 + place * 2) * HOUR_US for place in range(8)] for zone in range(9)
    ]
    rows = sorted_rows([{"at": value} for zone in zones for value in zone])
    by_hour = indexed(rows, {"at": "datetime"}, zone_rows=8, policy=IndexPolicy(calendar_share=1.0))
    by_day = indexed(rows, {"at": "datetime"}, zone_rows=8, policy=IndexPolicy(calendar_share=0.2))
    neither = indexed(rows, {"at": "datetime"}, zone_rows=8, policy=IndexPolicy(calendar_share=0.0))

    widths = [dict(each.indexes_for("at", None))["calendar"]._width for each in (by_hour, by_day)]

    assert widths == [HOUR_US, 24 * HOUR_US]
    assert "calendar" in neither.catalogue()["at"]  # one pair a zone is always allowed


def test_contexts_are_found_by_their_range():
    names = ["ann", "ann", "bob", "cat", "cat", "cat", "cat", "dan"]
    rows = sorted_rows([{"context": name} for name in names])
    indexes = indexed(rows, {}, zone_rows=2)

    assert kept(indexes, Compare("context", "=", "ann")) == [0]
    assert kept(indexes, Compare("context", "=", "cat")) == [1, 2, 3]
    assert kept(indexes, Compare("context", "=", "abe")) == []
    assert kept(indexes, Compare("context", "<", "bob")) == [0]
    assert kept(indexes, Compare("context", "<=", "bob")) == [0, 1]
    assert kept(indexes, Compare("context", ">", "cat")) == [3]
    assert kept(indexes, Compare("context", ">=", "cat")) == [1, 2, 3]
    assert kept(indexes, Not(Compare("context", "=", "cat"))) == [0, 1, 3]
    assert used(indexes, Compare("context", "=", "ann")) == ["context: context"]


def test_long_contexts_are_told_apart():
    begin = "x" * 100
    rows = sorted_rows([{"context": begin + name} for name in "abcd"])
    indexes = indexed(rows, {}, zone_rows=1)

    assert kept(indexes, Compare("context", "=", begin + "c")) == [2]


def test_rows_that_are_not_sorted_by_context_have_no_ranges_of_contexts():
    rows = sorted_rows([{"context": name} for name in "abcd"])
    indexes = indexed([rows[place] for place in (2, 0, 3, 1)], {}, zone_rows=2)

    assert indexes.catalogue()["context"] == ["fence", "file-membership"]
    assert kept(indexes, Compare("context", "=", "b")) == [0, 1]
    assert kept(indexes, Compare("context", "=", "d")) == [1]
