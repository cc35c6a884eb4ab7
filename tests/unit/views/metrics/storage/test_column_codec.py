"""Promise: columns of numbers come back bit by bit, and damage is noticed."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt
from strandline.views.metrics.storage.column_codec import (
    CHUNK,
    EQUAL,
    FLAGS,
    RAW,
    pack,
    pack_one,
    unpack,
    unpack_one,
)
from strandline.views.metrics.value_types import ValueKind, to_bits

BITS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(1, 300)
COLUMNS = st.one_of(
    st.lists(BITS, min_size=1, max_size=200),
    st.builds(
        lambda n, start: [start + 1000 * i for i in range(n)],
        st.integers(1, 300),
        BITS.filter(lambda n: n < 2**62),
    ),
    st.builds(lambda n, bits: [bits] * n, st.integers(1, 300), BITS),
)


@given(COLUMNS, st.sampled_from((ValueKind.INT, ValueKind.FLOAT)), st.booleans())
def test_numbers_come_back_bit_by_bit(numbers, kind, small):
    column = np.array(numbers, dtype="<i8")

    packed = pack(column, kind, small=small)

    assert unpack(packed, len(numbers), kind).tolist() == numbers


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_booleans_come_back(flags):
    bits = to_bits(np.array(flags), ValueKind.BOOL)

    assert unpack(pack(bits, ValueKind.BOOL), len(flags), ValueKind.BOOL).tolist() == flags


def test_a_negative_zero_keeps_its_sign():
    bits = to_bits(np.array([-0.0, 0.0] * 100), ValueKind.FLOAT)

    assert unpack(pack(bits, ValueKind.FLOAT), 200, ValueKind.FLOAT).tolist() == bits.tolist()


@pytest.mark.parametrize(
    ("numbers", "kind", "form"),
    [
        ([1, 2, 3], ValueKind.INT, RAW),
        ([5] * 9, ValueKind.INT, EQUAL),
        (list(range(200)), ValueKind.INT, CHUNK),
        ([0, 1, 1], ValueKind.BOOL, FLAGS),
    ],
)
def test_each_form_is_used_where_it_is_the_smallest(numbers, kind, form):
    assert pack(np.array(numbers, dtype="<i8"), kind)[0] == form


def test_what_cannot_be_packed_smaller_stays_as_it_is():
    noise = np.frombuffer(np.random.default_rng(1).bytes(8 * 500), dtype="<i8")

    assert len(pack(noise, ValueKind.INT)) <= 8 * 500 + 1


@given(BITS)
def test_one_number_comes_back(bits):
    assert unpack_one(pack_one(bits)) == bits
    assert unpack(pack_one(bits), 1, ValueKind.INT).tolist() == [bits]


def test_one_number_is_only_taken_from_what_is_one_number():
    assert unpack_one(pack(np.array([1, 2], dtype="<i8"), ValueKind.INT)) is None
    assert unpack_one(struct.pack("<Bq", EQUAL, 5)) is None


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x09abc",
        b"\x00abc",
        b"\x01",
        b"\x02" + b"x" * 30,
        pack(np.arange(500), ValueKind.INT)[:-3],
        pack(to_bits(np.arange(500) / 3, ValueKind.FLOAT), ValueKind.FLOAT),
        pack(np.arange(499), ValueKind.INT),
    ],
)
def test_a_column_that_is_not_whole_is_noticed(damaged):
    with pytest.raises(Corrupt):
        unpack(damaged, 500, ValueKind.INT)
