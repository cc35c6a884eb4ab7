"""Meta of the records of a series <-> route, version, at. Pure.

    offset  size  field
    0       4     mark: 00 73 72 01
    4       1     route: 0 normal, 1 jitter, 2 late, 3 floor
    5       2     version of the payload
    7       8     at, signed: of the point, or the new floor

Little-endian. A record with a key and without the mark is plain: a point at its ts, of version 0. A
plain point before the newest of its source counts as late, since its record has no jitter window.
A record without key and mark is ignored.

Version and route of a point are stored as one number, its kind.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from strandline.views.view import FoldColumns

NORMAL, JITTER, LATE, FLOOR = range(4)
ROUTE_BITS = 2
ROUTE_MASK = 3
VERSION_MAX = (1 << 16) - 1
AT_MIN, AT_MAX = -(1 << 63), (1 << 63) - 1

_MARK = 0x01727300
_META = struct.Struct("<IBHq")
META_BYTES = _META.size
_COLUMNS = np.dtype([("mark", "<u4"), ("route", "u1"), ("version", "<u2"), ("at", "<i8")])
_COLUMNS_MIN = 16
"""From so many records on, columns are faster than single records."""


class Meta(NamedTuple):
    """The decoded meta of a record."""

    route: int
    version: int
    at: int


def encode(route: int, version: int, at: int) -> bytes:
    return _META.pack(_MARK, route, version, at)


def encode_many(routes: list[int], version: int, ats: list[int]) -> list[bytes]:
    """The metas of many points of one version."""
    columns = np.empty(len(ats), _COLUMNS)
    columns["mark"], columns["version"] = _MARK, version
    columns["route"], columns["at"] = routes, ats
    data, size = columns.tobytes(), _META.size
    return [data[first : first + size] for first in range(0, len(data), size)]


def decode(meta: bytes | None) -> Meta | None:
    """The decoded meta; None without the mark: the record is plain."""
    if meta is None or len(meta) != _META.size:
        return None
    mark, route, version, at = _META.unpack(meta)
    return Meta(route, version, at) if mark == _MARK and route <= FLOOR else None


def kind_of(route: int, version: int) -> int:
    return version << ROUTE_BITS | route


def version_of(kind: int) -> int:
    return kind >> ROUTE_BITS


class FloorRaise(NamedTuple):
    """A record that raises the floor."""

    seq: int
    at: int


PLAIN = -1
"""The kind of a plain point before it was compared with the newest of its source."""


class PointColumns(NamedTuple):
    """The points of some records, as columns, and the records that raise the floor."""

    seqs: Sequence[int]
    names: Sequence[bytes]
    ats: list[int]
    kinds: list[int]
    data: Sequence[bytes]
    floors: list[FloorRaise]


def single_point(rows: FoldColumns) -> tuple[int, bytes, int, int, bytes] | None:
    """Seq, name, at, kind and data of a single record; None if it is not a marked point."""
    name, meta = rows.keys[0], rows.metas[0]
    if name is None or meta is None or len(meta) != _META.size:
        return None
    mark, route, version, at = _META.unpack(meta)
    if mark != _MARK or route >= FLOOR:
        return None
    return rows.seqs[0], name, at, version << ROUTE_BITS | route, rows.data[0]


def points_of(rows: FoldColumns) -> PointColumns:
    if len(rows.seqs) >= _COLUMNS_MIN:
        columns = _columns(rows)
        if columns is not None:
            names = cast("Sequence[bytes]", rows.keys)  # every marked point has a key
            return PointColumns(rows.seqs, names, *columns, rows.data, [])
    return _one_by_one(rows)


def _columns(rows: FoldColumns) -> tuple[list[int], list[int]] | None:
    """Ats and kinds if all records are marked points, the common case."""
    metas = rows.metas
    if None in metas or None in rows.keys:
        return None
    marked = cast("Sequence[bytes]", metas)
    if set(map(len, marked)) != {_META.size}:
        return None
    columns = np.frombuffer(b"".join(marked), _COLUMNS)
    if (columns["mark"] != _MARK).any() or columns["route"].max() >= FLOOR:
        return None
    kinds = columns["version"].astype(np.int64) << ROUTE_BITS | columns["route"]
    return columns["at"].tolist(), kinds.tolist()


def _one_by_one(rows: FoldColumns) -> PointColumns:
    points: list[tuple[int, bytes, int, int, bytes]] = []
    floors = []
    for seq, ts, key, _, encoded, data in zip(*rows, strict=True):
        meta = decode(encoded)
        if meta is not None and meta.route == FLOOR:
            floors.append(FloorRaise(seq, meta.at))
        elif key is None:
            continue
        elif meta is None:
            points.append((seq, key, ts, PLAIN, data))
        else:
            kind = kind_of(meta.route, meta.version)
            points.append((seq, key, meta.at, kind, data))
    if not points:
        return PointColumns((), (), [], [], (), floors)
    seqs, names, ats, kinds, payloads = zip(*points, strict=True)
    return PointColumns(seqs, names, list(ats), list(kinds), payloads, floors)
