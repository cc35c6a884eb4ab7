"""Promise (C10): a batch comes back as it was given, whatever form it had; damage is noticed."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.log.wal import block
from strandline.testing import strategies
from strandline.testing.model import RecordValues

SEED = 12345
TEXT_COLUMNS = ((block.KEY, "key"), (block.TAG, "tag"), (block.NODE, "node"), (block.META, "meta"))


def _whole(draft: block.Draft, topic_id: int = 7, first_seq: int = 3, ts: int = 99) -> bytes:
    header, _ = draft.finish(SEED, topic_id, first_seq, ts)
    return b"".join([header, *map(bytes, draft.buffers)])


def _draft(batch: list[RecordValues], columns: list[tuple[int, str]]) -> block.Draft:
    draft = block.draft([values.data for values in batch])
    for column, name in columns:
        draft.add(column, [getattr(values, name) for values in batch])
    return draft


def _values(found: block.Block) -> list[RecordValues]:
    columns = {"data": found.data().to_pylist()}
    for column, name in TEXT_COLUMNS:
        array = found.column(column)
        columns[name] = [None] * found.count if array is None else array.to_pylist()
    rows = zip(*columns.values(), strict=True)
    return [RecordValues(**dict(zip(columns, row, strict=True))) for row in rows]


@given(
    strategies.batches(count_max=30),
    st.sets(st.sampled_from(TEXT_COLUMNS)),
    st.booleans(),
    st.none() | st.binary(max_size=64),
)
def test_a_batch_comes_back_with_every_combination_of_columns(batch, columns, stamped, key):
    draft = _draft(batch, sorted(columns))
    stamps = np.arange(1000, 1000 + len(batch))
    if stamped:
        draft.add_ts(stamps)
    if key is not None:
        draft.add_idempotency(key)

    whole = _whole(draft)
    found = block.Block(memoryview(whole))

    absent = {name: None for column, name in TEXT_COLUMNS if (column, name) not in columns}
    expected = [_replaced(values, absent) for values in batch]
    assert block.verify(whole, SEED)
    assert _values(found) == expected
    assert found.stamps().tolist() == (stamps.tolist() if stamped else [99] * len(batch))
    assert found.idempotency_key() == key
    assert found.sizes().tolist() == [values.size for values in expected]
    assert found.payload_size == draft.payload_size == sum(values.size for values in expected)
    assert (found.topic_id, found.first_seq, found.count) == (7, 3, len(batch))
    assert len(whole) == draft.size
    assert draft.size % 8 == 0


def _replaced(values: RecordValues, changes: dict[str, None]) -> RecordValues:
    fields = {name: getattr(values, name) for name in RecordValues.__struct_fields__}
    return RecordValues(**{**fields, **changes})


@given(st.integers(1, 40), st.binary(max_size=20), st.sampled_from(strategies.TAGS))
def test_one_value_for_all_is_the_same_as_one_for_each(count, key, tag):
    data = [b"x"] * count
    shared, listed = block.draft(data), block.draft(data)

    for column, value in ((block.KEY, key), (block.TAG, tag)):
        shared.add(column, value)
        listed.add(column, [value] * count)

    assert _values(block.Block(memoryview(_whole(shared)))) == _values(
        block.Block(memoryview(_whole(listed)))
    )


@given(strategies.batches(count_min=3), st.data())
def test_a_slice_of_an_arrow_array_is_stored_as_the_slice(batch, data):
    first = data.draw(st.integers(0, len(batch) - 1))
    following = data.draw(st.integers(first + 1, len(batch)))
    payloads = pa.array([values.data for values in batch], pa.binary())
    tags = pa.array([values.tag for values in batch], pa.string())

    draft = block.draft_arrow(payloads.slice(first, following - first))
    draft.add(block.TAG, block.plain_binary(tags.slice(first, following - first), pa.string()))
    found = block.Block(memoryview(_whole(draft)))

    assert found.data().to_pylist() == payloads.to_pylist()[first:following]
    assert found.column(block.TAG).to_pylist() == tags.to_pylist()[first:following]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view()]
)
def test_every_binary_type_of_arrow_is_taken(kind):
    array = pa.array(["a", "", "ccc", "dd"]).cast(kind)

    found = block.Block(memoryview(_whole(block.draft_arrow(array[1:]))))

    assert found.data().to_pylist() == [b"", b"ccc", b"dd"]


def test_a_batch_without_records_is_a_block_of_none():
    found = block.Block(memoryview(_whole(block.draft([]))))

    assert (found.count, found.data().to_pylist(), found.sizes().tolist()) == (0, [], [])


def test_a_record_without_data_is_refused():
    with pytest.raises(Invalid, match="has data"):
        block.draft([b"a", None])


@pytest.mark.parametrize("values", [[1], [b"a", 2.5], 5, [["a"]]])
def test_payloads_that_are_not_bytes_are_refused(values):
    with pytest.raises(Invalid):
        block.draft(values)


@given(st.binary(max_size=100), st.integers(0, 2**63), st.integers(0, 2**40))
def test_a_control_block_comes_back(payload, topic_id, ts):
    content, checksum = block.control(SEED, topic_id, ts, payload)
    found = block.Block(memoryview(content))

    assert block.verify(content, SEED)
    assert found.kind == block.CONTROL
    assert (found.control_payload(), found.topic_id, found.ts) == (payload, topic_id, ts)
    assert int.from_bytes(content[:8], "little") == checksum


@given(strategies.batches(count_max=3))
def test_any_flipped_bit_is_noticed(batch):
    whole = bytearray(_whole(_draft(batch, list(TEXT_COLUMNS))))

    for place in range(len(whole)):
        whole[place] ^= 1 << place % 8
        assert not block.verify(bytes(whole), SEED)
        whole[place] ^= 1 << place % 8


@given(strategies.batches(count_max=3), st.binary(max_size=40))
def test_a_cut_block_is_none_and_bytes_behind_it_do_not_matter(batch, behind):
    whole = _whole(_draft(batch, list(TEXT_COLUMNS)))

    assert not any(block.verify(whole[:size], SEED) for size in range(len(whole)))
    assert block.verify(whole + behind, SEED)


@given(st.binary(max_size=300))
def test_garbage_is_no_block(data):
    assert not block.verify(data, SEED)


def test_a_block_of_another_store_or_place_does_not_verify():
    draft = block.draft([b"a"])
    places = itertools.product((7, 8), (3, 4))

    checksums = {draft.finish(SEED, topic_id, seq, 99)[1] for topic_id, seq in places}

    assert len(checksums) == 4
    assert not block.verify(_whole(draft), SEED + 1)
