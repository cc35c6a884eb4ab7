"""Bitmap index: which texts are in which zones, exact, for fields with few distinct texts.

    arrays   the ends of texts in the bytes u64, the bytes u8, sets of zones u8 (zone_sets.py)

Texts are sorted. The bucket of a text is its index, so a range of texts is a range of buckets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from strandline.views.table.index import arrays, zone_sets
from strandline.views.table.index.column import CodedTextColumn, ZoneLayout
from strandline.views.table.index.predicate import Between, Key, NoneOf, OneOf, Test
from strandline.views.table.index.zone_sets import Mask, ZoneSets

KIND = "bitmap"


def build(column: CodedTextColumn) -> bytes:
    zones, variants = len(column.codes), len(column.variants)
    # The last column is for nulls: their code -1 is its index.
    is_present = np.zeros((zones, variants + 1), bool)
    is_present[np.arange(zones)[:, None], column.codes] = True
    zone, code = np.nonzero(is_present[:, :variants])
    sets = zone_sets.encode(code, zone, zones)
    return arrays.pack(*arrays.joined(column.variants), sets)


class BitmapIndex:
    """Zones by text. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        ends, texts, sets = arrays.unpack(data)
        self._variants = arrays.split(ends, texts)
        self._sets = ZoneSets(sets.tobytes(), zones)
        self._zones = zones
        self.ram = self._sets.ram + len(texts) + 50 * len(ends)

    def may(self, test: Test) -> Mask:
        match test:
            case OneOf(values):
                mask = np.zeros(self._zones, bool)
                for value in values:
                    mask |= self._zones_with(value)
                return mask
            case NoneOf(values):
                others = self._sets.sizes()
                for value in values:
                    others = others - self._zones_with(value)
                return others > 0
            case Between():
                return self._sets.within(self._first_variant(test), self._variant_after(test))

    def _zones_with(self, value: Key) -> Mask:
        assert isinstance(value, bytes)
        index = bisect_left(self._variants, value)
        is_known = self._variants[index : index + 1] == [value]
        return self._sets.within(index, index + is_known)

    def _first_variant(self, test: Between) -> int:
        if not isinstance(test.low, bytes):
            return 0
        return (bisect_right if test.low_open else bisect_left)(self._variants, test.low)

    def _variant_after(self, test: Between) -> int:
        if not isinstance(test.high, bytes):
            return len(self._variants)
        return (bisect_left if test.high_open else bisect_right)(self._variants, test.high)
