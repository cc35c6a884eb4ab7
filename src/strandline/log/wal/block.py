"""A batch of one topic <-> bytes: the same block in the WAL and in segments. Pure.

    offset  size  field
    0       8     checksum: xxh3-64 of every later byte, seeded with the store
    8       4     size of the whole block, a multiple of 8
    12      1     kind: 1 records, 2 control (docs/format/wal.md lists the control messages)
    13      1     columns present: 1 key, 2 tag, 4 node, 8 meta, 16 ts, 32 idempotency key
    14      2     zero
    16      8     topic id
    24      8     first seq
    32      4     count of records
    36      4     payload bytes: data, key, tag, node and meta together
    40      8     ts in microseconds (the largest of the block when there is a ts column)
    48      ...   columns, each padded to 8 bytes

A column is in Arrow's layout, so that it becomes an Arrow array without a copy: int32 offsets
(count + 1), then the bytes of all values; all but ``data`` begin with a validity bitmap. ``ts``
is int64 per record. The idempotency key is a u64 size and the bytes. A control block has no
columns: its payload is one MessagePack message.

The checksum covers the identity (topic, first seq, count) with the content, so a block in the wrong
place is found like a damaged one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64, xxh3_64_intdigest

from strandline import records
from strandline.errors import Invalid
from strandline.platform.disk import Buffer

HEADER_SIZE = 48
RECORDS = 1
CONTROL = 2

KEY, TAG, NODE, META = records.KEY, records.TAG, records.NODE, records.META
TS, IDEMPOTENCY = 16, 32

_CHECKSUM = struct.Struct("<Q")
_REST = struct.Struct("<IBBHQQIIq")
HEADER = struct.Struct("<QIBBHQQIIq")
_PADS = tuple(bytes(-size % 8) for size in range(8))
_TEXT_COLUMNS = ((KEY, pa.binary()), (TAG, pa.string()), (NODE, pa.string()), (META, pa.binary()))
_DATA_COLUMN = (0, pa.binary())
_BYTES_MAX = 2**31 - 1

# With its first array pyarrow imports pandas where that is installed: do that here, not in the
# middle of an append, which the import would delay and may fail.
pa.array([b""])


class Draft:
    """The columns of a block before its place in the log is known. Built outside every lock."""

    __slots__ = ("buffers", "columns", "count", "longest_last", "payload_size", "size")

    def __init__(self, data: pa.Array) -> None:
        if data.null_count:
            raise Invalid("every record has data: use b'' for an empty one")
        self.count = len(data)
        self.columns = 0
        self.payload_size = 0
        self.size = HEADER_SIZE
        self.longest_last = 0
        """The longest value of the column that was added last."""
        self.buffers: list[Buffer] = []
        self._add_array(data)

    def add(self, column: int, values: object) -> None:
        """Add a column (one value for all, one each, or None), in the order of the bits."""
        self.longest_last = 0
        if values is None:
            return
        self.columns |= column
        kind = dict(_TEXT_COLUMNS)[column]
        if isinstance(values, (bytes, str)):
            self._add_repeated(values.encode() if isinstance(values, str) else values)
            return
        array = values if isinstance(values, pa.Array) else _array(values, kind)
        self._append(_validity(array))
        self._add_array(array)

    def add_ts(self, stamps: np.ndarray) -> None:
        self.columns |= TS
        self._append(_bytes_of(np.ascontiguousarray(stamps, dtype="<i8")))

    def add_idempotency(self, key: bytes) -> None:
        self.columns |= IDEMPOTENCY
        self._append(_CHECKSUM.pack(len(key)) + key)

    def finish(self, seed: int, topic_id: int, first_seq: int, ts: int) -> tuple[bytes, int]:
        """The header for this place in the log, and the checksum in it."""
        rest = _REST.pack(
            self.size,
            RECORDS,
            self.columns,
            0,
            topic_id,
            first_seq,
            self.count,
            self.payload_size,
            ts,
        )
        hasher = xxh3_64(rest, seed)
        for buffer in self.buffers:
            hasher.update(buffer)
        checksum = hasher.intdigest()
        return _CHECKSUM.pack(checksum) + rest, checksum

    def _add_array(self, array: pa.Array) -> None:
        _, offsets, values = array.buffers()
        count = len(array)
        ends = np.frombuffer(offsets, dtype="<i4", count=count + 1) if count else np.zeros(1, "<i4")
        size = int(ends[-1])
        self.longest_last = int((ends[1:] - ends[:-1]).max()) if count else 0
        self._append(_bytes_of(ends))
        self._append(memoryview(values)[:size] if size else b"")
        self.payload_size += size

    def _add_repeated(self, value: bytes) -> None:
        size = self.longest_last = len(value)
        ends = np.arange(0, size * self.count + 1, size or 1, dtype="<i4")
        if not size:
            ends = np.zeros(self.count + 1, dtype="<i4")
        self._append(_all_valid(self.count))
        self._append(_bytes_of(ends))
        self._append(value * self.count)
        self.payload_size += size * self.count

    def _append(self, buffer: Buffer) -> None:
        size = len(buffer)
        self.buffers.append(buffer)
        if pad := _PADS[size % 8]:
            self.buffers.append(pad)
        self.size += size + len(pad)


def draft(data: Sequence[bytes]) -> Draft:
    """A draft of these payloads, with no other column yet."""
    return Draft(_array(data, pa.binary()))


def draft_arrow(data: pa.Array) -> Draft:
    """A draft of a binary Arrow array, without copying its bytes."""
    return Draft(plain_binary(data))


def plain_binary(array: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """The array as 32-bit binary that begins at its buffers' first byte."""
    kind = kind or pa.binary()
    if array.type != kind:
        array = array.cast(kind)
    if array.offset == 0 and (len(array) == 0 or _first_offset(array) == 0):
        return array
    return pa.concat_arrays([array.slice(0, 0), array])


def control(seed: int, topic_id: int, ts: int, payload: bytes) -> tuple[bytes, int]:
    """A whole control block, and its checksum."""
    body = payload + _PADS[len(payload) % 8]
    size = HEADER_SIZE + len(body)
    rest = _REST.pack(size, CONTROL, 0, 0, topic_id, 0, 0, len(payload), ts) + body
    checksum = xxh3_64_intdigest(rest, seed)
    return _CHECKSUM.pack(checksum) + rest, checksum


class Block:
    """A verified block, read in place. Immutable; safe from many threads."""

    __slots__ = ("_view", "columns", "count", "first_seq", "kind", "payload_size", "topic_id", "ts")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        (_, _, self.kind, self.columns, _, self.topic_id, self.first_seq, self.count, size, ts) = (
            HEADER.unpack_from(view)
        )
        self.payload_size: int = size
        self.ts: int = ts

    @property
    def last_seq(self) -> int:
        return int(self.first_seq + self.count - 1)

    @property
    def size(self) -> int:
        """Bytes of memory that the block takes."""
        return len(self._view)

    def raw(self) -> memoryview:
        """The bytes of the block, unchanged."""
        return self._view

    def control_payload(self) -> bytes:
        return bytes(self._view[HEADER_SIZE : HEADER_SIZE + self.payload_size])

    def data(self) -> pa.Array:
        """The payloads as a binary array that shares the block's bytes."""
        return self._array(pa.binary(), HEADER_SIZE, with_validity=False)[0]

    def column(self, wanted: int) -> pa.Array | None:
        """An optional column, or None when the block has none of it."""
        if not self.columns & wanted:
            return None
        offset = self._array(pa.binary(), HEADER_SIZE, with_validity=False)[1]
        for column, kind in _TEXT_COLUMNS:
            if self.columns & column:
                array, offset = self._array(kind, offset, with_validity=True)
                if column == wanted:
                    return array
        if wanted == TS:
            return pa.Array.from_buffers(
                pa.int64(), self.count, [None, pa.py_buffer(self._view[offset:])]
            )
        raise AssertionError("only text columns and ts are arrays")

    def stamps(self) -> np.ndarray:
        """The ts of every record."""
        column = self.column(TS)
        if column is None:
            return np.full(self.count, self.ts, dtype="<i8")
        return np.asarray(column.to_numpy(zero_copy_only=True))

    def idempotency_key(self) -> bytes | None:
        if not self.columns & IDEMPOTENCY:
            return None
        offset = self._array(pa.binary(), HEADER_SIZE, with_validity=False)[1]
        for column, kind in _TEXT_COLUMNS:
            if self.columns & column:
                offset = self._array(kind, offset, with_validity=True)[1]
        if self.columns & TS:
            offset += 8 * self.count
        (size,) = _CHECKSUM.unpack_from(self._view, offset)
        return bytes(self._view[offset + 8 : offset + 8 + size])

    def sizes(self) -> np.ndarray:
        """Payload bytes of every record, over all its columns."""
        total = _lengths(self.data())
        for column, _ in _TEXT_COLUMNS:
            array = self.column(column)
            if array is not None:
                total = total + _lengths(array)
        return total

    def payload_at(self, rows: Sequence[int]) -> int:
        """Payload bytes of a few records, without reading the others."""
        total, offset = 0, HEADER_SIZE
        validity_size = (self.count + 7) // 8
        ends_size = 4 * (self.count + 1)
        for column, _ in (_DATA_COLUMN, *_TEXT_COLUMNS):
            if column and not self.columns & column:
                continue
            if column:
                offset += validity_size + -validity_size % 8
            ends = self._view[offset : offset + ends_size].cast("i")
            total += sum([ends[row + 1] - ends[row] for row in rows])
            offset += ends_size + -ends_size % 8 + ends[-1] + -ends[-1] % 8
        return total

    def _array(
        self, kind: pa.DataType, offset: int, *, with_validity: bool
    ) -> tuple[pa.Array, int]:
        count = self.count
        validity = None
        if with_validity:
            size = (count + 7) // 8
            validity = pa.py_buffer(self._view[offset : offset + size])
            offset += size + -size % 8
        ends_size = 4 * (count + 1)
        ends = self._view[offset : offset + ends_size]
        offset += ends_size + -ends_size % 8
        size = int.from_bytes(ends[-4:], "little")
        buffers = [validity, pa.py_buffer(ends), pa.py_buffer(self._view[offset : offset + size])]
        array = pa.Array.from_buffers(kind, count, buffers)
        return array, offset + size + -size % 8


def verify(view: Buffer, seed: int) -> bool:
    """Whether these bytes begin with a block that is whole and undamaged."""
    if len(view) < HEADER_SIZE:
        return False
    checksum, size = struct.unpack_from("<QI", view)
    if size < HEADER_SIZE or size % 8 or size > len(view):
        return False
    return bool(xxh3_64_intdigest(memoryview(view)[8:size], seed) == checksum)


def _bytes_of(array: np.ndarray) -> memoryview:
    return memoryview(array.data).cast("B")


def _array(values: object, kind: pa.DataType) -> pa.Array:
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, UnicodeError) as error:
        raise Invalid(f"records are bytes, tags and nodes are text: {error}") from error
    if isinstance(array, pa.ChunkedArray):
        raise Invalid("a batch holds at most 2 GiB of one column: split it")
    return array


def _first_offset(array: pa.Array) -> int:
    return int.from_bytes(memoryview(array.buffers()[1])[:4], "little")


def _lengths(array: pa.Array) -> np.ndarray:
    ends = np.frombuffer(array.buffers()[1], dtype="<i4", count=len(array) + 1)
    return np.diff(ends).astype("<i8")


def _validity(array: pa.Array) -> Buffer:
    bitmap = array.buffers()[0]
    if bitmap is None:
        return _all_valid(len(array))
    return memoryview(bitmap)[: (len(array) + 7) // 8]


def _all_valid(count: int) -> bytes:
    return b"\xff" * ((count + 7) // 8)
