"""A page: the result of one read, as objects or columns.

The page keeps the blocks that it was cut from and decodes on demand: ``records`` as objects,
``data`` as plain payloads, ``arrow()`` as columns without copying payloads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.zone import Zone
from strandline.log.wal import block
from strandline.log.wal.block import Block
from strandline.records import Record, Tombstone

_FIELDS = (block.KEY, block.TAG, block.NODE, block.META)

Row = tuple[int, int, Sequence[bytes | None], bytes]
"""seq, ts, the fields key, tag, node and meta, the data."""


class PageColumns(NamedTuple):
    """Records as lists, equally long."""

    seqs: list[int]
    stamps: list[int]
    keys: list[bytes | None]
    tags: list[str | None]
    nodes: list[str | None]
    metas: list[bytes | None]
    data: list[bytes]


class BlockSlice:
    """Rows first to next of a block, or only the chosen ones of them."""

    __slots__ = ("_chosen", "_first", "_next", "block")

    def __init__(
        self, source: Block | Zone, first: int, following: int, chosen: np.ndarray | None
    ) -> None:
        self.block = source
        self._first = first
        self._next = following
        self._chosen = chosen

    def __len__(self) -> int:
        return self._next - self._first if self._chosen is None else len(self._chosen)

    def cut(self, array: pa.Array) -> pa.Array:
        if self._chosen is not None:
            return array.take(pa.array(self._chosen))
        return array.slice(self._first, self._next - self._first)

    def seqs(self) -> np.ndarray:
        if self._chosen is not None:
            return self._chosen.astype("<u8") + np.uint64(self.block.first_seq)
        return np.arange(
            self.block.first_seq + self._first, self.block.first_seq + self._next, dtype="<u8"
        )

    def stamps(self) -> np.ndarray:
        stamps = self.block.stamps()
        return stamps[self._first : self._next] if self._chosen is None else stamps[self._chosen]

    def field(self, column: int) -> pa.Array | None:
        array = self.block.column(column)
        return None if array is None else self.cut(array)

    def data(self) -> pa.Array:
        return self.cut(self.block.data())

    def records(self) -> list[Record]:
        data = self.data().to_pylist()
        lists = []
        for column in _FIELDS:
            array = self.field(column)
            lists.append([None] * len(data) if array is None else array.to_pylist())
        seqs, stamps = self.seqs().tolist(), self.stamps().tolist()
        return [
            Record(seq=seq, ts=ts, data=payload, key=key, tag=tag, node=node, meta=meta)
            for seq, ts, payload, key, tag, node, meta in zip(
                seqs, stamps, data, *lists, strict=True
            )
        ]


class RowSlice:
    """Rows of single frames, as columns."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def seqs(self) -> np.ndarray:
        return np.array([row[0] for row in self._rows], "<u8")

    def stamps(self) -> np.ndarray:
        return np.array([row[1] for row in self._rows], "<i8")

    def field(self, column: int) -> pa.Array | None:
        place = _FIELDS.index(column)
        values = [row[2][place] for row in self._rows]
        if not any(value is not None for value in values):
            return None
        return pa.array(values, pa.binary()).cast(SCHEMA.types[2 + place])

    def data(self) -> pa.Array:
        return pa.array([row[3] for row in self._rows], pa.binary())


class Page:
    """The records after a cursor, and the cursor after them.

    ``next`` is the cursor for the following read, ``caught_up`` the only sign that there are no
    more records, ``tombstone`` the report of records lost before the first one of the page.
    """

    __slots__ = ("_parts", "_records", "epoch", "head_seq", "next", "tombstone")

    def __init__(
        self,
        parts: list[BlockSlice | list[Row]],
        *,
        following: int,
        head_seq: int,
        epoch: int,
        tombstone: Tombstone | None,
    ) -> None:
        self._parts = parts
        self._records: list[Record] | None = None
        self.next = following
        self.head_seq = head_seq
        self.epoch = epoch
        self.tombstone = tombstone

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    def __repr__(self) -> str:
        return f"Page({len(self)} records, next={self.next}, head_seq={self.head_seq})"

    @property
    def caught_up(self) -> bool:
        """Whether the page ends at the head: there are no more records now."""
        return self.next >= self.head_seq

    @property
    def records(self) -> list[Record]:
        if self._records is None:
            records: list[Record] = []
            for part in self._parts:
                records += part.records() if isinstance(part, BlockSlice) else map(_record, part)
            self._records = records
        return self._records

    @property
    def data(self) -> list[bytes]:
        """Only the payloads."""
        data: list[bytes] = []
        for part in self._parts:
            if isinstance(part, BlockSlice):
                data += part.data().to_pylist()
            else:
                data += [row[3] for row in part]
        return data

    def columns(self) -> PageColumns:
        """The page as lists, one for each field."""
        seqs: list[int] = []
        stamps: list[int] = []
        fields: tuple[list[Any], ...] = ([], [], [], [])
        data: list[bytes] = []
        for part in self._parts:
            rows = part if isinstance(part, BlockSlice) else RowSlice(part)
            seqs += rows.seqs().tolist()
            stamps += rows.stamps().tolist()
            data += rows.data().to_pylist()
            for column, values in zip(_FIELDS, fields, strict=True):
                array = rows.field(column)
                values.extend([None] * len(rows) if array is None else array.to_pylist())
        return PageColumns(seqs, stamps, fields[0], fields[1], fields[2], fields[3], data)

    def arrow(self) -> pa.Table:
        """The page as columns: seq, ts, key, tag, node, meta, data."""
        return table_of(
            [part if isinstance(part, BlockSlice) else RowSlice(part) for part in self._parts]
        )


def table_of(slices: Sequence[BlockSlice | RowSlice]) -> pa.Table:
    """The rows of these slices as columns, payloads not copied."""
    if not slices:
        return SCHEMA.empty_table()
    columns: list[pa.Array | pa.ChunkedArray] = [
        _fixed(SCHEMA.types[0], _joined([part.seqs() for part in slices])),
        _fixed(SCHEMA.types[1], _joined([part.stamps() for part in slices])),
    ]
    for field, kind in zip(_FIELDS, SCHEMA.types[2:6], strict=True):
        columns.append(_field_of_all(slices, field, kind))
    columns.append(pa.chunked_array([part.data() for part in slices]))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _record(row: Row) -> Record:
    seq, ts, (key, tag, node, meta), data = row
    return Record(
        seq=seq,
        ts=ts,
        data=data,
        key=key,
        tag=None if tag is None else tag.decode(),
        node=None if node is None else node.decode(),
        meta=meta,
    )


def _fixed(kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """An Arrow array that shares the memory of eight-byte numbers."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer])


@functools.lru_cache(maxsize=64)
def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _field_of_all(
    slices: Sequence[BlockSlice | RowSlice], field: int, kind: pa.DataType
) -> pa.Array | pa.ChunkedArray:
    """A column over all slices; most have none of the optional fields."""
    arrays = [part.field(field) for part in slices]
    if all(array is None for array in arrays):
        return _nulls(kind, sum(map(len, slices)))
    return pa.chunked_array(
        _nulls(kind, len(part)) if array is None else array
        for array, part in zip(arrays, slices, strict=True)
    )
