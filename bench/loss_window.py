"""How old the oldest record of a ``disk`` topic is that a power loss would take, under a flood."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import strandline
from bench.measure import Figure, percentile
from strandline.config.settings import Settings, WalSettings

SECONDS = 4.0
RECORD = b"x" * 100


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    for interval_ms in (20, 1):
        settings = Settings(wal=WalSettings(sync_interval_ms=interval_ms))
        with strandline.open(str(folder / f"window{interval_ms}"), settings=settings) as store:
            ages, sync_ms = _flood(store, max(0.5, SECONDS * scale))
        for share, label in ((0.5, "p50"), (0.99, "p99")):
            yield Figure(
                name=f"loss window of disk, interval {interval_ms} ms, {label}",
                value=percentile(ages, share) * 1000,
                unit="ms",
                note=f"a sync takes {sync_ms:.1f} ms",
            )


def _flood(store: strandline.Store, seconds: float) -> tuple[list[float], float]:
    """Ages of the oldest unsynced record, as they are seen; and how long a sync takes."""
    topic = store.topic("flood", durability="disk")
    log = store._shards[0]
    seen: list[tuple[float, int, int]] = []
    stop = threading.Event()

    def append() -> None:
        while not stop.is_set():
            for _ in range(20):
                topic.append(RECORD)
            seen.append((time.perf_counter(), log.writer.end_lsn, log.committer.synced))

    before = log.statistics()
    thread = threading.Thread(target=append)
    thread.start()
    time.sleep(seconds)
    stop.set()
    thread.join()
    after = log.statistics()
    ends = [end for _, end, _ in seen]
    times = [at for at, _, _ in seen]
    ages = [
        at - times[min(bisect.bisect_right(ends, synced), len(times) - 1)]
        for at, _, synced in seen[len(seen) // 8 :]
    ]
    rounds = max(1, after.syncs - before.syncs)
    return ages, (after.sync_total_us - before.sync_total_us) / rounds / 1000
