"""Consecutive records in columns, for merging blocks into larger blocks. Pure.

Records keep their place: a deleted record stays as an empty row until its whole block is below the
floor, so that a block's first seq and count always define its seqs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.log.wal import block

_FIELDS = (block.KEY, block.TAG, block.NODE, block.META)
_KINDS = {
    block.KEY: pa.binary(),
    block.TAG: pa.string(),
    block.NODE: pa.string(),
    block.META: pa.binary(),
}


class RecordRows:
    """Consecutive records of one topic in Arrow columns."""

    __slots__ = ("data", "fields", "first_seq", "stamps")

    def __init__(
        self,
        first_seq: int,
        data: pa.Array,
        fields: dict[int, pa.Array],
        stamps: np.ndarray,
    ) -> None:
        self.first_seq = first_seq
        self.data = data
        self.fields = fields
        self.stamps = stamps

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.data)

    def slice(self, first_seq: int, next_seq: int) -> RecordRows:
        start, size = first_seq - self.first_seq, next_seq - first_seq
        fields = {column: array.slice(start, size) for column, array in self.fields.items()}
        stamps = self.stamps[start : start + size]
        return RecordRows(first_seq, self.data.slice(start, size), fields, stamps)

    def draft(self) -> tuple[block.Draft, int, int]:
        """A draft of these rows with the smallest and largest ts."""
        draft = block.draft_arrow(self.data)
        for column in _FIELDS:
            array = self.fields.get(column)
            if array is not None and array.null_count < len(array):
                draft.add(column, block.plain_binary(array, _KINDS[column]))
        ts_min, ts_max = int(self.stamps.min()), int(self.stamps.max())
        if ts_min != ts_max:
            draft.add_ts(self.stamps)
        return draft, ts_min, ts_max

    def without(self, deleted: BitMap64) -> RecordRows:
        """The same rows with deleted records emptied."""
        span = BitMap64(range(self.first_seq, self.next_seq)) & deleted
        if not span:
            return self
        is_deleted = np.zeros(len(self.data), dtype=bool)
        is_deleted[np.array(list(span), dtype="<i8") - self.first_seq] = True
        mask = pa.array(is_deleted)
        data = pc.if_else(mask, pa.scalar(b"", pa.binary()), self.data)
        fields = {
            column: pc.if_else(mask, pa.scalar(None, _KINDS[column]), array)
            for column, array in self.fields.items()
        }
        return RecordRows(self.first_seq, data, fields, self.stamps)


class RowSource(Protocol):
    """The interface from which rows are built: that of a block or a zone."""

    @property
    def first_seq(self) -> int: ...
    def data(self) -> pa.Array: ...
    def column(self, wanted: int) -> pa.Array | None: ...
    def stamps(self) -> np.ndarray: ...


def of_block(source: RowSource) -> RecordRows:
    fields = {}
    for column in _FIELDS:
        array = source.column(column)
        if array is not None:
            fields[column] = array
    return RecordRows(source.first_seq, source.data(), fields, source.stamps())


def of_singles(
    first_seq: int, singles: Sequence[tuple[int, Sequence[bytes | None], bytes]]
) -> RecordRows:
    """Rows from (ts, fields, data) of consecutive records."""
    data = pa.array([single[2] for single in singles], pa.binary())
    stamps = np.array([single[0] for single in singles], dtype="<i8")
    fields = {}
    for place, column in enumerate(_FIELDS):
        values = [single[1][place] for single in singles]
        if any(value is not None for value in values):
            fields[column] = pa.array(values, pa.binary()).cast(_KINDS[column])
    return RecordRows(first_seq, data, fields, stamps)


def joined(parts: Sequence[RecordRows]) -> RecordRows:
    """Consecutive parts as one."""
    if len(parts) == 1:
        return parts[0]
    data = pa.concat_arrays([part.data for part in parts])
    stamps = np.concatenate([part.stamps for part in parts])
    fields = {}
    for column in _FIELDS:
        if any(column in part.fields for part in parts):
            arrays = [
                part.fields.get(column, pa.nulls(len(part.data), _KINDS[column])) for part in parts
            ]
            fields[column] = pa.concat_arrays(arrays)
    return RecordRows(parts[0].first_seq, data, fields, stamps)


def in_blocks(parts: Sequence[RecordRows], rows_max: int, bytes_max: int) -> Iterator[RecordRows]:
    """The same records in blocks of at most this size. Gaps between parts stay gaps."""
    waiting: list[RecordRows] = []
    count = size = 0
    for part in parts:
        if waiting and waiting[-1].next_seq != part.first_seq:
            yield joined(waiting)
            waiting, count, size = [], 0, 0
        first = part.first_seq
        while first < part.next_seq:
            row_size = max(1, part.data.nbytes // len(part.data))
            rows_left = max(1, min(rows_max - count, (bytes_max - size) // row_size))
            following = min(part.next_seq, first + rows_left)
            waiting.append(part.slice(first, following))
            count += following - first
            size += (following - first) * row_size
            first = following
            if count >= rows_max or size >= bytes_max:
                yield joined(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield joined(waiting)
