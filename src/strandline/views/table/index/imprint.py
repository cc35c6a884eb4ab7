"""Which of 64 bins have values of a zone: one bit each, for fields of numbers and times.

    arrays   edges, at most 63, in order; the bins of each zone u64, the lowest bit for the first

Bin 0 is below the first edge, bin n from edge n-1 on and below edge n. Bins are made for the whole
file so that each holds about as many rows. A value that would fill several bins by itself has one
of its own, and where a field has at most 64 values, each has.
"""

from __future__ import annotations

import numpy as np

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import Layout, Numbers
from strandline.views.table.index.predicate import Between, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "imprint"

_BINS = 64
_SAMPLE_MAX = 1 << 16
_ALL = 2**64 - 1


def build(column: Numbers) -> bytes:
    edges = _edges(_sample(column))
    masks = np.zeros(len(column.present), "<u8")
    for zone, present in enumerate(column.present.tolist()):
        places = np.searchsorted(column.sorted[zone, :present], edges, side="left")
        # Values between two edges are in the bin of the first.
        counts = np.diff(places, prepend=0, append=present)
        masks[zone] = sum(1 << int(each) for each in np.flatnonzero(counts))
    return arrays.pack(edges, masks)


class Imprint:
    """Bins of the zones. Immutable; safe from many threads."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        self._edges, self._masks = arrays.unpack(data)
        self.ram = len(data)

    def may(self, test: Test) -> Mask | None:
        """Zones with a value in a bin that is asked for; None when almost all are."""
        match test:
            case OneOf(values):
                wanted = 0
                for each in self._bins(np.array(values, self._edges.dtype)):
                    wanted |= 1 << int(each)
            case Between():
                wanted = self._range(test)
            case _:
                return None
        found: Mask = (self._masks & np.uint64(wanted)) != 0
        return found

    def _bins(self, values: Array) -> Array:
        return np.searchsorted(self._edges, values, side="right")

    def _range(self, test: Between) -> int:
        first, last = 0, _BINS - 1
        if test.low is not None:
            first = int(self._bins(np.array([test.low], self._edges.dtype))[0])
        if test.high is not None:
            high = np.array([test.high], self._edges.dtype)
            # A bin that begins at the bound has nothing below it.
            last = int(np.searchsorted(self._edges, high, "left" if test.high_open else "right")[0])
        return (_ALL >> (_BINS - 1 - last)) & (_ALL << first) if first <= last else 0


def _sample(column: Numbers) -> Array:
    """Values from everywhere, sorted."""
    step = max(1, int(column.present.sum()) // _SAMPLE_MAX)
    places = np.arange(column.sorted.shape[1]) % step == 0
    there = places & (np.arange(column.sorted.shape[1]) < column.present[:, None])
    sample: Array = np.sort(column.sorted[there])
    return sample


def _edges(sample: Array) -> Array:
    if not len(sample):
        return sample
    values: Array = sample[np.append(True, sample[1:] != sample[:-1])]
    if len(values) <= _BINS:
        return values[1:]
    quantiles = sample[np.arange(1, _BINS) * len(sample) // _BINS]
    is_new = np.append(True, quantiles[1:] != quantiles[:-1])
    edges, heavy = quantiles[is_new], quantiles[1:][~is_new[1:]]
    # What comes right behind a heavy value takes a place that its repetition left free.
    behind = values[np.minimum(np.searchsorted(values, heavy, "right"), len(values) - 1)]
    found: Array = np.unique(np.append(edges, behind))[: _BINS - 1]
    return found
