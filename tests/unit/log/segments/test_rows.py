"""Promise: records keep their seq, ts and fields on their way from blocks to larger blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from strandline.log.segments import rows
from strandline.log.segments.rows import RecordRows
from strandline.log.wal import block
from strandline.testing import strategies
from strandline.testing.model import RecordValues

NAMES = {block.KEY: "key", block.TAG: "tag", block.NODE: "node", block.META: "meta"}
FEW = settings(max_examples=30)  # each makes dozens of arrays
Listed = list[tuple[int, int, RecordValues]]


def _listed(found: RecordRows) -> Listed:
    """Seq, ts and values of every row."""
    columns = {"data": found.data.to_pylist()}
    for column, name in NAMES.items():
        array = found.fields.get(column)
        columns[name] = [None] * len(found.data) if array is None else array.to_pylist()
    values = [
        RecordValues(**{name: columns[name][row] for name in columns})
        for row in range(len(found.data))
    ]
    seqs = range(found.first_seq, found.next_seq)
    return list(zip(seqs, found.stamps.tolist(), values, strict=True))


def _single(values: RecordValues) -> list[bytes | None]:
    texts = [None if text is None else text.encode() for text in (values.tag, values.node)]
    return [values.key, *texts, values.meta]


def _of_singles(batch: list[RecordValues], first_seq: int) -> RecordRows:
    singles = [(1000 + row, _single(values), values.data) for row, values in enumerate(batch)]
    return rows.of_singles(first_seq, singles)


def _of_block(batch: list[RecordValues], first_seq: int) -> RecordRows:
    draft = block.draft([values.data for values in batch])
    for column, name in NAMES.items():
        given_values = [getattr(values, name) for values in batch]
        draft.add(column, given_values if any(v is not None for v in given_values) else None)
    draft.add_ts(np.arange(1000, 1000 + len(batch)))
    header, _ = draft.finish(1, 1, first_seq, 0)
    return rows.of_block(block.Block(memoryview(b"".join([header, *draft.buffers]))))


@st.composite
def runs(draw: st.DrawFn) -> list[RecordRows]:
    """Parts of one topic in order, some of them behind a gap."""
    parts, seq = [], 1
    for _ in range(draw(st.integers(1, 5))):
        seq += draw(st.sampled_from((0, 0, 0, 5)))
        batch = draw(strategies.batches(count_max=12))
        made = draw(st.sampled_from((_of_singles, _of_block)))(batch, seq)
        parts.append(made)
        seq = made.next_seq
    return parts


@FEW
@given(strategies.batches(), st.integers(1, 2**40))
def test_singles_and_blocks_become_the_same_rows(batch, first_seq):
    singles, blocks = _of_singles(batch, first_seq), _of_block(batch, first_seq)

    expected = [(first_seq + row, 1000 + row, values) for row, values in enumerate(batch)]
    assert _listed(singles) == _listed(blocks) == expected


@FEW
@given(runs(), st.integers(1, 10), st.integers(1, 300))
def test_cutting_into_blocks_loses_nothing_and_keeps_gaps(parts, rows_max, bytes_max):
    cut = list(rows.in_blocks(parts, rows_max, bytes_max))

    assert [row for part in cut for row in _listed(part)] == [
        row for part in parts for row in _listed(part)
    ]
    assert all(1 <= len(part.data) <= rows_max for part in cut)


@FEW
@given(runs())
def test_blocks_are_as_large_as_they_may_be(parts):
    cut = list(rows.in_blocks(parts, 5, 1 << 20))

    for part, following in itertools.pairwise(cut):
        assert len(part.data) == 5 or part.next_seq != following.first_seq


@FEW
@given(runs(), st.integers(1, 10))
def test_a_cut_block_can_be_stored_and_read_again(parts, rows_max):
    for part in rows.in_blocks(parts, rows_max, 1 << 20):
        draft, ts_min, ts_max = part.draft()
        header, _ = draft.finish(1, 1, part.first_seq, ts_max)
        stored = block.Block(memoryview(b"".join([header, *draft.buffers])))

        assert _listed(rows.of_block(stored)) == _listed(part)
        assert (ts_min, ts_max) == (part.stamps.min(), part.stamps.max())


@FEW
@given(strategies.batches(count_min=2), st.data())
def test_a_slice_holds_just_its_seqs(batch, data):
    whole = _of_block(batch, 10)
    first = data.draw(st.integers(10, whole.next_seq - 1))
    following = data.draw(st.integers(first + 1, whole.next_seq))

    assert _listed(whole.slice(first, following)) == _listed(whole)[first - 10 : following - 10]


@FEW
@given(runs().map(lambda parts: parts[0]), st.sets(st.integers(1, 40)))
def test_deleted_records_are_emptied_in_their_place(part, deleted):
    found = _listed(part.without(BitMap64(deleted)))

    expected = [
        (seq, ts, RecordValues(data=b"") if seq in deleted else values)
        for seq, ts, values in _listed(part)
    ]
    assert found == expected


@FEW
@given(strategies.batches(), strategies.batches())
def test_joined_parts_keep_fields_that_only_one_of_them_has(first, second):
    tagged = _of_block([RecordValues(data=v.data, tag=v.tag) for v in first], 1)
    keyed = _of_block([RecordValues(data=v.data, key=v.key) for v in second], tagged.next_seq)

    whole = rows.joined([tagged, keyed])

    assert _listed(whole) == _listed(tagged) + _listed(keyed)


def test_rows_of_a_cut_array_do_not_carry_the_rest_along():
    data = pa.array([b"x" * 1000] * 100, pa.binary())
    part = RecordRows(1, data, {}, np.zeros(100, "<i8")).slice(50, 52)

    assert part.draft()[0].size < 2200
