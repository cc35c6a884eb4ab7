"""Promise: a data file tells what it is and where its pages are, and a page's checksum is that of
these bytes as this page in this file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.reservoir import object_keys
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_builder import DataFile
from tests.unit.reservoir.cached_files import flipped

RESERVOIR = bytes(range(16))
FILE = object_keys.data_file_id(7, 3)
PAGE_IDS = st.integers(1, data_file_codec.PAGE_ID_MAX)
FILE_IDS = st.integers(1, (1 << 64) - 1)
PAGES = st.dictionaries(PAGE_IDS, st.binary(max_size=50), max_size=20)


def made(pages: dict[int, bytes], file_id: int = FILE, flags: int = 0) -> DataFile:
    return DataFile(pages, reservoir_id=RESERVOIR, file_id=file_id, version=9, flags=flags)


@given(
    PAGES,
    st.sampled_from([0, data_file_codec.FLAG_ZSTD]),
    st.sampled_from([FILE, object_keys.bundle_id(5)]),
)
def test_a_file_is_what_was_put_into_it(pages, flags, file_id):
    blob = made(pages, file_id, flags)

    header, ids, offsets = data_file_codec.decode_index(blob.content(), "file")

    expected = flags | data_file_codec.FLAG_BUNDLE * (file_id != FILE)
    assert header == data_file_codec.DataFileHeader(
        expected, RESERVOIR, file_id, len(pages), len(blob.content())
    )
    assert ids.tolist() == list(pages)
    assert [blob.content()[a:b] for a, b in pairwise(offsets)] == list(pages.values())
    assert offsets[0] == data_file_codec.index_size(len(pages))


@given(PAGES)
def test_a_file_tells_where_its_pages_are_and_what_they_add_up_to(pages):
    blob = made(pages)

    assert blob.rows["file_id"].tolist() == [FILE] * len(pages)
    assert blob.entry.ref.crc64 == data_file_codec.crc64(blob.content())
    assert (blob.entry.pages, blob.entry.added_at) == (len(pages), 9)
    for (page_id, data), row in zip(pages.items(), blob.rows.tolist(), strict=True):
        _, offset, size, checksum = row
        assert blob.content()[offset : offset + size] == data
        assert checksum == data_file_codec.page_checksum(data, page_id, FILE)


@given(st.binary(max_size=50), PAGE_IDS, PAGE_IDS, FILE_IDS, FILE_IDS)
def test_a_page_checksum_covers_bytes_page_and_file(data, page_id, other_page, file_id, other_file):
    checksum = data_file_codec.page_checksum(data, page_id, file_id)

    assert data_file_codec.page_checksum(data + b"\0", page_id, file_id) != checksum
    if other_page != page_id:
        assert data_file_codec.page_checksum(data, other_page, file_id) != checksum
    if other_file != file_id:
        assert data_file_codec.page_checksum(data, page_id, other_file) != checksum


@given(PAGES, FILE_IDS)
def test_checksums_of_many_pages_are_those_of_each(pages, file_id):
    ids = np.array(list(pages), dtype="<i8")

    sums = data_file_codec.page_checksums(list(pages.values()), ids, file_id)

    assert sums.tolist() == [
        data_file_codec.page_checksum(data, n, file_id) for n, data in pages.items()
    ]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_crc_goes_on_from_that_of_the_bytes_before(data, cut):
    assert data_file_codec.crc64(
        data[cut:], data_file_codec.crc64(data[:cut])
    ) == data_file_codec.crc64(data)


def test_the_crc_is_that_of_ecma_182():
    assert data_file_codec.crc64(b"123456789") == 0x6C40DF5F0B497347


@pytest.mark.parametrize("offset", range(data_file_codec.HEADER_SIZE))
def test_a_flipped_bit_in_the_header_is_noticed(offset):
    content = made({1: b"one", 2: b"two"}).content()

    with pytest.raises(Corrupt):
        data_file_codec.decode_header(flipped(content, offset), "file")


@pytest.mark.parametrize("size", [0, 1, data_file_codec.HEADER_SIZE - 1])
def test_a_file_without_a_whole_header_is_noticed(size):
    with pytest.raises(Corrupt, match="shorter than its header"):
        data_file_codec.decode_header(made({1: b"one"}).content()[:size], "file")


def test_a_file_that_is_cut_short_or_too_long_is_noticed():
    content = made({1: b"one", 2: b"two"}).content()

    for damaged in (content[:-1], content + b"\0", content[: data_file_codec.HEADER_SIZE + 4]):
        with pytest.raises(Corrupt):
            data_file_codec.decode_index(damaged, "file")


def test_an_index_that_is_out_of_order_is_noticed():
    content = bytearray(made({1: b"one", 2: b"two"}).content())
    at = data_file_codec.HEADER_SIZE + 2 * 8 + 4
    content[at : at + 4] = (5).to_bytes(4, "little")

    with pytest.raises(Corrupt, match="out of order"):
        data_file_codec.decode_index(bytes(content), "file")


def test_a_newer_format_is_not_read():
    header = bytearray(made({1: b"one"}).content()[: data_file_codec.HEADER_SIZE])
    header[4:6] = (data_file_codec.FORMAT_VERSION + 1).to_bytes(2, "little")
    header[56:64] = data_file_codec.crc64(bytes(header[:56])).to_bytes(8, "little")

    with pytest.raises(UnsupportedFormat, match="upgrade"):
        data_file_codec.decode_header(bytes(header), "file")


def test_a_file_is_checked_against_what_the_checkpoint_lists():
    blob = made({1: b"one"})
    ref = blob.entry.ref
    wanted = {"reservoir_id": RESERVOIR, "file_id": ref.file_id, "crc": ref.crc64}

    data_file_codec.check_file(blob.content(), "file", **wanted)

    for wrong in ({"reservoir_id": b"r" * 16}, {"file_id": FILE + 1}, {"crc": ref.crc64 ^ 1}):
        with pytest.raises(Corrupt):
            data_file_codec.check_file(blob.content(), "file", **{**wanted, **wrong})
