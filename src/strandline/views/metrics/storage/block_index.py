"""The index of blocks: an ordered map of entries, which can be read in place of the blocks.

    key      run, field, series of the first point: 4 bytes each; its time, 8 bytes; big-endian, the
             time with its sign bit inverted, so that keys are in the order of points
    value    ENTRY: the page of the block, its range, and for a block of one series the aggregates
             of its points

A run is points that were sorted together (runs.py): blocks of a run do not overlap in the order of
(series, time), so only the block before those of a series may have points of it, too. The numbers
of an entry are bits of the field's kind (views/metrics/value_types.py). For a block of several
series, or if a sum of integers may not fit, EXACT is not set, and the points have to be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.metrics.storage.block import FieldPoints
from strandline.views.metrics.value_types import ValueKind, numbers, to_bits

ENTRY = np.dtype(
    [
        ("series", "<u4"),
        ("last_series", "<u4"),
        ("count", "<u4"),
        ("flags", "<u4"),
        ("page", "<u8"),
        ("min_at", "<i8"),
        ("max_at", "<i8"),
        ("low", "<i8"),
        ("high", "<i8"),
        ("first", "<i8"),
        ("last", "<i8"),
        ("total", "<i8"),
    ]
)
EXACT = 1
SERIES_NEXT_MAX = 1 << 32

Entries = NDArray[Any]
"""Rows of ENTRY."""

_KEY = struct.Struct(">IIIQ")
_PREFIX = struct.Struct(">II")
_AT_SIGN = 1 << 63
_SUM_MAX = 2.0**62


def entry_of(points: FieldPoints, kind: ValueKind, page: int) -> Entries:
    """The entry of a block, as an array of one row."""
    with np.errstate(over="ignore"):  # a sum of floats may become infinite
        return _entry_of(points, kind, page)


def _entry_of(points: FieldPoints, kind: ValueKind, page: int) -> Entries:
    entry = np.zeros(1, dtype=ENTRY)
    row = entry[0]
    row["series"], row["last_series"] = points.series[0], points.series[-1]
    row["count"], row["page"] = len(points.at), page
    row["min_at"], row["max_at"] = points.at.min(), points.at.max()
    values = numbers(points.bits, kind)
    if points.series[0] == points.series[-1]:
        bounds = to_bits(np.array([values.min(), values.max()]), _stored_kind(kind))
        row["low"], row["high"] = bounds
        row["first"], row["last"] = points.bits[0], points.bits[-1]
        if kind is ValueKind.FLOAT:
            row["total"] = to_bits(np.array([values.sum()]), kind)[0]
            row["flags"] = EXACT
        elif float(np.abs(values.astype("<f8")).sum()) < _SUM_MAX:
            row["total"] = values.sum()
            row["flags"] = EXACT
    return entry


def joined_entries(parts: Sequence[Entries]) -> Entries:
    """The concatenation of parts, as bytes, since numpy would copy field by field."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        return filled[0]
    return np.frombuffer(b"".join(part.tobytes() for part in filled), dtype=ENTRY)


class BlockIndex:
    """The entries of all runs. Owned by one thread."""

    def __init__(self, entries: PagedMap) -> None:
        self.map = entries

    def put(self, run: int, field: int, at: int, entry: Entries) -> None:
        """Add the entry of a block whose first point has this time."""
        self.map.put(_key(run, field, int(entry["series"][0]), at), entry.tobytes())

    def find(self, run: int, field: int, first_series: int, next_series: int) -> Entries:
        """Entries of all blocks that may have points of these series, in order."""
        values = [value for _, value in self.scan(run, field, first_series, next_series)]
        entries = np.frombuffer(b"".join(values), dtype=ENTRY)
        if len(entries) and int(entries["last_series"][0]) < first_series:
            return entries[1:]
        return entries

    def find_one(self, run: int, field: int, series: int, first: int, until: int) -> Entries:
        """Entries of the blocks that may have points of one series between two times."""
        prefix = _PREFIX.pack(run, field)
        start, end = _key(run, field, series, first), _key(run, field, series, until)
        before = next(self.map.range(prefix, start, reverse=True), None)
        values = [] if before is None else [before[1]]
        values += [value for _, value in self.map.range(start, end)]
        entries = np.frombuffer(b"".join(values), dtype=ENTRY)
        return entries[entries["last_series"] >= series]

    def scan(
        self, run: int, field: int, first_series: int, next_series: int = SERIES_NEXT_MAX
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys and entries from the block before these series on, which may overlap them."""
        prefix = _PREFIX.pack(run, field)
        first = _key(run, field, first_series, -_AT_SIGN)
        before = next(self.map.range(prefix, first, reverse=True), None)
        if before is not None:
            yield before
        until = (
            _key(run, field, next_series, -_AT_SIGN)
            if next_series < SERIES_NEXT_MAX
            else _PREFIX.pack(run, field + 1)
        )
        yield from self.map.range(first, until)

    def delete(self, run: int, field: int) -> Entries:
        """Delete all entries of a field in a run, and return them."""
        items = list(self.map.prefix(_PREFIX.pack(run, field)))
        for key, _ in items:
            self.map.delete(key)
        return np.frombuffer(b"".join(value for _, value in items), dtype=ENTRY)

    def delete_keys(self, keys: list[bytes]) -> None:
        for key in keys:
            self.map.delete(key)


def _stored_kind(kind: ValueKind) -> ValueKind:
    return ValueKind.FLOAT if kind is ValueKind.FLOAT else ValueKind.INT


def _key(run: int, field: int, series: int, at: int) -> bytes:
    return _KEY.pack(run, field, series, at + _AT_SIGN)
