"""Promise: what a record says of itself is read as it was written; other metas are not ours."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.views.series import meta
from strandline.views.series.meta import AT_MAX, AT_MIN, FLOOR, LATE, PLAIN, VERSION_MAX, FloorRaise
from strandline.views.view import FoldColumns

MANY = 40
ANY = st.integers(0, VERSION_MAX)


def rows(metas: list[bytes | None], keys: list[bytes | None] | None = None) -> FoldColumns:
    count = len(metas)
    stamps = [1000 + n for n in range(count)]
    return FoldColumns(
        range(1, count + 1), stamps, keys or [b"k"] * count, [None] * count, metas, [b""] * count
    )


@given(st.integers(0, 3), st.integers(0, VERSION_MAX), st.integers(AT_MIN, AT_MAX))
def test_a_meta_is_read_as_it_was_written(route, version, at):
    assert meta.decode(meta.encode(route, version, at)) == (route, version, at)


def test_the_bytes_are_those_of_the_table():
    found = meta.encode(LATE, 0x0102, -2)

    assert found == bytes.fromhex("00737201020201feffffffffffffff")


@given(st.none() | st.binary(max_size=40))
def test_a_strangers_meta_is_none_of_ours(found):
    assert meta.decode(found) is None or found[:4] == b"\x00sr\x01"


@pytest.mark.parametrize("route", [4, 255])
def test_a_route_that_nobody_knows_makes_a_record_plain(route):
    found = bytearray(meta.encode(0, 0, 5))
    found[4] = route

    assert meta.decode(bytes(found)) is None


@pytest.mark.parametrize("count", [1, MANY])
def test_few_and_many_records_are_read_alike(count):
    metas = [meta.encode(n % 3, n, n - 20) for n in range(count)]

    found = meta.points_of(rows(metas))

    assert list(found.seqs) == list(range(1, count + 1))
    assert found.ats == [n - 20 for n in range(count)]
    assert found.kinds == [n << 2 | n % 3 for n in range(count)]
    assert (list(found.names), found.floors) == ([b"k"] * count, [])


@given(
    st.none() | st.binary(max_size=16) | st.builds(meta.encode, st.integers(0, 4), ANY, ANY),
    st.sampled_from((None, b"k")),
)
@example(meta.encode(FLOOR, 0, 5), b"k")
@example(meta.encode(LATE, 1, 5), b"k")
def test_a_single_record_is_the_point_that_it_is_among_others_or_not_read_as_one(given_meta, key):
    alone = rows([given_meta], [key])

    point, found = meta.single_point(alone), meta.points_of(alone)

    if point is not None:
        assert [[each] for each in point] == [list(column) for column in found[:5]]
    else:
        assert not found.ats or found.kinds == [PLAIN]


@pytest.mark.parametrize("count", [3, MANY])
def test_plain_records_and_floors_among_points_are_told_apart(count):
    metas: list[bytes | None] = [meta.encode(0, 1, n) for n in range(count)]
    keys: list[bytes | None] = [b"k"] * count
    metas[0], keys[0] = meta.encode(FLOOR, 0, 77), None
    metas[1] = b"somebody's own"
    metas[2], keys[2] = None, None

    found = meta.points_of(rows(metas, keys))

    assert found.floors == [FloorRaise(1, 77)]
    assert list(found.seqs) == [2, *range(4, count + 1)]
    assert (found.ats[0], found.kinds[0]) == (1001, PLAIN)
    assert found.ats[1:] == list(range(3, count))


def test_a_strangers_meta_of_our_length_is_plain_among_many():
    metas: list[bytes | None] = [meta.encode(0, 1, n) for n in range(MANY)]
    metas[5] = b"fifteen letters"
    assert len(metas[5]) == len(metas[6] or b"")

    found = meta.points_of(rows(metas))

    assert (found.ats[5], found.kinds[5]) == (1005, PLAIN)
