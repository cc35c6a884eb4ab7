"""Promise (C1, C10): a segment's header and index come back as they were, or not at all."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from strandline.log.segments import codec
from strandline.testing import strategies

SEED, NUMBER, OFFSET = 99, 7, 4096
U64 = st.integers(0, 2**64 - 1)
headers = st.builds(
    codec.SegmentHeader, store_id=st.binary(min_size=16, max_size=16), number=U64, topic_id=U64
)


@st.composite
def indexes(draw: st.DrawFn) -> codec.SegmentIndex:
    count = draw(st.integers(0, 5))
    columns = {}
    for name, kind in codec.COLUMNS:
        span = (-(2**63), 2**63 - 1) if kind == "<i8" else (0, 2**64 - 1)
        numbers = draw(st.lists(st.integers(*span), min_size=count, max_size=count))
        columns[name] = np.array(numbers, dtype=kind)
    return codec.SegmentIndex(columns)


dictionaries = st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=3)


def _rows(index: codec.SegmentIndex) -> list[list[int]]:
    return [getattr(index, name).tolist() for name, _ in codec.COLUMNS]


@given(headers)
def test_a_header_comes_back_as_it_was(header):
    whole = codec.encode_header(header)

    assert len(whole) == codec.HEADER_SIZE
    assert codec.decode_header(whole) == header
    assert {codec.decode_header(whole[:size]) for size in range(len(whole))} == {None}


@given(headers, st.data())
def test_a_garbled_header_is_none_or_the_same(header, data):
    whole = codec.encode_header(header)
    garbled = data.draw(strategies.garbled(whole))

    assert codec.decode_header(garbled) == (header if garbled.startswith(whole) else None)


@given(st.binary(max_size=100))
def test_garbage_is_no_header_and_no_trailer(data):
    assert codec.decode_header(data) is None
    assert codec.decode_trailer(data) is None


@given(headers, st.integers(2, 2**32 - 1))
def test_a_header_of_a_newer_format_tells_its_version(header, version):
    body = bytearray(codec.encode_header(header)[:-8])
    body[8:12] = struct.pack("<I", version)
    newer = bytes(body) + struct.pack("<Q", xxh3_64_intdigest(bytes(body)))

    assert codec.decode_header(newer) == version


@given(indexes(), dictionaries)
def test_an_index_comes_back_as_it_was(index, tags):
    whole, checksum = codec.encode_footer(index, tags, SEED, NUMBER, OFFSET)
    footer, trailer = whole[: -codec.TRAILER_SIZE], whole[-codec.TRAILER_SIZE :]

    found = codec.decode_footer(footer, checksum, SEED, NUMBER)

    assert codec.decode_trailer(trailer) == (OFFSET, len(footer), checksum)
    assert _rows(found) == _rows(index)
    assert codec.decode_tags(footer[codec.tags_offset(len(found)) :]) == tags


@given(indexes(), dictionaries, st.data())
def test_a_garbled_index_is_none(index, tags, data):
    whole, checksum = codec.encode_footer(index, tags, SEED, NUMBER, OFFSET)
    footer = whole[: -codec.TRAILER_SIZE]
    garbled = data.draw(strategies.garbled(footer))

    found = codec.decode_footer(garbled, checksum, SEED, NUMBER)

    assert (found is None) == (garbled != footer)


@given(indexes(), dictionaries)
def test_no_beginning_of_an_index_is_one(index, tags):
    whole, checksum = codec.encode_footer(index, tags, SEED, NUMBER, OFFSET)
    footer = whole[: -codec.TRAILER_SIZE]

    for size in range(len(footer)):
        assert codec.decode_footer(footer[:size], checksum, SEED, NUMBER) is None


def test_an_index_of_another_file_or_store_does_not_check():
    index = codec.SegmentIndex({name: np.zeros(1, kind) for name, kind in codec.COLUMNS})
    whole, checksum = codec.encode_footer(index, {}, SEED, NUMBER, OFFSET)
    footer = whole[: -codec.TRAILER_SIZE]

    assert codec.decode_footer(footer, checksum, SEED, NUMBER + 1) is None
    assert codec.decode_footer(footer, checksum, SEED + 2, NUMBER) is None


@given(st.binary(min_size=1, max_size=64), U64, U64)
def test_a_block_in_another_place_has_another_checksum(stored, offset, other):
    first, second = (codec.block_checksum(stored, SEED, place) for place in (offset, other))

    assert (first == second) == (offset == other)
