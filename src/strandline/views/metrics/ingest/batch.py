"""Points of one write <-> the data of a record. Pure.

Points of one write with the same fields are stored in a table: rows of (series, at), and one dense
column for each field. A record's data is a list of tables as MessagePack, each an array::

    measurement  str
    fields       [[name, kind], ...]
    series       one byte for the encoding: 0 plain, 1 a zstd frame; then canonical tags (names.py),
                 each once, with 0x01 between them
    count        number of rows
    rows         the index of each row's series, packed (views/metrics/storage/column_codec.py);
                 empty if all rows have the same series, or each row its own
    at           nanoseconds since 1970, packed
    columns      one for each field, packed
    order        each row's index in the write, packed; empty if no other table has equal points

Of two points with the same series, field and time, the later counts. Rows of one table are in
order. Two tables of one measurement may have equal points, so they store the order of their rows.

Every record is independent of others. It has the tags of its series, not a number that another
record assigned: so the removal of other records does not change its meaning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from strandline.errors import Corrupt
from strandline.views.metrics.names import BETWEEN_SERIES
from strandline.views.metrics.storage.column_codec import pack, pack_one, unpack, unpack_one
from strandline.views.metrics.value_types import Ints, ValueKind

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TABLE_BYTES_MAX = 256 * 1024
"""The approximate maximal size of a table before it is packed: limits the size of records."""

_PLAIN, _ZSTD = b"\x00", b"\x01"
_ZSTD_BYTES_MIN = 256
_SERIES_BYTES_MAX = 64 * 1024 * 1024


class PointTable(NamedTuple):
    """Rows of one measurement with the same fields."""

    measurement: str
    fields: tuple[tuple[str, ValueKind], ...]
    series: Sequence[bytes]
    rows: Ints | None
    """The index of each row's series. None: all rows have one series, or each its own."""
    at: Ints
    columns: Sequence[Ints]
    order: Ints | None = None

    @property
    def points(self) -> int:
        return len(self.at) * len(self.fields)


class PointRow(NamedTuple):
    """A single row: most writes have only one, for which columns would cost too much."""

    measurement: str
    fields: tuple[tuple[str, ValueKind], ...]
    series: bytes
    at: int
    bits: tuple[int, ...]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    measurement: str
    fields: Sequence[tuple[str, ValueKind]]
    series: bytes
    count: int
    rows: bytes
    at: bytes
    columns: list[bytes]
    order: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Stored])


def encode(tables: Sequence[PointTable]) -> bytes:
    """Tables as the data of one record."""
    return _ENCODER.encode([_stored(table) for table in tables])


def encode_row(row: PointRow) -> bytes:
    """One row as the data of a record."""
    stored = _Stored(
        measurement=row.measurement,
        fields=row.fields,
        series=_PLAIN + row.series,
        count=1,
        rows=b"",
        at=pack_one(row.at),
        columns=[pack_one(bits) for bits in row.bits],
        order=b"",
    )
    return _ENCODER.encode((stored,))


def decode(data: bytes) -> list[PointTable] | PointRow:
    """The tables, or the single row; raises Corrupt for other bytes."""
    try:
        tables = _DECODER.decode(data)
        if len(tables) == 1 and tables[0].count == 1:
            row = _row(tables[0])
            if row is not None:
                return row
        return [_table(stored) for stored in tables]
    except (msgspec.DecodeError, ValueError, zstd.ZstdError) as error:
        raise Corrupt(f"points cannot be read ({error})", path="a record") from error


def table_of(row: PointRow) -> PointTable:
    """A row as a table."""
    at = np.array([row.at], dtype="<i8")
    columns = [np.array([bits], dtype="<i8") for bits in row.bits]
    return PointTable(row.measurement, row.fields, [row.series], None, at, columns)


def split_table(table: PointTable) -> Iterator[PointTable]:
    """The same rows as tables that fit in a record."""
    row_bytes = 16 + 8 * len(table.fields)
    if table.rows is None and len(table.series) > 1:
        row_bytes += 2 + sum(map(len, table.series)) // len(table.series)
    step = max(1, TABLE_BYTES_MAX // row_bytes)
    if len(table.at) <= step and sum(map(len, table.series)) <= TABLE_BYTES_MAX:
        yield table
        return
    if table.rows is not None:  # the number of series of a part is not known here
        step = max(1, min(step, TABLE_BYTES_MAX // (row_bytes + max(map(len, table.series)))))
    for first in range(0, len(table.at), step):
        yield with_rows(table, np.arange(first, min(first + step, len(table.at))))


def with_rows(table: PointTable, indices: Ints) -> PointTable:
    """Some rows of a table, with their series."""
    series, rows = table.series, table.rows
    if rows is not None:
        used, rows = np.unique(rows[indices], return_inverse=True)
        series = [series[index] for index in used.tolist()]
        rows = None if len(series) == 1 else rows.astype("<i8")
    elif len(series) > 1:
        series = [series[index] for index in indices.tolist()]
    return table._replace(
        series=series,
        rows=rows,
        at=table.at[indices],
        columns=[column[indices] for column in table.columns],
        order=None if table.order is None else table.order[indices],
    )


def _stored(table: PointTable) -> _Stored:
    joined = BETWEEN_SERIES.join(table.series)
    short = len(joined) < _ZSTD_BYTES_MIN
    return _Stored(
        measurement=table.measurement,
        fields=table.fields,
        series=_PLAIN + joined if short else _ZSTD + zstd.compress(joined, 1),
        count=len(table.at),
        rows=b"" if table.rows is None else pack(table.rows, ValueKind.INT),
        at=pack(table.at, ValueKind.INT),
        columns=[
            pack(column, kind)
            for (_, kind), column in zip(table.fields, table.columns, strict=True)
        ],
        order=b"" if table.order is None else pack(table.order, ValueKind.INT),
    )


def _row(stored: _Stored) -> PointRow | None:
    at, *bits = map(unpack_one, (stored.at, *stored.columns))
    if at is None or None in bits or stored.rows or stored.series[:1] != _PLAIN:
        return None
    if len(bits) != len(stored.fields) or BETWEEN_SERIES in stored.series:
        return None
    values = tuple(number for number in bits if number is not None)
    return PointRow(stored.measurement, tuple(stored.fields), stored.series[1:], at, values)


def _table(stored: _Stored) -> PointTable:
    count, fields = stored.count, tuple(stored.fields)
    series = _series(stored.series)
    rows = unpack(stored.rows, count, ValueKind.INT) if stored.rows else None
    if rows is None:
        fits = len(series) in (1, count)
    else:
        fits = not count or (int(rows.min()) >= 0 and int(rows.max()) < len(series))
    if not fits or len(stored.columns) != len(fields):
        raise Corrupt("rows do not fit to their series or fields", path="a record")
    return PointTable(
        measurement=stored.measurement,
        fields=fields,
        series=series,
        rows=rows,
        at=unpack(stored.at, count, ValueKind.INT),
        columns=[
            unpack(column, count, kind)
            for (_, kind), column in zip(fields, stored.columns, strict=True)
        ],
        order=unpack(stored.order, count, ValueKind.INT) if stored.order else None,
    )


def _series(packed: bytes) -> list[bytes]:
    joined = packed[1:]
    if packed[:1] == _ZSTD:
        decompressor = zstd.ZstdDecompressor()
        joined = decompressor.decompress(joined, _SERIES_BYTES_MAX)
    elif packed[:1] != _PLAIN:
        raise Corrupt("series are neither plain nor zstd", path="a record")
    return joined.split(BETWEEN_SERIES)
