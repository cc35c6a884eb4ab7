"""Which of 64 bins have values of a zone: one bit each, for fields of numbers and times.

    arrays   the least value of each bin; the greatest of each; the bins of each zone u64, the
             lowest bit for the first

Bins are made for the whole file so that each holds about as many rows, and reach from the least to
the greatest value that is in them: what is asked between two bins is nowhere. A value that would
fill several bins by itself has one of its own, and where a field has at most 64 values, each has.
"""

from __future__ import annotations

import numpy as np

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import Layout, Numbers
from strandline.views.table.index.predicate import Between, Key, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "imprint"

_BINS = 64
_SAMPLE_MAX = 1 << 16
_ALL = 2**64 - 1


def build(column: Numbers) -> bytes:
    edges = _edges(_sample(column))
    masks = np.zeros(len(column.present), "<u8")
    bins = len(edges) + 1 if column.present.any() else 0
    least = np.full(bins, column.sorted.max(initial=0), column.sorted.dtype)
    greatest = np.full(bins, column.sorted.min(initial=0), column.sorted.dtype)
    for zone, present in enumerate(column.present.tolist()):
        values = column.sorted[zone, :present]
        # A bin has the values from one edge on, and below the next.
        places = np.concatenate([[0], np.searchsorted(values, edges), [present]])
        there = np.flatnonzero(places[:-1] < places[1:])
        masks[zone] = sum(1 << each for each in there.tolist())
        least[there] = np.minimum(least[there], values[places[there]])
        greatest[there] = np.maximum(greatest[there], values[places[there + 1] - 1])
    return arrays.pack(least, greatest, masks)


class Imprint:
    """Bins of the zones. Immutable; safe from many threads."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        self._least, self._greatest, self._masks = arrays.unpack(data)
        self.ram = len(data)

    def may(self, test: Test) -> Mask | None:
        """Zones with a value in a bin that is asked for."""
        match test:
            case OneOf(values):
                wanted = self._of(values)
            case Between():
                wanted = self._range(test)
            case _:
                return None
        found: Mask = (self._masks & np.uint64(wanted)) != 0
        return found

    def _of(self, values: tuple[Key, ...]) -> int:
        """The bins that reach over these values."""
        keys = np.array(values, self._least.dtype)
        first = np.searchsorted(self._greatest, keys, side="left")
        after = np.searchsorted(self._least, keys, side="right")
        return sum(1 << each for each in set(first[first < after].tolist()))

    def _range(self, test: Between) -> int:
        """The bins that reach into a range."""
        first, after = 0, len(self._least)
        if test.low is not None:
            low = np.array(test.low, self._least.dtype)
            first = int(np.searchsorted(self._greatest, low, "right" if test.low_open else "left"))
        if test.high is not None:
            high = np.array(test.high, self._least.dtype)
            after = int(np.searchsorted(self._least, high, "left" if test.high_open else "right"))
        return (_ALL << first) & _ALL & ~(_ALL << after)


def _sample(column: Numbers) -> Array:
    """Values from everywhere, sorted."""
    step = max(1, int(column.present.sum()) // _SAMPLE_MAX)
    places = np.arange(column.sorted.shape[1])
    there = (places % step == 0) & (places < column.present[:, None])
    sample: Array = np.sort(column.sorted[there])
    return sample


def _edges(sample: Array) -> Array:
    """Where bins begin, but for the first. Each of them has a value, the first one, too."""
    if not len(sample):
        return sample
    values: Array = sample[np.append(True, sample[1:] != sample[:-1])]
    if len(values) <= _BINS:
        return values[1:]
    quantiles = sample[np.arange(1, _BINS) * len(sample) // _BINS]
    is_new = np.append(True, quantiles[1:] != quantiles[:-1])
    heavy = quantiles[1:][~is_new[1:]]
    # What comes right behind a heavy value takes a place that its repetition left free.
    behind = values[np.minimum(np.searchsorted(values, heavy, "right"), len(values) - 1)]
    found: Array = np.unique(np.append(quantiles[is_new], behind))
    edges: Array = found[found > values[0]][: _BINS - 1]
    return edges
