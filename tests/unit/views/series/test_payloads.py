"""Promise: payloads come out of a block as they went in, those of the log as such, and bytes that
are no payloads are noticed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt
from strandline.views.series.block import PointBounds, SeriesPoints, cut, pack, squeeze, unpack
from strandline.views.series.meta import AT_MAX, AT_MIN

ALL = PointBounds(AT_MIN, 0, AT_MAX)
ONE = st.one_of(
    st.none(),
    st.binary(max_size=4),
    st.sampled_from((b"", b"same", b"x" * 253, b"x" * 254, b"x" * 255, b"y" * 4096)),
)
MANY = st.lists(ONE, min_size=1, max_size=150)
ALIKE = [b'{"lat": 52.%04d, "lon": 4.%04d}' % (n * 7, n * 3) for n in range(100)]


def points(payloads: list[bytes | None]) -> SeriesPoints:
    count = len(payloads)
    return SeriesPoints(list(range(count)), list(range(1, count + 1)), [0] * count, payloads)


def packed_of(payloads: list[bytes | None]) -> bytes:
    return squeeze(pack(*points(payloads)))


@given(MANY)
def test_payloads_come_out_as_they_went_in_whether_squeezed_or_not(payloads):
    plain = pack(*points(payloads))

    assert unpack(plain, ALL) == unpack(squeeze(plain), ALL) == points(payloads)


@given(MANY)
def test_what_is_squeezed_is_not_squeezed_further(payloads):
    once = packed_of(payloads)

    assert squeeze(once) == once


@given(MANY, st.integers(0, 150), st.integers(0, 150))
def test_only_payloads_within_bounds_come_out(payloads, first, last):
    bounds = PointBounds(first, 0, last)

    found = unpack(packed_of(payloads), bounds)

    assert found == cut(points(payloads), bounds)
    assert found.payloads == payloads[first : last + 1]


def test_who_needs_no_payloads_has_none_unpacked():
    found = unpack(packed_of(ALIKE), ALL, payloads=False)

    assert found == points([None] * 100)


@pytest.mark.parametrize("payloads", [[None] * 20, []])
def test_points_without_payloads_take_no_bytes_for_them(payloads):
    ats, seqs, kinds, _ = points([None] * 20)

    packed = pack(ats, seqs, kinds, payloads)

    assert len(packed) == 24 + 2 * 19


def test_payloads_that_are_alike_take_less_than_half():
    packed = packed_of(ALIKE)

    assert len(packed) < sum(map(len, ALIKE)) / 2


def test_payloads_that_cannot_be_compressed_are_stored_as_they_are():
    payloads = [random.Random(n).randbytes(100) for n in range(50)]

    packed = packed_of(payloads)

    assert b"".join(payloads) in packed
    assert len(packed) < 50 * 100 + 24 + 2 * 49 + 20


@pytest.mark.parametrize("payloads", [ALIKE, [b"a", None, b"bcd"], [b"abc"] * 3, [b""] * 3])
def test_payloads_that_are_cut_off_are_noticed_at_every_byte(payloads):
    packed = packed_of(payloads)

    for size in range(len(packed)):
        for wanted in (True, False):
            with pytest.raises(Corrupt, match="a block of a series"):
                unpack(packed[:size], ALL, payloads=wanted)


@pytest.mark.parametrize("payloads", [ALIKE, [b"a", None, b"bcd"], [b"abc"] * 3, [b""] * 3])
def test_bytes_behind_the_payloads_are_noticed(payloads):
    with pytest.raises(Corrupt):
        unpack(packed_of(payloads) + b"\0", ALL)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 3),  # the size of all: not what the lengths say
        (4, 200),  # stored: more than it is
        (8, 3),  # no such width
        (9, 9),  # a length
    ],
)
def test_numbers_of_payloads_that_cannot_be_are_noticed(place, value):
    packed = bytearray(packed_of([b"a", None, b"bcd"]))
    packed[24 + 2 * 2 + place] = value

    with pytest.raises(Corrupt):
        unpack(bytes(packed), ALL)


def test_compressed_bytes_that_are_damaged_are_noticed():
    packed = bytearray(packed_of(ALIKE))
    frame = packed.index(b"\x28\xb5\x2f\xfd")
    packed[frame : frame + 4] = b"\0\0\0\0"

    with pytest.raises(Corrupt, match="cannot be unpacked"):
        unpack(bytes(packed), ALL)


def test_a_block_that_would_unpack_to_more_than_it_says_is_noticed():
    packed = bytearray(packed_of([b"x" * 100] * 10))
    head = 24 + 2 * 9
    packed[head : head + 4] = (900).to_bytes(4, "little")
    packed[head + 9 : head + 13] = (91).to_bytes(4, "little")

    with pytest.raises(Corrupt, match="a block of a series"):
        unpack(bytes(packed), ALL)
