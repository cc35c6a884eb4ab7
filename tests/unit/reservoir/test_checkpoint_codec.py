"""Promise: a checkpoint is read back as it was written, every field and column of it, and one that
is damaged, cut short or too new is not read."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.reservoir import checkpoint_codec as checkpoints
from strandline.reservoir.checkpoint_codec import Checkpoint, CheckpointFooter
from strandline.reservoir.data_files.data_file_codec import PAGE_ID_MAX, crc64
from strandline.reservoir.data_files.data_file_table import FILE_ROW, GARBAGE_ROW
from strandline.reservoir.data_files.page_table import ROW
from tests.unit.reservoir.cached_files import flipped

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
IDENTITIES = st.binary(min_size=16, max_size=16)
COLUMNS = ("ids", "rows", "deleted", "files", "garbage")


def tables(dtype: np.dtype, *fields: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(*fields), max_size=8).map(lambda rows: np.array(rows, dtype=dtype))


def ids(count: int) -> st.SearchStrategy:
    found = st.lists(st.integers(1, PAGE_ID_MAX), min_size=count, max_size=count)
    return found.map(lambda values: np.array(values, dtype="<i8"))


@st.composite
def any_checkpoint(draw) -> Checkpoint:
    rows = draw(tables(ROW, U64, U32, U32, U64))
    return Checkpoint(
        reservoir_id=draw(IDENTITIES),
        version=draw(U64),
        previous=draw(U64),
        term=draw(U64),
        kept_term=draw(U64),
        made_us=draw(U64),
        writer_id=draw(IDENTITIES),
        is_snapshot=draw(st.booleans()),
        ids=draw(ids(len(rows))),
        rows=rows,
        deleted=draw(st.integers(0, 5).flatmap(ids)),
        files=draw(tables(FILE_ROW, *[U64] * len(FILE_ROW.names))),
        garbage=draw(tables(GARBAGE_ROW, U64, U64)),
        meta=draw(st.binary(max_size=100)),
    )


def empty(**fields: object) -> Checkpoint:
    none = {
        "ids": np.empty(0, "<i8"),
        "rows": np.empty(0, ROW),
        "deleted": np.empty(0, "<i8"),
        "files": np.empty(0, FILE_ROW),
        "garbage": np.empty(0, GARBAGE_ROW),
    }
    numbers = {"version": 1, "previous": 2, "term": 3, "kept_term": 4, "made_us": 5}
    names = {"reservoir_id": b"r" * 16, "writer_id": b"w" * 16, "is_snapshot": False, "meta": b""}
    return Checkpoint(**{**none, **numbers, **names, **fields})


def full() -> Checkpoint:
    return empty(
        ids=np.array([5, 9], "<i8"),
        rows=np.array([(1, 2, 3, 4), (5, 6, 7, 8)], ROW),
        deleted=np.array([7], "<i8"),
        files=np.array([tuple(range(8))], FILE_ROW),
        garbage=np.array([(3, 1)], GARBAGE_ROW),
        meta=b"meta",
    )


def plain(checkpoint: Checkpoint) -> dict[str, object]:
    found = msgspec.structs.asdict(checkpoint)
    return {name: each.tolist() if name in COLUMNS else each for name, each in found.items()}


@given(any_checkpoint(), st.booleans())
def test_a_checkpoint_is_read_back_as_it_was_written(checkpoint, compress):
    encoded = checkpoints.encode(checkpoint, compress=compress)

    assert plain(checkpoints.decode(encoded, "object")) == plain(checkpoint)


@pytest.mark.parametrize("compress", [False, True])
def test_a_checkpoint_without_anything_is_read_back(compress):
    encoded = checkpoints.encode(empty(), compress=compress)

    assert plain(checkpoints.decode(encoded, "object")) == plain(empty())


def test_the_header_tells_every_number():
    encoded = checkpoints.encode(full(), compress=True)

    header = checkpoints.decode_header(encoded, "object")

    assert header == checkpoints.CheckpointHeader(
        flags=checkpoints.FLAG_ZSTD,
        reservoir_id=b"r" * 16,
        version=1,
        previous=2,
        term=3,
        kept_term=4,
        made_us=5,
        pages=2,
        deleted=1,
        files=1,
        garbage=1,
        meta_size=4,
        columns_size=2 * 32 + 8 + 64 + 16 + 4,
        writer_id=b"w" * 16,
    )


def test_columns_that_repeat_themselves_become_smaller():
    ids = np.arange(1, 1001, dtype="<i8")
    checkpoint = empty(ids=ids, rows=np.zeros(1000, ROW))

    packed = checkpoints.encode(checkpoint, compress=True)

    assert len(packed) < len(checkpoints.encode(checkpoint, compress=False)) / 5


@pytest.mark.parametrize("offset", range(checkpoints.HEADER_SIZE))
def test_a_flipped_bit_in_the_header_is_noticed(offset):
    encoded = checkpoints.encode(full(), compress=False)

    with pytest.raises(Corrupt):
        checkpoints.decode(flipped(encoded, offset), "object")


@pytest.mark.parametrize("compress", [False, True])
def test_a_checkpoint_that_is_cut_short_is_noticed(compress):
    encoded = checkpoints.encode(full(), compress=compress)

    for size in range(len(encoded)):
        with pytest.raises(Corrupt):
            checkpoints.decode(encoded[:size], "object")


def test_counts_that_do_not_add_up_are_noticed():
    encoded = bytearray(checkpoints.encode(full(), compress=False))
    encoded[64:72] = (3).to_bytes(8, "little")
    encoded[128:136] = crc64(bytes(encoded[:128])).to_bytes(8, "little")

    with pytest.raises(Corrupt, match="do not add up"):
        checkpoints.decode(bytes(encoded), "object")


def test_a_newer_format_is_not_read():
    encoded = bytearray(checkpoints.encode(full(), compress=False))
    encoded[4:6] = (checkpoints.FORMAT_VERSION + 1).to_bytes(2, "little")
    encoded[128:136] = crc64(bytes(encoded[:128])).to_bytes(8, "little")

    with pytest.raises(UnsupportedFormat, match="upgrade"):
        checkpoints.decode(bytes(encoded), "object")


FOOTER = CheckpointFooter(b"r" * 16, 12, 100, 300, (1 << 64) - 1)
SIZE = 400 + checkpoints.FOOTER_SIZE


def test_a_footer_is_read_back_as_it_was_written():
    encoded = checkpoints.encode_footer(FOOTER)

    assert len(encoded) == checkpoints.FOOTER_SIZE
    assert checkpoints.decode_footer(encoded, "object", SIZE) == FOOTER


@pytest.mark.parametrize("offset", range(checkpoints.FOOTER_SIZE))
def test_a_flipped_bit_in_the_footer_is_noticed(offset):
    with pytest.raises(Corrupt):
        checkpoints.decode_footer(
            flipped(checkpoints.encode_footer(FOOTER), offset), "object", SIZE
        )


@pytest.mark.parametrize("places", [(301, 300), (100, 401)])
def test_parts_that_are_out_of_order_are_noticed(places):
    footer = FOOTER._replace(checkpoint_offset=places[0], registry_offset=places[1])

    with pytest.raises(Corrupt, match="out of order"):
        checkpoints.decode_footer(checkpoints.encode_footer(footer), "object", SIZE)


def test_a_footer_of_a_newer_format_is_not_read():
    encoded = bytearray(checkpoints.encode_footer(FOOTER))
    encoded[4:6] = (checkpoints.FORMAT_VERSION + 1).to_bytes(2, "little")
    encoded[56:64] = crc64(bytes(encoded[:56])).to_bytes(8, "little")

    with pytest.raises(UnsupportedFormat, match="upgrade"):
        checkpoints.decode_footer(bytes(encoded), "object", SIZE)
