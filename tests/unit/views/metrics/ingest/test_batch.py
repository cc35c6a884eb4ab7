"""Promise: points come out of a record as they went in, in as many records as they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt
from strandline.views.metrics.ingest import batch
from strandline.views.metrics.ingest.batch import (
    PointRow,
    PointTable,
    decode,
    encode,
    encode_row,
    split_table,
    with_rows,
)
from strandline.views.metrics.value_types import ValueKind

FIELDS = (("jobs", ValueKind.INT), ("load", ValueKind.FLOAT))


def table(rows: int, series: int, *, ordered: bool = False) -> PointTable:
    numbers = np.arange(rows, dtype="<i8")
    return PointTable(
        "cpu",
        FIELDS,
        [b"host\x00%d" % n for n in range(series)],
        None if series in (1, rows) else numbers % series,
        numbers * 1000,
        [numbers, numbers * 7],
        numbers[::-1].copy() if ordered else None,
    )


def contents(found: PointTable) -> list[tuple]:
    places = range(len(found.at)) if found.rows is None else found.rows.tolist()
    one = len(found.series) == 1
    order = [None] * len(found.at) if found.order is None else found.order.tolist()
    columns = [column.tolist() for column in found.columns]
    return [
        (found.measurement, found.fields, found.series[0 if one else place], at, *values, place_in)
        for place, at, place_in, *values in zip(
            places, found.at.tolist(), order, *columns, strict=True
        )
    ]


@given(st.integers(1, 300), st.integers(1, 20), st.booleans())
def test_tables_come_back(rows, series, ordered):
    given_table = table(rows, min(rows, series), ordered=ordered)

    found = decode(encode([given_table, given_table]))

    assert isinstance(found, list)
    assert [contents(each) for each in found] == [contents(given_table)] * 2


def test_one_row_comes_back_as_a_row():
    row = PointRow("cpu", FIELDS, b"host\x00a", -5, (7, -(2**63)))

    assert decode(encode_row(row)) == row


def test_a_row_reads_as_a_table_too():
    row = PointRow("cpu", FIELDS, b"", 12, (7, 9))

    (found,) = contents(batch.table_of(row))

    assert found == ("cpu", FIELDS, b"", 12, 7, 9, None)


def test_many_series_are_small_in_a_record():
    series = [f"host\x00web-{n}.example.com\x00zone\x00eu".encode() for n in range(5000)]
    at = np.full(5000, 10**18)
    found = encode([PointTable("cpu", (FIELDS[0],), series, None, at, [np.arange(5000)])])

    assert len(found) < 5000 * 6


@given(st.integers(1, 400), st.integers(1, 60), st.booleans())
def test_a_cut_table_has_the_same_rows_in_the_same_order(rows, series, ordered):
    whole = table(rows, min(rows, series), ordered=ordered)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "TABLE_BYTES_MAX", 500)
        parts = list(split_table(whole))

    assert [row for part in parts for row in contents(part)] == contents(whole)
    assert all(len(encode([part])) < 2500 for part in parts)


def test_a_table_without_need_is_not_cut():
    whole = table(100, 10)

    assert list(split_table(whole)) == [whole]


def test_rows_are_chosen_with_the_series_that_they_have():
    some = with_rows(table(10, 5), np.array([1, 6]))

    assert some.series == [b"host\x001"]
    assert [row[3] for row in contents(some)] == [1000, 6000]


@pytest.mark.parametrize("damage", [b"", b"x", b"\x91\x90", b"\xff" * 40])
def test_what_is_no_batch_is_noticed(damage):
    with pytest.raises(Corrupt):
        decode(damage)


def test_any_missing_byte_is_noticed():
    data = encode([table(100, 7)])

    for size in range(len(data)):
        with pytest.raises(Corrupt):
            decode(data[:size])


def test_rows_of_series_that_are_not_there_are_noticed():
    bad = table(10, 5)._replace(rows=np.full(10, 5))

    with pytest.raises(Corrupt, match="do not fit"):
        decode(encode([bad]))
