"""Calendar index: which zones have rows in which hour, or on which day.

    arrays   the width of a bucket in microseconds u64; the first bucket, counted from 1970, i64;
             the number of buckets u64; sets of zones u8 (zone_sets.py)

Buckets are hours if they are few enough, days otherwise. Buckets are in UTC and half open: a full
hour is in the bucket that it starts.
"""

from __future__ import annotations

import numpy as np

from strandline.views.table.index import arrays, zone_sets
from strandline.views.table.index.column import NumberColumn, ZoneLayout
from strandline.views.table.index.index_choice import IndexPolicy
from strandline.views.table.index.predicate import DAY_US, Between, Key, OneOf, Test
from strandline.views.table.index.zone_sets import Mask, ZoneSets

KIND = "calendar"
HOUR_US = 3_600_000_000

_VALUES_MAX = 256


def build(column: NumberColumn, policy: IndexPolicy) -> bytes | None:
    """The section, or None if rows are spread over too many days."""
    rows = int(column.present.sum())
    columns = np.arange(column.sorted.shape[1])
    is_new = columns < column.present[:, None]
    for width in (HOUR_US, DAY_US):
        buckets = column.sorted // width
        # Times of a zone are sorted: a bucket is new where it differs from the one before.
        is_new[:, 1:] &= buckets[:, 1:] != buckets[:, :-1]
        zones, positions = np.nonzero(is_new)
        if rows and policy.has_calendar(pairs=len(zones), rows=rows, zones=len(is_new)):
            used = buckets[zones, positions]
            first, after = int(used.min()), int(used.max()) + 1
            sets = zone_sets.encode(used - first, zones, len(is_new))
            numbers = (np.array([width], "<u8"), np.array([first], "<i8"))
            return arrays.pack(*numbers, np.array([after - first], "<u8"), sets)
    return None


class CalendarIndex:
    """Zones by time. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        width, first, count, sets = arrays.unpack(data)
        self._width, self._first, self._count = int(width[0]), int(first[0]), int(count[0])
        self._sets = ZoneSets(sets.tobytes(), zones)
        self._zones = zones
        self.ram = self._sets.ram

    def may(self, test: Test) -> Mask | None:
        match test:
            case OneOf(values) if len(values) <= _VALUES_MAX:
                mask = np.zeros(self._zones, bool)
                for value in values:
                    mask |= self._zones_within(value, value)
                return mask
            case Between():
                return self._zones_within(test.low, test.high)
            case _:
                return None

    def _zones_within(self, low: Key | None, high: Key | None) -> Mask:
        """Zones in the buckets from one time to another, both included."""
        first = 0 if low is None else self._bucket(low)
        after = self._count if high is None else self._bucket(high) + 1
        return self._sets.within(max(first, 0), min(after, self._count))

    def _bucket(self, time: Key) -> int:
        assert isinstance(time, int)
        return time // self._width - self._first
