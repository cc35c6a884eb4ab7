"""Promise (C10): WAL bytes come back as they were given, and no garbage is taken for them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from strandline.log.wal import codec
from strandline.testing import strategies

U64 = st.integers(0, 2**64 - 1)
headers = st.builds(
    codec.FileHeader,
    shard=st.integers(0, 2**32 - 1),
    store_id=st.binary(min_size=16, max_size=16),
    first_lsn=U64,
    term=U64,
    file_size=U64,
    previous=U64,
    durable_upto=U64,
    page_cache=U64,
    created_us=st.integers(-(2**63), 2**63 - 1),
)
fields = st.lists(st.none() | st.binary(max_size=40), min_size=4, max_size=4)
words = st.lists(U64 | st.just(0), min_size=1, max_size=300).map(
    lambda numbers: struct.pack(f"<{len(numbers)}Q", *numbers)
)


@given(headers)
def test_a_file_header_comes_back_as_it_was(header):
    assert codec.decode_file_header(codec.encode_file_header(header)) == header


@given(headers, st.data())
def test_a_garbled_file_header_is_none_or_the_same(header, data):
    whole = codec.encode_file_header(header)
    garbled = data.draw(strategies.garbled(whole))

    found = codec.decode_file_header(garbled)

    assert found == (header if garbled.startswith(whole) else None)


@given(headers)
def test_no_beginning_of_a_file_header_is_one(header):
    whole = codec.encode_file_header(header)

    assert {codec.decode_file_header(whole[:size]) for size in range(len(whole))} == {None}


@given(st.binary(max_size=200))
def test_garbage_is_no_file_header(data):
    assert codec.decode_file_header(data) is None


@given(headers, st.integers(2, 2**32 - 1))
def test_a_file_header_of_a_newer_format_tells_its_version(header, version):
    body = bytearray(codec.encode_file_header(header)[:-8])
    body[8:12] = struct.pack("<I", version)
    newer = bytes(body) + struct.pack("<Q", xxh3_64_intdigest(bytes(body)))

    assert codec.decode_file_header(newer) == version


def _single(given_fields: list[bytes | None], data: bytes) -> tuple[int, bytes]:
    """Sizes and body of a single, written down from the byte table and not from the code."""
    sizes = [0xFFFF if field is None else len(field) for field in given_fields]
    payload = b"".join(field for field in given_fields if field is not None) + data
    body = payload + b"\xa5"
    return int.from_bytes(struct.pack("<4H", *sizes), "little"), body + bytes(-len(body) % 8)


@given(fields, strategies.payloads())
def test_a_single_comes_back_with_every_combination_of_fields(given_fields, data):
    sizes, body = _single(given_fields, data)

    assert codec.split_single(sizes, body) == (given_fields, data)
    assert codec.data_size(body) == sum(len(f) for f in given_fields if f is not None) + len(data)


@given(st.binary(max_size=64))
def test_data_that_looks_like_its_own_end_is_not_cut(data):
    for tail in (b"\xa5", b"\xa5\0\0", b"\0\0\0", b"\xa5" * 9):
        sizes, body = _single([None] * 4, data + tail)

        assert codec.split_single(sizes, body)[1] == data + tail


@given(words, st.integers(0, 255))
def test_a_mask_takes_itself_off_again(body, mask):
    assert codec.masked(codec.masked(body, mask), mask) == body


@given(st.integers(1, 255))
def test_every_mask_hides_zeros(mask):
    assert not codec.zero_sector(codec.masked(bytes(4096), mask), 0)


def test_the_masks_differ():
    assert len({codec.masked(bytes(8), mask) for mask in range(256)}) == 256


@given(words, st.integers(0, 600).map(lambda number: number * 8))
def test_a_zero_sector_is_one_that_the_file_would_really_have(body, file_offset):
    whole = b"\xff" * file_offset + body
    sectors = range(-(-file_offset // 512) * 512, len(whole) - 511, 512)

    expected = any(not any(whole[start : start + 512]) for start in sectors)

    assert codec.zero_sector(body, file_offset) == expected


@given(st.binary(min_size=16, max_size=16), st.integers(0, 63), st.integers(0, 63))
def test_frames_of_another_shard_or_store_never_verify(store_id, shard, other):
    rest = b"\x01" * 64
    check = xxh3_64_intdigest(rest, codec.shard_seed(store_id, shard) + 80) & codec.LOW32
    flipped = bytes([store_id[0] ^ 1]) + store_id[1:]

    assert codec.header_ok(check, rest, codec.shard_seed(store_id, shard), 80)
    assert not codec.header_ok(check, rest, codec.shard_seed(store_id, shard), 88)
    assert not codec.header_ok(check, rest, codec.shard_seed(flipped, shard), 80)
    if other != shard:
        assert not codec.header_ok(check, rest, codec.shard_seed(store_id, other), 80)
