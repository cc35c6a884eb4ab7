"""Sets of zones, one for each of many numbered buckets, as one roaring bitmap. Pure.

A pair of a bucket and a zone is the number bucket * zones + zone. Buckets that follow each other
are a run of these numbers, so the zones of a whole range are found by two searches.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from strandline.views.table.index.arrays import Array

Mask = NDArray[np.bool_]
"""One for each zone: whether it may hold what is asked."""


class ZoneSets:
    """Sets of zones. Immutable; safe from many threads."""

    def __init__(self, data: bytes, zones: int) -> None:
        numbers = BitMap64.deserialize(data).to_array()
        self._numbers: NDArray[np.uint64] = np.frombuffer(numbers, "<u8")
        self._zone_of = (self._numbers % np.uint64(max(zones, 1))).astype("<i8")
        self._zones = zones
        self.ram = 16 * len(self._numbers)

    def within(self, first: int, after: int) -> Mask:
        """Zones that are in a bucket from the first on, and before the other."""
        found = np.zeros(self._zones, bool)
        if first < after:
            ends = np.array([max(first, 0), max(after, 0)], "<u8") * np.uint64(self._zones)
            begin, end = np.searchsorted(self._numbers, ends)
            found[self._zone_of[begin:end]] = True
        return found

    def sizes(self) -> NDArray[np.int64]:
        """In how many buckets each zone is."""
        return np.bincount(self._zone_of, minlength=self._zones)


def encode(buckets: NDArray[np.int64], zones: NDArray[np.int64], zone_count: int) -> Array:
    """The bytes of pairs; some may come twice."""
    numbers = (buckets * zone_count + zones).astype("<u8")
    bitmap = BitMap64(array("Q", numbers.tobytes()))
    bitmap.run_optimize()
    return np.frombuffer(bitmap.serialize(), "<u1")
