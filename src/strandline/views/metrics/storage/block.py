"""Points of one field <-> a page. Pure.

    offset  size  field
    0       1     1, the version of this layout
    1       1     kind of the values (views/metrics/value_types.py)
    2       2     0
    4       4     number of points
    8       4     number of series
    12      4     size of the series' numbers, packed (column_codec.py)
    16      4     size of their counts
    20      4     size of the times
    24      n     numbers of the series, in order, each once; empty in a block of one series
            n     counts: the number of points of each; empty in a block of one series
            n     times, nanoseconds since 1970
            n     bits of the values

Points are in the order of (series, at), without duplicates. A series with many points has separate
blocks; series with few share one. The index has the bounds of a block (block_index.py).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.errors import Corrupt
from strandline.views.metrics.storage.column_codec import pack, unpack
from strandline.views.metrics.value_types import Ints, ValueKind

_HEAD = struct.Struct("<BBHIIIII")
_VERSION = 1


class FieldPoints(NamedTuple):
    """Points of one field as columns of equal length."""

    series: Ints
    at: Ints
    bits: Ints

    def select(self, selector: Ints | NDArray[np.bool_] | slice) -> FieldPoints:
        """The points that indices, a mask or a slice select."""
        return FieldPoints(self.series[selector], self.at[selector], self.bits[selector])


def no_points() -> FieldPoints:
    empty = np.empty(0, dtype="<i8")
    return FieldPoints(empty, empty, empty)


def joined(parts: list[FieldPoints]) -> FieldPoints:
    """The concatenation of the parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_points()
    return FieldPoints(*map(np.concatenate, zip(*parts, strict=True)))


def encode(points: FieldPoints, kind: ValueKind, *, small: bool = False) -> bytes:
    """A page of points; ``small`` takes more time and less space."""
    series, counts, series_count = b"", b"", 1
    if points.series[0] != points.series[-1]:
        numbers, sizes = np.unique(points.series, return_counts=True)
        series, counts, series_count = (
            pack(numbers, ValueKind.INT),
            pack(sizes, ValueKind.INT),
            len(numbers),
        )
    at = pack(points.at, ValueKind.INT, small=small)
    sizes_of_parts = len(series), len(counts), len(at)
    head = _HEAD.pack(_VERSION, kind, 0, len(points.at), series_count, *sizes_of_parts)
    return b"".join((head, series, counts, at, pack(points.bits, kind, small=small)))


def decode(page: bytes, series: int) -> FieldPoints:
    """The points of a page; ``series`` is used for a block of one series."""
    try:
        version, kind, _, count, series_count, *sizes = _HEAD.unpack_from(page)
        if version != _VERSION:
            raise ValueError(f"version {version}")
        typed = ValueKind(kind)
    except (struct.error, ValueError) as error:
        raise Corrupt(f"not a block of points ({error})", path="a page") from error
    counts_start = _HEAD.size + sizes[0]
    at_start = counts_start + sizes[1]
    bits_start = at_start + sizes[2]
    if series_count == 1:
        numbers = np.full(count, series, dtype="<i8")
    else:
        each = unpack(page[counts_start:at_start], series_count, ValueKind.INT)
        if int(each.sum()) != count:
            raise Corrupt(f"{int(each.sum())} points in a block of {count}", path="a page")
        numbers = np.repeat(
            unpack(page[_HEAD.size : counts_start], series_count, ValueKind.INT), each
        )
    at = unpack(page[at_start:bits_start], count, ValueKind.INT)
    return FieldPoints(numbers, at, unpack(page[bits_start:], count, typed))
