"""Imprint index: which of 64 bins have values of a zone, one bit each, for numbers and times.

    arrays   the least value of each bin; the greatest of each; the bins of each zone u64, the
             lowest bit for the first bin

Bins are built for the whole file so that each has about the same number of rows. A bin reaches from
its least to its greatest value: a value between two bins is in no zone. A value that would fill
several bins alone has its own bin, and if a field has at most 64 values, each has its own.
"""

from __future__ import annotations

import numpy as np

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import NumberColumn, ZoneLayout
from strandline.views.table.index.predicate import Between, Key, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "imprint"

_BINS = 64
_SAMPLE_MAX = 1 << 16
_ALL = 2**64 - 1


def build(column: NumberColumn) -> bytes:
    edges = _edges(_sample(column))
    masks = np.zeros(len(column.present), "<u8")
    bins = len(edges) + 1 if column.present.any() else 0
    least = np.full(bins, column.sorted.max(initial=0), column.sorted.dtype)
    greatest = np.full(bins, column.sorted.min(initial=0), column.sorted.dtype)
    for zone, present in enumerate(column.present.tolist()):
        values = column.sorted[zone, :present]
        # A bin has the values from its edge up to the next edge, which is exclusive.
        positions = np.concatenate([[0], np.searchsorted(values, edges), [present]])
        used = np.flatnonzero(positions[:-1] < positions[1:])
        masks[zone] = sum(1 << each for each in used.tolist())
        least[used] = np.minimum(least[used], values[positions[used]])
        greatest[used] = np.maximum(greatest[used], values[positions[used + 1] - 1])
    return arrays.pack(least, greatest, masks)


class ImprintIndex:
    """Bins of the zones. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        self._least, self._greatest, self._masks = arrays.unpack(data)
        self.ram = len(data)

    def may(self, test: Test) -> Mask | None:
        """Zones with a value in a bin that the test overlaps; None if it is not supported."""
        match test:
            case OneOf(values):
                bins = self._bins_of(values)
            case Between():
                bins = self._bins_within(test)
            case _:
                return None
        zones: Mask = (self._masks & np.uint64(bins)) != 0
        return zones

    def _bins_of(self, values: tuple[Key, ...]) -> int:
        """The bins whose range has one of these values."""
        keys = np.array(values, self._least.dtype)
        first = np.searchsorted(self._greatest, keys, side="left")
        after = np.searchsorted(self._least, keys, side="right")
        return sum(1 << each for each in set(first[first < after].tolist()))

    def _bins_within(self, test: Between) -> int:
        """The bins that overlap a range."""
        first, after = 0, len(self._least)
        if test.low is not None:
            low = np.array(test.low, self._least.dtype)
            first = int(np.searchsorted(self._greatest, low, "right" if test.low_open else "left"))
        if test.high is not None:
            high = np.array(test.high, self._least.dtype)
            after = int(np.searchsorted(self._least, high, "left" if test.high_open else "right"))
        return (_ALL << first) & _ALL & ~(_ALL << after)


def _sample(column: NumberColumn) -> Array:
    """A sorted, evenly spaced sample of the values."""
    step = max(1, int(column.present.sum()) // _SAMPLE_MAX)
    positions = np.arange(column.sorted.shape[1])
    used = (positions % step == 0) & (positions < column.present[:, None])
    sample: Array = np.sort(column.sorted[used])
    return sample


def _edges(sample: Array) -> Array:
    """The lower edges of all bins except the first. No bin is empty, the first included."""
    if not len(sample):
        return sample
    values: Array = sample[np.append(True, sample[1:] != sample[:-1])]
    if len(values) <= _BINS:
        return values[1:]
    quantiles = sample[np.arange(1, _BINS) * len(sample) // _BINS]
    is_new = np.append(True, quantiles[1:] != quantiles[:-1])
    heavy = quantiles[1:][~is_new[1:]]
    # A repeated quantile frees an edge: it is used for the value after the heavy one.
    after_heavy = values[np.minimum(np.searchsorted(values, heavy, "right"), len(values) - 1)]
    candidates: Array = np.unique(np.append(quantiles[is_new], after_heavy))
    edges: Array = candidates[candidates > values[0]][: _BINS - 1]
    return edges
