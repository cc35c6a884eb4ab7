"""Points of one write <-> the data of a record. Pure.

Points that came together and have the same fields stand in a table: rows of (series, at), and one
dense column for each field. A record's data is a list of tables as MessagePack, each an array::

    measurement  str
    fields       [[name, kind], ...]
    series       canonical tags (names.py), each once, 0x01 between them; behind one byte that says
                 how: 0 as they are, 1 as a zstd frame
    count        rows
    rows         the number of each row's series, packed (views/metrics/storage/column_codec.py);
                 empty when one series has all
                 rows, or every row its own
    at           nanoseconds since 1970, packed
    columns      one for each field, packed
    order        each row's place in the write, packed; empty when tables cannot meet

Of two points with the same series, field and time the later counts. Rows of one table are in order.
Two tables of one measurement may hold the same points, so they tell the order of their rows.

Every record can be read by itself. It names its series by their tags, not by a number that another
record has given: so whichever records have left the log, the others mean the same.
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
from strandline.views.metrics.value_types import Ints, Kind

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TABLE_BYTES_MAX = 256 * 1024
"""About as much one table has before it is packed: records stay below their limit."""

_PLAIN, _ZSTD = b"\x00", b"\x01"
_ZSTD_BYTES_MIN = 256
_SERIES_BYTES_MAX = 64 * 1024 * 1024


class Table(NamedTuple):
    """Rows of one measurement with the same fields."""

    measurement: str
    fields: tuple[tuple[str, Kind], ...]
    series: Sequence[bytes]
    rows: Ints | None
    """The series of each row, a place in ``series``. None: one has all, or each row its own."""
    at: Ints
    columns: Sequence[Ints]
    order: Ints | None = None

    @property
    def points(self) -> int:
        return len(self.at) * len(self.fields)


class Row(NamedTuple):
    """One row by itself: most writes are no more, and for one columns would cost too much."""

    measurement: str
    fields: tuple[tuple[str, Kind], ...]
    series: bytes
    at: int
    bits: tuple[int, ...]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    measurement: str
    fields: Sequence[tuple[str, Kind]]
    series: bytes
    count: int
    rows: bytes
    at: bytes
    columns: list[bytes]
    order: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Stored])


def encode(tables: Sequence[Table]) -> bytes:
    """Tables as the data of one record."""
    return _ENCODER.encode([_stored(table) for table in tables])


def encode_row(row: Row) -> bytes:
    """The same for one row."""
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


def decode(data: bytes) -> list[Table] | Row:
    """The tables again, or the row; Corrupt when it is not what was encoded."""
    try:
        found = _DECODER.decode(data)
        if len(found) == 1 and found[0].count == 1:
            row = _row(found[0])
            if row is not None:
                return row
        return [_table(stored) for stored in found]
    except (msgspec.DecodeError, ValueError, zstd.ZstdError) as error:
        raise Corrupt(f"points cannot be read ({error})", path="a record") from error


def table_of(row: Row) -> Table:
    """A row as a table."""
    at = np.array([row.at], dtype="<i8")
    columns = [np.array([bits], dtype="<i8") for bits in row.bits]
    return Table(row.measurement, row.fields, [row.series], None, at, columns)


def cut(table: Table) -> Iterator[Table]:
    """The same rows as tables that are not too large for a record."""
    row_bytes = 16 + 8 * len(table.fields)
    if table.rows is None and len(table.series) > 1:
        row_bytes += 2 + sum(map(len, table.series)) // len(table.series)
    step = max(1, TABLE_BYTES_MAX // row_bytes)
    if len(table.at) <= step and sum(map(len, table.series)) <= TABLE_BYTES_MAX:
        yield table
        return
    if table.rows is not None:  # how many series a part has cannot be known beforehand
        step = max(1, min(step, TABLE_BYTES_MAX // (row_bytes + max(map(len, table.series)))))
    for first in range(0, len(table.at), step):
        yield with_rows(table, np.arange(first, min(first + step, len(table.at))))


def with_rows(table: Table, places: Ints) -> Table:
    """Some rows of a table, with the series that they have."""
    series, rows = table.series, table.rows
    if rows is not None:
        used, rows = np.unique(rows[places], return_inverse=True)
        series = [series[place] for place in used.tolist()]
        rows = None if len(series) == 1 else rows.astype("<i8")
    elif len(series) > 1:
        series = [series[place] for place in places.tolist()]
    return table._replace(
        series=series,
        rows=rows,
        at=table.at[places],
        columns=[column[places] for column in table.columns],
        order=None if table.order is None else table.order[places],
    )


def _stored(table: Table) -> _Stored:
    joined = BETWEEN_SERIES.join(table.series)
    short = len(joined) < _ZSTD_BYTES_MIN
    return _Stored(
        measurement=table.measurement,
        fields=table.fields,
        series=_PLAIN + joined if short else _ZSTD + zstd.compress(joined, 1),
        count=len(table.at),
        rows=b"" if table.rows is None else pack(table.rows, Kind.INT),
        at=pack(table.at, Kind.INT),
        columns=[
            pack(column, kind)
            for (_, kind), column in zip(table.fields, table.columns, strict=True)
        ],
        order=b"" if table.order is None else pack(table.order, Kind.INT),
    )


def _row(stored: _Stored) -> Row | None:
    at, *bits = map(unpack_one, (stored.at, *stored.columns))
    if at is None or None in bits or stored.rows or stored.series[:1] != _PLAIN:
        return None
    if len(bits) != len(stored.fields) or BETWEEN_SERIES in stored.series:
        return None
    known = tuple(number for number in bits if number is not None)
    return Row(stored.measurement, tuple(stored.fields), stored.series[1:], at, known)


def _table(stored: _Stored) -> Table:
    count, fields = stored.count, tuple(stored.fields)
    series = _series(stored.series)
    rows = unpack(stored.rows, count, Kind.INT) if stored.rows else None
    if rows is None:
        whole = len(series) in (1, count)
    else:
        whole = not count or (int(rows.min()) >= 0 and int(rows.max()) < len(series))
    if not whole or len(stored.columns) != len(fields):
        raise Corrupt("rows do not fit to their series or fields", path="a record")
    return Table(
        measurement=stored.measurement,
        fields=fields,
        series=series,
        rows=rows,
        at=unpack(stored.at, count, Kind.INT),
        columns=[
            unpack(column, count, kind)
            for (_, kind), column in zip(fields, stored.columns, strict=True)
        ],
        order=unpack(stored.order, count, Kind.INT) if stored.order else None,
    )


def _series(packed: bytes) -> list[bytes]:
    joined = packed[1:]
    if packed[:1] == _ZSTD:
        unpacker = zstd.ZstdDecompressor()
        joined = unpacker.decompress(joined, _SERIES_BYTES_MAX)
    elif packed[:1] != _PLAIN:
        raise Corrupt("series are neither plain nor zstd", path="a record")
    return joined.split(BETWEEN_SERIES)
