"""Which records of the log are still needed, so that the others can be removed.

Records are tracked in buckets of 256 seqs. For each measurement, a bucket has the records with its
points, and the latest time of these points. Once that time is below the floor, these records are
removed together; a late record delays them. A record with points of several measurements is removed
with the last of them.

Some records are never removed, as the meaning of others depends on them:

- records without content for this view;
- the first record with a field, which defines its kind;
- current rules, removals of rules, floors and progress, until a newer record replaces them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec
from pyroaring import BitMap64

from strandline.views.metrics.storage.metadata import Metadata
from strandline.views.metrics.value_types import INT64_MIN

BUCKET_BITS = 8

_INDEX_MASK = (1 << BUCKET_BITS) - 1
_REPLACED = -1
"""In place of a measurement: always below the floor."""


class SeqBucket(msgspec.Struct, array_like=True):
    """The references of 256 seqs, by measurement."""

    until: dict[int, int] = {}
    """The latest time of points."""
    places: dict[int, set[int]] = {}
    """The records, by their index in the bucket."""

    def add(self, measurement: int, until: int, index: int) -> None:
        known = self.until.get(measurement)
        if known is None:
            self.until[measurement], self.places[measurement] = until, {index}
            return
        if until > known:
            self.until[measurement] = until
        self.places[measurement].add(index)

    def remove_expired(self, floor_of: Callable[[int], int]) -> set[int]:
        """Remove and return the records whose points are all below the floors."""
        expired = [m for m, until in self.until.items() if m < 0 or until < floor_of(m)]
        candidates = set[int]().union(*(self.places[measurement] for measurement in expired))
        for measurement in expired:
            del self.until[measurement], self.places[measurement]
        return candidates.difference(*self.places.values())


class LogReferences:
    """The references of all records. Owned by one thread."""

    def __init__(self, facts: Metadata) -> None:
        self._facts = facts
        self._changed: dict[int, SeqBucket] = {}

    def add(self, seq: int, measurement: int, until: int) -> None:
        """Add a record with points of a measurement up to a time."""
        self._bucket(seq >> BUCKET_BITS).add(measurement, until, seq & _INDEX_MASK)

    def mark_replaced(self, seq: int) -> None:
        """Mark a record that a newer one has replaced."""
        self._bucket(seq >> BUCKET_BITS).add(_REPLACED, INT64_MIN, seq & _INDEX_MASK)

    def remove_expired(
        self, floor_of: Callable[[int], int], first: int, count: int, secured: int
    ) -> tuple[BitMap64, int]:
        """Remove and return records that are below the floors, and the next bucket to examine.

        Examines ``count`` buckets from ``first`` on, up to the first with a record after
        ``secured``; the next bucket is 0 at the end.
        """
        removable = BitMap64()
        for examined, number in enumerate(self._numbers(first, count + 1)):
            if examined == count:
                return removable, number
            if (number + 1) << BUCKET_BITS > secured + 1:
                break
            bucket = self._bucket(number)
            removable |= BitMap64(
                number << BUCKET_BITS | index for index in bucket.remove_expired(floor_of)
            )
        return removable, 0

    def save(self) -> None:
        for number, bucket in self._changed.items():
            if bucket.until:
                self._facts.put("l", number, fact=bucket)
            else:
                self._facts.delete("l", number)
        self._changed.clear()

    def _bucket(self, number: int) -> SeqBucket:
        bucket = self._changed.get(number)
        if bucket is None:
            stored = self._facts.get("l", number, kind=SeqBucket)
            bucket = self._changed[number] = SeqBucket() if stored is None else stored
        return bucket

    def _numbers(self, first: int, count: int) -> list[int]:
        """The numbers of existing buckets in order, at most ``count``."""
        stored = islice(self._facts.since("l", first, kind=msgspec.Raw), count)
        changed = (number for number in self._changed if number >= first)
        return sorted({*(number for number, _ in stored), *changed})[:count]
