"""Sets of zones, one for each of many numbered buckets, as one roaring bitmap. Pure.

A pair of a bucket and a zone is the number bucket * zones + zone. The pairs of consecutive buckets
are a run of these numbers, so the zones of a range of buckets are found by two searches.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from strandline.views.table.index.arrays import Array

Mask = NDArray[np.bool_]
"""For each zone, whether it may hold a matching row."""


class ZoneSets:
    """Sets of zones. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, zones: int) -> None:
        numbers = BitMap64.deserialize(data).to_array()
        self._numbers: NDArray[np.uint64] = np.frombuffer(numbers, "<u8")
        self._zone_of = (self._numbers % np.uint64(max(zones, 1))).astype("<i8")
        self._zones = zones
        self.ram = 16 * len(self._numbers)

    def within(self, first: int, after: int) -> Mask:
        """Zones in a bucket of a range, whose end is exclusive."""
        mask = np.zeros(self._zones, bool)
        if first < after:
            ends = np.array([max(first, 0), max(after, 0)], "<u8") * np.uint64(self._zones)
            start, stop = np.searchsorted(self._numbers, ends)
            mask[self._zone_of[start:stop]] = True
        return mask

    def sizes(self) -> NDArray[np.int64]:
        """The number of buckets that each zone is in."""
        return np.bincount(self._zone_of, minlength=self._zones)


def encode(buckets: NDArray[np.int64], zones: NDArray[np.int64], zone_count: int) -> Array:
    """The bytes of pairs, which may have duplicates."""
    numbers = (buckets * zone_count + zones).astype("<u8")
    bitmap = BitMap64(array("Q", numbers.tobytes()))
    bitmap.run_optimize()
    return np.frombuffer(bitmap.serialize(), "<u1")
