"""Numbers of a log: how much was written, and how long syncs took."""

from __future__ import annotations

import bisect
from collections import deque

import msgspec

SYNC_BUCKETS_US = (50, 100, 250, 500, 1000, 5000, 10_000, 50_000, 100_000)
"""Upper bounds of the histogram of syncs; the last count is of all that took longer."""


SLOW_SYNC_S = 0.5
"""A sync that takes longer is slow."""

SLOW_WINDOW_S = 60.0
"""Slow syncs count for so long."""

SLOW_TOTAL_S = 1.0
"""A log is slow when its slow syncs of that time took so long together: one hiccup is not."""

_RECENT_MAX = 1_000


class SlowSyncs(msgspec.Struct, frozen=True, kw_only=True):
    """The slow syncs of one log within the last minute, the one under way included."""

    shard: int
    count: int
    longest_ms: int

    def __str__(self) -> str:
        return (
            f"the disk is slow: {self.count} syncs of log {self.shard} took more than "
            f"{SLOW_SYNC_S * 1000:.0f} ms within {SLOW_WINDOW_S:.0f} s, the longest "
            f"{self.longest_ms} ms"
        )


class SyncTimes:
    """How long syncs took. Added to by whoever leads a round; read by anybody."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SYNC_BUCKETS_US) + 1)
        self.total_us = 0
        self.slow_total = 0
        self._began_s: float | None = None
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT_MAX)

    def begin(self, now_s: float) -> None:
        """A sync begins, at a monotonic time."""
        self._began_s = now_s

    def end(self, now_s: float, *, synced: bool) -> None:
        """It has ended; one that failed is not counted."""
        assert self._began_s is not None
        seconds, self._began_s = now_s - self._began_s, None
        if not synced:
            return
        took_us = round(seconds * 1_000_000)
        self.counts[bisect.bisect_left(SYNC_BUCKETS_US, took_us)] += 1
        self.total_us += took_us
        if seconds > SLOW_SYNC_S:
            self.slow_total += 1
            self._recent.append((now_s, seconds))

    def slow(self, shard: int, now_s: float) -> SlowSyncs | None:
        """What was slow until now; None when the log is not slow."""
        took = [seconds for at, seconds in list(self._recent) if at >= now_s - SLOW_WINDOW_S]
        began_s = self._began_s
        if began_s is not None and now_s - began_s > SLOW_SYNC_S:
            took.append(now_s - began_s)
        if sum(took) < SLOW_TOTAL_S:
            return None
        return SlowSyncs(shard=shard, count=len(took), longest_ms=round(max(took) * 1000))


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
    slow_syncs: int
    """Syncs that took more than ``SLOW_SYNC_S``."""
    is_slow: bool
    """Whether they count at present."""
    rotations: int
    waiting: int
    """Appends that wait for a sync."""
    waiting_most: int
    """The most that waited when a sync began."""
    failed: bool
    """Whether it takes nothing any more."""
    keys_evicted: int
    """Idempotency keys that were evicted before their windows were over."""
