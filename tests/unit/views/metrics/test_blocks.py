"""Promise: blocks of points come back as they were; their index says what they come to; what
overlaps is noticed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt
from strandline.views.metrics.storage.block import FieldPoints, decode, encode, joined, no_points
from strandline.views.metrics.storage.block_index import ENTRY, EXACT, entry_of
from strandline.views.metrics.storage.overlap import (
    isolated_blocks,
    overlapping_times,
    overlaps_any,
    sort_points,
)
from strandline.views.metrics.storage.runs import _block_ranges
from strandline.views.metrics.value_types import ValueKind, to_bits

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 9)), max_size=60)
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=8).map(
    lambda found: [(low, low + size) for low, size in found]
)


def points(rows: list[tuple[int, int, int]]) -> FieldPoints:
    columns = np.array(rows, dtype="<i8").reshape(-1, 3)
    return FieldPoints(*(np.ascontiguousarray(columns[:, n]) for n in range(3)))


def rows(found: FieldPoints) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in found), strict=True))


@given(ROWS.filter(bool), st.sampled_from((ValueKind.INT, ValueKind.FLOAT)), st.booleans())
def test_a_block_comes_back(given_rows, kind, small):
    block = sort_points(points(given_rows))

    found = decode(encode(block, kind, small=small), int(block.series[0]))

    assert rows(found) == rows(block)


@pytest.mark.parametrize("damage", [b"", b"\x01\x02", b"\x07" * 40, b"\x01\x09" + bytes(30)])
def test_what_is_no_block_is_noticed(damage):
    with pytest.raises(Corrupt):
        decode(damage, 0)


def test_a_block_that_is_cut_off_is_noticed():
    page = encode(points([(n // 9, n, n * n) for n in range(200)]), ValueKind.INT)

    for size in range(0, len(page), 7):
        with pytest.raises(Corrupt):
            decode(page[:size], 0)


@given(ROWS)
def test_of_equal_points_the_last_one_counts(given_rows):
    expected = {(series, at): bits for series, at, bits in given_rows}

    assert rows(sort_points(points(given_rows))) == [
        (*key, expected[key]) for key in sorted(expected)
    ]


def test_an_entry_says_what_a_block_of_one_series_comes_to():
    values = np.array([2.5, -1.0, 4.0])
    block = FieldPoints(np.full(3, 7), np.array([10, 20, 30]), to_bits(values, ValueKind.FLOAT))

    (entry,) = entry_of(block, ValueKind.FLOAT, 99)

    floats = [
        np.array(int(entry[name])).view("<f8").item()
        for name in ("low", "high", "first", "last", "total")
    ]
    assert floats == [-1.0, 4.0, 2.5, 4.0, 5.5]
    assert (entry["min_at"], entry["max_at"], entry["count"], entry["page"]) == (10, 30, 3, 99)
    assert entry["flags"] == EXACT


def test_a_sum_that_may_not_fit_is_not_used():
    block = FieldPoints(np.full(2, 7), np.array([1, 2]), np.array([2**62, 2**62]))

    (entry,) = entry_of(block, ValueKind.INT, 1)

    assert entry["flags"] == 0
    assert entry["high"] == 2**62


def test_an_entry_of_several_series_only_says_where_they_are():
    (entry,) = entry_of(points([(1, 50, 0), (4, 10, 0)]), ValueKind.INT, 1)

    assert (entry["series"], entry["last_series"]) == (1, 4)
    assert (entry["min_at"], entry["max_at"], entry["flags"]) == (10, 50, 0)


@given(st.lists(st.integers(1, 90), max_size=20))
def test_cuts_cover_everything_and_large_series_are_alone(sizes):
    series = np.repeat(np.arange(len(sizes)), sizes)

    cuts = list(_block_ranges(series, 16))

    assert [low for low, _ in cuts] == [0, *(high for _, high in cuts)][: len(cuts)]
    assert sum(high - low for low, high in cuts) == len(series)
    for low, high in cuts:
        inside = np.unique(series[low:high])
        assert high - low <= 16
        if any(sizes[n] >= 8 for n in inside):
            assert len(inside) == 1
            assert high - low >= 8


@given(SPANS)
def test_contested_is_what_more_than_one_span_has(spans):
    found = overlapping_times(spans)

    counted = {t for t in range(60) if sum(low <= t <= high for low, high in spans) > 1}
    assert {t for low, high in found for t in range(low, high + 1)} == counted
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


@given(SPANS, SPANS)
def test_a_span_touches_times_that_it_shares(spans, times):
    low, high = (np.array([span[n] for span in spans], dtype="<i8") for n in (0, 1))

    found = overlaps_any(low, high, times)

    assert found.tolist() == [
        any(a <= last and b >= first for first, last in times) for a, b in spans
    ]


@given(
    st.lists(st.tuples(st.integers(0, 2), SPANS.filter(bool).map(lambda s: s[0])), max_size=9), ROWS
)
def test_a_block_is_undisturbed_when_nothing_of_its_series_overlaps_it(spans, given_rows):
    blocks = np.zeros(len(spans), dtype=ENTRY)
    for row, (series, (low, high)) in zip(blocks, spans, strict=True):
        row["series"] = row["last_series"] = series
        row["min_at"], row["max_at"] = low, high
    others = sort_points(points(given_rows))

    found = isolated_blocks(blocks, others)

    def is_free(place: int) -> bool:
        series, (low, high) = spans[place]
        return not any(
            other != place
            and spans[other][0] == series
            and spans[other][1][0] <= high
            and spans[other][1][1] >= low
            for other in range(len(spans))
        ) and not any(s == series and low <= at <= high for s, at, _ in rows(others))

    assert found.tolist() == [is_free(place) for place in range(len(spans))]


def test_no_parts_are_no_points():
    assert rows(joined([])) == rows(no_points()) == []
