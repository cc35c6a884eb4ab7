"""Numbers of a log: how much was written, and how long syncs took."""

from __future__ import annotations

import bisect

import msgspec

SYNC_BUCKETS_US = (50, 100, 250, 500, 1000, 5000, 10_000, 50_000, 100_000)
"""Upper bounds of the histogram of syncs; the last count is of all that took longer."""


class SyncTimes:
    """How long syncs took. Added to by whoever leads a round; read by anybody."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SYNC_BUCKETS_US) + 1)
        self.total_us = 0

    def add(self, seconds: float) -> None:
        took_us = round(seconds * 1_000_000)
        self.counts[bisect.bisect_left(SYNC_BUCKETS_US, took_us)] += 1
        self.total_us += took_us


class LogNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One shard's log since the store was opened."""

    shard: int
    bytes_written: int
    frames: int
    """Commits that were written: a batch, a record alone, or a message of the store's own."""
    syncs: int
    sync_counts: tuple[int, ...]
    """By the bounds of ``SYNC_BUCKETS_US``, not added up."""
    sync_total_us: int
    rotations: int
    waiting: int
    """Appends that wait for a sync."""
    waiting_most: int
    """The most that waited when a sync began."""
    failed: bool
    """Whether it takes nothing any more."""
    keys_evicted: int
    """Idempotency keys that were evicted before their windows were over."""
