"""Context index: the range of contexts of each zone. Rows of a file are sorted by context.

    arrays   the ends of the first contexts of zones in the bytes u64, the bytes u8; the same for
             the last contexts

First and last contexts are sorted over the zones, so the zones of a context are found by two binary
searches. Contexts are stored in full length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strandline.views.table.index import arrays
from strandline.views.table.index.column import ZoneLayout
from strandline.views.table.index.predicate import Between, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "context"


def build(contexts: pa.ChunkedArray, layout: ZoneLayout) -> bytes | None:
    """The section, or None if rows are not sorted by context."""
    if not _is_sorted(contexts.cast(pa.string())):
        return None
    begins, ends = layout.begins(), layout.begins() + layout.sizes() - 1
    firsts = [text.encode() for text in contexts.take(pa.array(begins)).to_pylist()]
    lasts = [text.encode() for text in contexts.take(pa.array(ends)).to_pylist()]
    return arrays.pack(*arrays.joined(firsts), *arrays.joined(lasts))


def _is_sorted(texts: pa.ChunkedArray) -> bool:
    in_order = pc.less_equal(texts.slice(0, len(texts) - 1), texts.slice(1))
    return not texts.null_count and pc.all(in_order, min_count=0).as_py()


class ContextIndex:
    """Ranges of contexts. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        first_ends, first_bytes, last_ends, last_bytes = arrays.unpack(data)
        self._firsts = arrays.split(first_ends, first_bytes)
        self._lasts = arrays.split(last_ends, last_bytes)
        self._zones = zones
        self.ram = 2 * len(data) + 100 * zones

    def may(self, test: Test) -> Mask | None:
        """Zones whose range has a context that passes; None if the test is not supported."""
        mask = np.zeros(self._zones, bool)
        match test:
            case OneOf(values):
                for value in values:
                    assert isinstance(value, bytes)
                    first = bisect_left(self._lasts, value)
                    mask[first : bisect_right(self._firsts, value)] = True
            case Between():
                mask[self._first_zone(test) : self._zone_after(test)] = True
            case _:
                return None
        return mask

    def _first_zone(self, test: Between) -> int:
        """The first zone whose last context is not below the lower bound."""
        if not isinstance(test.low, bytes):
            return 0
        return (bisect_right if test.low_open else bisect_left)(self._lasts, test.low)

    def _zone_after(self, test: Between) -> int:
        """The zone after the last whose first context is not above the upper bound."""
        if not isinstance(test.high, bytes):
            return self._zones
        return (bisect_left if test.high_open else bisect_right)(self._firsts, test.high)
