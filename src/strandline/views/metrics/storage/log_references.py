"""Which records of the log still matter, so that the others can be let go.

Records are counted in buckets of 256 seqs. A bucket knows which of its records have points of a
measurement, and up to what time. Below the floor, these records of it go together; one that is late
keeps them for a while. A record with points of several measurements goes with the last of them.

These records never go, or what is left would not mean the same:

- those that are nothing to this view;
- the first with a field, which says what kind its values are;
- rules that hold, their removals, floors and progress that nothing newer has replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec
from pyroaring import BitMap64

from strandline.views.metrics.storage.metadata import Facts
from strandline.views.metrics.value_types import INT64_MIN

BUCKET_BITS = 8

_PLACES = (1 << BUCKET_BITS) - 1
_REPLACED = -1
"""In place of a measurement: below all floors."""


class Bucket(msgspec.Struct, array_like=True):
    """What is known of some seqs, by measurement."""

    until: dict[int, int] = {}
    """The latest time in it."""
    places: dict[int, set[int]] = {}
    """Its records, by their place in the bucket."""

    def add(self, measurement: int, until: int, place: int) -> None:
        known = self.until.get(measurement)
        if known is None:
            self.until[measurement], self.places[measurement] = until, {place}
            return
        if until > known:
            self.until[measurement] = until
        self.places[measurement].add(place)

    def take(self, floor_of: Callable[[int], int]) -> set[int]:
        """Take out the records that lie below the floors, with all that they have."""
        over = [m for m, until in self.until.items() if m < 0 or until < floor_of(m)]
        gone = set[int]().union(*(self.places[measurement] for measurement in over))
        for measurement in over:
            del self.until[measurement], self.places[measurement]
        return gone.difference(*self.places.values())


class Lives:
    """Records by how long they matter. Owned by one thread."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._changed: dict[int, Bucket] = {}

    def add(self, seq: int, measurement: int, until: int) -> None:
        """A record has points of a measurement, the latest at this time."""
        self._bucket(seq >> BUCKET_BITS).add(measurement, until, seq & _PLACES)

    def replaced(self, seq: int) -> None:
        """Something newer says what this record said."""
        self._bucket(seq >> BUCKET_BITS).add(_REPLACED, INT64_MIN, seq & _PLACES)

    def take(
        self, floor_of: Callable[[int], int], first: int, count: int, secured: int
    ) -> tuple[BitMap64, int]:
        """Records that lie below the floors, and are forgotten here; and where to look on.

        It looks at so many buckets from ``first`` on, as far as all their records are secured; 0 is
        from the beginning again.
        """
        gone = BitMap64()
        for looked, number in enumerate(self._numbers(first, count + 1)):
            if looked == count:
                return gone, number
            if (number + 1) << BUCKET_BITS > secured + 1:
                break
            bucket = self._bucket(number)
            gone |= BitMap64(number << BUCKET_BITS | place for place in bucket.take(floor_of))
        return gone, 0

    def save(self) -> None:
        for number, bucket in self._changed.items():
            if bucket.until:
                self._facts.put("l", number, fact=bucket)
            else:
                self._facts.delete("l", number)
        self._changed.clear()

    def _bucket(self, number: int) -> Bucket:
        found = self._changed.get(number)
        if found is None:
            stored = self._facts.get("l", number, kind=Bucket)
            found = self._changed[number] = Bucket() if stored is None else stored
        return found

    def _numbers(self, first: int, count: int) -> list[int]:
        """Buckets that there are, in order, so many when there are."""
        stored = islice(self._facts.since("l", first, kind=msgspec.Raw), count)
        changed = (number for number in self._changed if number >= first)
        return sorted({*(number for number, _ in stored), *changed})[:count]
