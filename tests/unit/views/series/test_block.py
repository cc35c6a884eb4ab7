"""Promise: points come out of a block as they went in, and bytes that are no block are noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt
from strandline.views.series.block import PointBounds, SeriesPoints, cut, pack, unpack
from strandline.views.series.meta import AT_MAX, AT_MIN

ALL = PointBounds(AT_MIN, 0, AT_MAX)
AT = st.one_of(st.integers(-300, 300), st.integers(AT_MIN, AT_MAX))
SEQ = st.one_of(st.integers(1, 500), st.integers(1, (1 << 63) - 1))
KIND = st.sampled_from((0, 0, 0, 1, 4, (1 << 18) - 1))
ROWS = st.lists(st.tuples(AT, SEQ, KIND), min_size=1, max_size=150, unique_by=lambda row: row[1])
BOUNDS = st.builds(PointBounds, AT, st.just(0) | SEQ, AT)


def columns(rows: list[tuple[int, int, int]]) -> SeriesPoints:
    ats, seqs, kinds = (list(column) for column in zip(*sorted(rows), strict=True))
    return SeriesPoints(ats, seqs, kinds, [None] * len(rows))


@given(ROWS)
def test_points_come_out_as_they_went_in(rows):
    points = columns(rows)

    assert unpack(pack(*points), ALL) == points


@given(ROWS, BOUNDS)
def test_only_points_within_bounds_come_out(rows, bounds):
    first_at, first_seq, last_at = bounds
    wanted = [row for row in sorted(rows) if (first_at, first_seq) <= row[:2] and row[0] <= last_at]

    found = unpack(pack(*columns(rows)), bounds)

    assert list(zip(*found[:3], strict=True)) == wanted
    assert cut(columns(rows), bounds) == found


@pytest.mark.parametrize("count", [1, 2, 64, 65, 4096])
def test_points_at_an_even_pace_take_few_bytes(count):
    ats = [1_700_000_000_000_000 + n * 1000 for n in range(count)]
    seqs = [n * 1000 for n in range(count)]

    packed = pack(ats, seqs, [0] * count)

    assert len(packed) == 24 + 4 * (count - 1)
    assert unpack(packed, ALL) == SeriesPoints(ats, seqs, [0] * count, [None] * count)


def test_one_version_for_all_points_is_stored_once():
    ats, seqs = list(range(100)), list(range(100))

    same, each = pack(ats, seqs, [4] * 100), pack(ats, seqs, [4] * 99 + [5])

    assert len(same) == len(pack(ats, seqs, [0] * 100)) + 4
    assert unpack(same, ALL).kinds == [4] * 100
    assert unpack(each, ALL).kinds == [4] * 99 + [5]


@pytest.mark.parametrize("size", [0, 10, 23, 30, 100])
def test_bytes_that_are_cut_off_are_noticed(size):
    packed = pack(range(100), range(100), [0] * 100)

    with pytest.raises(Corrupt, match="a block of a series"):
        unpack(packed[:size], ALL)


@pytest.mark.parametrize("place", [4, 5, 6, 7])
def test_widths_that_cannot_be_are_noticed(place):
    packed = bytearray(pack(range(10), range(10), [0] * 10))
    packed[place] = 3

    with pytest.raises(Corrupt):
        unpack(bytes(packed), ALL)
