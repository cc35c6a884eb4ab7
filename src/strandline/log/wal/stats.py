"""Statistics of a log: how much was written, and how long syncs took."""

from __future__ import annotations

import bisect
from collections import deque

import msgspec

SYNC_BUCKETS_US = (50, 100, 250, 500, 1000, 5000, 10_000, 50_000, 100_000)
"""Upper bounds of the histogram of syncs; the last count is of all that took longer."""


SLOW_SYNC_S = 0.5
"""A sync that takes longer is slow."""

SLOW_WINDOW_S = 60.0
"""The time for which a slow sync counts."""

SLOW_TOTAL_S = 1.0
"""A log is slow when its slow syncs within ``SLOW_WINDOW_S`` took at least this long together."""

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
    """The durations of syncs. Changed by the leader of a round; read by any thread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SYNC_BUCKETS_US) + 1)
        self.total_us = 0
        self.slow_total = 0
        self._began_s: float | None = None
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT_MAX)

    def begin_sync(self, now_s: float) -> None:
        """Note the start of a sync, at a monotonic time."""
        self._began_s = now_s

    def end_sync(self, now_s: float, *, synced: bool) -> None:
        """Note the end of the sync; one that failed is not counted."""
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
        """The slow syncs until now; None when the log is not slow."""
        slow_s = [seconds for at, seconds in list(self._recent) if at >= now_s - SLOW_WINDOW_S]
        began_s = self._began_s
        if began_s is not None and now_s - began_s > SLOW_SYNC_S:
            slow_s.append(now_s - began_s)
        if sum(slow_s) < SLOW_TOTAL_S:
            return None
        return SlowSyncs(shard=shard, count=len(slow_s), longest_ms=round(max(slow_s) * 1000))


class LogStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One shard's log since the store was opened."""

    shard: int
    bytes_written: int
    frames: int
    """Commits that were written: a batch, a single record, or control messages."""
    syncs: int
    sync_counts: tuple[int, ...]
    """By the bounds of ``SYNC_BUCKETS_US``, not cumulative."""
    sync_total_us: int
    slow_syncs: int
    """Syncs that took more than ``SLOW_SYNC_S``."""
    is_slow: bool
    """Whether the log is slow at present."""
    rotations: int
    waiting: int
    """Appends that wait for a sync."""
    waiting_most: int
    """The most that waited when a sync began."""
    failed: bool
    """Whether the shard has failed: it accepts nothing any more."""
    keys_evicted: int
    """Idempotency keys that were evicted before the end of their windows."""
