"""Which records of the log still matter, so that the others can be let go.

Records are counted in buckets of 256 seqs. A bucket knows up to what time each measurement has
points in it, and which of its records are the view's own to give. When all of them lie below the
floors, the whole bucket goes; one record that is still needed keeps its neighbours for a while.

These records never go, or what is left would not mean the same:

- those that are nothing to this view;
- the first with a field, which says what kind its values are;
- rules that hold, their removals, floors and progress that nothing newer has replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter

import msgspec
from pyroaring import BitMap64

from strandline.views.metrics.facts import Facts
from strandline.views.metrics.kinds import INT64_MIN

BUCKET_BITS = 8
BUCKET_SEQS = 1 << BUCKET_BITS


class Bucket(msgspec.Struct, array_like=True):
    """What is known of some seqs."""

    until: dict[int, int] = {}
    """The latest time of each measurement in it."""
    mine: set[int] = set()
    """Places of records that can be let go when their time has come."""


class Lives:
    """Records by how long they matter. Owned by one thread."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._changed: dict[int, Bucket | None] = {}

    def add(self, seq: int, measurement: int, until: int) -> None:
        """A record has points of a measurement, the latest at this time."""
        bucket = self._bucket(seq >> BUCKET_BITS)
        known = bucket.until.get(measurement, INT64_MIN)
        bucket.until[measurement] = max(known, until)
        bucket.mine.add(seq & (BUCKET_SEQS - 1))

    def replaced(self, seq: int) -> None:
        """Something newer says what this record said."""
        self._bucket(seq >> BUCKET_BITS).mine.add(seq & (BUCKET_SEQS - 1))

    def gone(
        self, floor_of: Callable[[int], int], first: int, count: int
    ) -> tuple[list[tuple[int, BitMap64]], int]:
        """Buckets that are below the floors, with their records; and where to look on.

        It looks at so many buckets from ``first`` on; 0 is from the beginning again.
        """
        found: list[tuple[int, BitMap64]] = []
        for looked, (number, bucket) in enumerate(self._since(first, count + 1)):
            if looked == count:
                return found, number
            if all(until < floor_of(m) for m, until in bucket.until.items()):
                base = number << BUCKET_BITS
                found.append((number, BitMap64(base + place for place in bucket.mine)))
        return found, 0

    def forget(self, number: int) -> None:
        """A bucket's records are gone."""
        self._changed[number] = None

    def save(self) -> None:
        for number, bucket in self._changed.items():
            if bucket is None:
                self._facts.delete("l", number)
            else:
                self._facts.put("l", number, fact=bucket)
        self._changed.clear()

    def _bucket(self, number: int) -> Bucket:
        found = self._changed.get(number)
        if found is None:
            stored = None if number in self._changed else self._facts.get("l", number, kind=Bucket)
            found = self._changed[number] = Bucket() if stored is None else stored
        return found

    def _since(self, first: int, count: int) -> Iterator[tuple[int, Bucket]]:
        """Buckets as they are now, in order, so many at least when there are."""
        stored = islice(
            (
                (number, bucket)
                for number, bucket in self._facts.since("l", first, kind=Bucket)
                if number not in self._changed
            ),
            count,
        )
        changed = ((n, b) for n, b in self._changed.items() if n >= first and b is not None)
        yield from sorted([*stored, *changed], key=itemgetter(0))
