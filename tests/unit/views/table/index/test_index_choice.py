"""Promise: which indexes a field gets depends on its type and on what is in it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from strandline.schema import Schema
from strandline.views.table.condition import Compare
from strandline.views.table.index.index_builder import build
from strandline.views.table.index.index_choice import IndexPolicy
from tests.unit.views.table.index.world import indexed, kept, opened, sorted_rows, table_of

ROWS = 4000


def _kinds(kind: str, values: list, **options) -> list[str]:
    rows = sorted_rows([{"x": value} for value in values])
    indexes = indexed(rows, {"x": kind}, zone_rows=100, policy=IndexPolicy(), **options)
    return indexes.catalogue()["x"]


@pytest.mark.parametrize(
    ("kind", "values", "kinds"),
    [
        ("string", ["abc"[place % 3] for place in range(ROWS)], ["fence", "bitmap"]),
        ('["a","b"]', ["ab"[place % 2] for place in range(ROWS)], ["fence", "bitmap"]),
        ("bool", [True] * ROWS, ["fence"]),
        ("f64", [place / 7 for place in range(ROWS)], ["fence", "imprint", "ladder"]),
        ("date", [place % 700 for place in range(ROWS)], ["fence", "imprint", "ladder"]),
        ("i64", [place % 9 for place in range(ROWS)], ["fence", "imprint", "ladder"]),
    ],
)
def test_a_field_gets_what_fits_its_type(kind, values, kinds):
    assert _kinds(kind, values) == kinds


def test_names_of_things_get_filters():
    filters = ["file-membership", "membership"]

    assert _kinds("string", [f"{place:09}" for place in range(ROWS)]) == ["fence", *filters]
    assert _kinds("u64", [place * 977 % 3989 for place in range(ROWS)])[-2:] == filters


def test_values_that_are_in_most_zones_get_no_filter():
    everywhere = [place % 90 for place in range(ROWS)]

    assert _kinds("u64", everywhere) == ["fence", "imprint", "ladder"]


def test_a_file_of_one_zone_has_a_filter_for_the_file_alone():
    rows = sorted_rows([{"x": f"{place:09}"} for place in range(ROWS)])
    indexes = indexed(rows, {"x": "string"}, zone_rows=ROWS, policy=IndexPolicy())

    assert indexes.catalogue()["x"] == ["fence", "file-membership"]


@pytest.mark.parametrize("count", [5, 3000])
def test_texts_are_indexed_alike_coded_or_not(count):
    rows = sorted_rows(
        [{"x": None if place % 5 == 4 else f"{place % count:04}"} for place in range(ROWS)]
    )
    schema = Schema(1, {"x": "string | null"})

    plain = build(table_of(rows, schema), schema, 100)
    coded = build(table_of(rows, schema, coded=True), schema, 100)

    assert plain == coded


def test_a_dictionary_may_hold_texts_twice_and_texts_that_no_row_has():
    rows = sorted_rows([{"x": None} for _ in range(4)])
    schema = Schema(1, {"x": "string | null"})
    indices = pa.array([0, 1, None, 3], pa.int32())
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["b", "a", "unused", "b"]))
    table = table_of(rows, schema).set_column(3, "x", texts)

    indexes = opened(build(table, schema, 1))

    assert kept(indexes, Compare("x", "=", "b")) == [0, 3]
    assert kept(indexes, Compare("x", "=", "unused")) == []
    assert kept(indexes, Compare("x", "=", None)) == [2]


def test_columns_in_pieces_are_one_column():
    rows = sorted_rows([{"x": f"{place % 50:03}", "y": place} for place in range(300)])
    schema = Schema(1, {"x": "string", "y": "i64"})
    whole = table_of(rows, schema)
    pieces = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 200), whole.slice(207)])

    assert build(pieces, schema, 40) == build(whole, schema, 40)


def test_the_side_file_is_small_beside_the_rows():
    rows = sorted_rows([{"x": f"{place * 7919 % 10007:016x}", "y": place} for place in range(ROWS)])
    schema = Schema(1, {"x": "string", "y": "f64"})

    assert len(build(table_of(rows, schema), schema, 1000)) < 5 * ROWS
