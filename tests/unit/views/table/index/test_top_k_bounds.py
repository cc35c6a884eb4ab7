"""Promise: of the zones that hold the first rows none is left out, and of the others most are."""

from __future__ import annotations

import numpy as np

from strandline.schema import Schema
from strandline.views.table.condition import Compare
from strandline.views.table.index.index_reader import top_across
from strandline.views.table.snapshot import Top
from tests.unit.views.table.index.world import indexed, sorted_rows

FIELDS = {"x": "i64 | null"}


def _of(zones: list[list], kind: str = "i64 | null"):
    rows = sorted_rows([{"x": value} for zone in zones for value in zone])
    return indexed(rows, {"x": kind}, zone_rows=len(zones[0]))


def _top(indexes, rows: int, *, descending: bool = False, where=None, field: str = "x"):
    among, _ = indexes.prune(where)
    top = Top(field=field, descending=descending, rows=rows)
    return np.flatnonzero(indexes.top(top, among, where=where)).tolist()


def test_zones_without_a_chance_are_left_out():
    indexes = _of([[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8], [9, 9, 9, 9]])

    assert _top(indexes, 2) == [0]
    assert _top(indexes, 4) == [0, 1]
    assert _top(indexes, 1, descending=True) == [3]
    assert _top(indexes, 5, descending=True) == [2, 3]


def test_a_zone_whose_best_value_equals_the_last_is_kept():
    indexes = _of([[1, 2], [2, 9], [3, 9]])

    assert _top(indexes, 2) == [0, 1]


def test_rows_without_a_value_come_last_in_both_directions():
    indexes = _of([[None, None], [1, None], [2, None]])

    assert _top(indexes, 2) == [1, 2]
    assert _top(indexes, 1, descending=True) == [2]
    assert _top(indexes, 3) == [0, 1, 2]
    assert _top(indexes, 3, descending=True) == [0, 1, 2]


def test_no_rows_need_no_zones():
    assert _top(_of([[1], [2]]), 0) == []


def test_rows_that_may_not_fulfil_the_condition_do_not_count():
    rows = [{"x": value, "y": value % 2} for value in (1, 3, 5, 7, 2, 4, 6, 8)]
    indexes = indexed(sorted_rows(rows), {"x": "i64", "y": "i64"}, zone_rows=2)
    odd, some = Compare("y", "=", 1), Compare("x", ">", 5)

    assert _top(indexes, 1, where=odd) == [0]
    assert _top(indexes, 1, where=some) == [1, 3]
    assert _top(indexes, 1, where=Compare("x", ">", 3)) == [1, 2]


def test_texts_are_ranked_by_their_bounds():
    indexes = _of([["a", "c"], ["b", "d"], ["e", "f"]], "string")

    assert _top(indexes, 1) == [0]
    assert _top(indexes, 2, descending=True) == [2]
    assert _top(indexes, 1, field="context") == [0, 1, 2]


def test_several_files_are_ranked_together():
    files = [_of([[1, 2], [3, 4]]), _of([[10, 11], [2, 30]]), _of([[50, 60], [70, None]])]
    among = [np.ones(2, bool) for _ in files]
    top = Top(field="x", descending=False, rows=2)

    left = top_across(list(zip(files, among, strict=True)), top, where=None)

    assert [mask.tolist() for mask in left] == [[True, False], [False, True], [False, False]]


def test_a_file_without_the_field_has_none_of_the_first_rows():
    older = indexed(sorted_rows([{}, {}]), {}, zone_rows=1)
    files = [(older, np.ones(2, bool)), (_of([[1], [2]]), np.ones(2, bool))]
    schema = Schema(2, FIELDS)

    one, both, all_rows = (
        top_across(files, Top(field="x", descending=True, rows=rows), where=None, schema=schema)
        for rows in (1, 2, 3)
    )

    assert [mask.tolist() for mask in one] == [[False, False], [False, True]]
    assert [mask.tolist() for mask in both] == [[False, False], [True, True]]
    assert [mask.tolist() for mask in all_rows] == [[True, True], [True, True]]


def test_files_that_order_a_field_differently_are_left_as_they_are():
    files = [(_of([[1], [2]]), np.ones(2, bool)), (_of([[1.0], [2.0]], "f64"), np.ones(2, bool))]

    left = top_across(files, Top(field="x", descending=False, rows=1), where=None)

    assert all(mask.all() for mask in left)


def test_zones_that_were_ruled_out_stay_so_and_do_not_count():
    indexes = _of([[1, 1], [2, 2], [3, 3]])
    among = np.array([False, True, True])

    left = indexes.top(Top(field="x", descending=False, rows=1), among, where=None)

    assert left.tolist() == [False, True, False]
