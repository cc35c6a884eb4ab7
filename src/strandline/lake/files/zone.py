"""A zone of a lake file in memory: the same interface as a block of the log, on Arrow columns.

A zone has a slot for every seq it covers. A seq without a row (the record was deleted before the
file was written, or never existed) is a hole: empty data, no fields, the stamp of the row before
it. Without holes the columns are the decoded ones, not copies.
"""

from __future__ import annotations

from array import array

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.lake.files.record_columns import FIELDS

_PAYLOAD = (*FIELDS.values(), "data")


class Zone:
    """Verified rows between two seqs. Immutable; safe from many threads.

    A zone that was read with a choice of columns has only those: sizes count them alone.
    """

    __slots__ = ("_columns", "_holes", "_stamps", "count", "first_seq", "rows", "size", "topic_id")

    def __init__(
        self, rows: pa.Table, *, topic_id: int, first_seq: int, last_seq: int, ts: int
    ) -> None:
        """``ts`` is the stamp of holes that have no row before them."""
        self.topic_id = topic_id
        self.first_seq = first_seq
        self.count = last_seq - first_seq + 1
        self.rows = rows.combine_chunks()
        """The rows without holes, with all columns that were read."""
        self._stamps: np.ndarray = _only_chunk(self.rows, "ts").view(pa.int64()).to_numpy()
        self._holes: BitMap64 | None = None
        names = [name for name in _PAYLOAD if name in rows.schema.names]
        self._columns = {name: _only_chunk(self.rows, name) for name in names}
        self.size: int = self.rows.get_total_buffer_size()
        """Bytes of memory that the zone uses."""
        if len(rows) < self.count:
            self._make_dense(ts)

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.count - 1

    @property
    def payload_size(self) -> int:
        return sum(map(_payload_size, self._columns.values()))

    def holes(self) -> BitMap64 | None:
        """The seqs that have no record, None when all have one."""
        return self._holes

    def data(self) -> pa.Array:
        return self._columns["data"]

    def column(self, field: int) -> pa.Array | None:
        """An optional column, or None when no record of the zone has a value there."""
        values = self._columns[FIELDS[field]]
        return None if values.null_count == len(values) else values

    def stamps(self) -> np.ndarray:
        """The ts of every slot."""
        return self._stamps

    def sizes(self) -> np.ndarray:
        """Payload bytes of every slot, over all its columns."""
        total = np.zeros(self.count, dtype="<i8")
        for values in self._columns.values():
            if values.null_count < len(values):
                total += pc.fill_null(pc.binary_length(values), 0).to_numpy()
        return total

    def _make_dense(self, ts: int) -> None:
        seqs = _only_chunk(self.rows, "seq").to_numpy()
        row_of = np.full(self.count, -1, dtype="<i8")
        row_of[(seqs - np.uint64(self.first_seq)).astype("<i8")] = np.arange(len(seqs))
        self._holes = BitMap64(range(self.first_seq, self.last_seq + 1)) - _bitmap(seqs)
        # One more stamp at the end, which index -1 selects.
        stamps = np.append(self._stamps, ts)
        self._stamps = stamps[np.maximum.accumulate(row_of)]
        indices = pa.array(row_of, mask=row_of < 0)
        for name, values in self._columns.items():
            spread = values.take(indices)
            self._columns[name] = spread.fill_null(b"") if name == "data" else spread
        self.size += self._stamps.nbytes
        self.size += sum(values.get_total_buffer_size() for values in self._columns.values())


def _bitmap(seqs: np.ndarray) -> BitMap64:
    return BitMap64(array("Q", seqs.tobytes()))  # avoids a Python int per seq


def _only_chunk(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    assert column.num_chunks <= 1, "a zone is far below the 2 GiB that one array holds"
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _payload_size(values: pa.Array) -> int:
    if not len(values):
        return 0
    ends = np.frombuffer(values.buffers()[1], dtype="<i4")
    return int(ends[values.offset + len(values)] - ends[values.offset])
