"""Promise (V1): whatever threads and coroutines do at once, every topic stays one log.

Seqs are unique and dense, an acked append comes before one that was invoked later, whoever was
acked can read it back, and readers get everything in order: while checkpoints move the records
from the WAL into segments and WAL files come and go.
"""

from __future__ import annotations

import asyncio
import threading
import time

import strandline
from strandline.testing.history import check
from tests.crash.real.quick_clock import QuickClock
from tests.history.clients import Log, follow, start, write_as_tasks, write_some

KIB = 1024
SETTINGS = strandline.Settings(
    wal=strandline.WalSettings(
        shards=2, file_size_first=64 * KIB, file_size_max=512 * KIB, sync_interval_ms=200
    ),
    segment=strandline.SegmentSettings(
        checkpoint_bytes=256 * KIB,
        seal_bytes=1024 * KIB,
        seal_records=20_000,
        own_bytes_min=64 * KIB,
        shared_files_max=4,
        block_records=256,
        cache_bytes=256 * KIB,
    ),
)
DURABILITIES = ("fsync", "disk", "memory")
JOIN_S = 240.0  # a hang, however slow the machine is


def open_topics(store: strandline.Store, durability: str) -> list[strandline.Topic]:
    return [store.topic(f"{durability}-{place}", durability=durability) for place in range(2)]


def run_clients(store: strandline.Store, *, calls: int, tasks: int, task_calls: int) -> Log:
    """Eight writing threads, a loop full of tasks, a reader for every topic."""
    log = Log()
    by_durability = {name: open_topics(store, name) for name in DURABILITIES}
    quick = by_durability["disk"] + by_durability["memory"]
    everything = quick + by_durability["fsync"]
    written = threading.Event()
    writers = [start(log, write_some, log, quick, calls, seed) for seed in range(6)]
    writers += [
        start(log, write_some, log, by_durability["fsync"], calls // 50, 100 + seed)
        for seed in range(2)
    ]
    loop = write_as_tasks(log, everything, tasks, task_calls)
    writers.append(start(log, asyncio.run, loop))
    readers = [start(log, follow, log, topic, written) for topic in everything]
    deadline = time.monotonic() + JOIN_S
    for thread in writers:
        thread.join(deadline - time.monotonic())
    written.set()
    for thread in readers:
        thread.join(deadline - time.monotonic())
    assert not any(thread.is_alive() for thread in writers + readers), "somebody hangs"
    return log


def test_every_topic_is_one_log_for_threads_tasks_and_readers_at_once(data_dir: str):
    with strandline.open(data_dir, settings=SETTINGS, clock=QuickClock()) as store:
        log = run_clients(store, calls=28_000, tasks=120, task_calls=60)
        runs = {job.name: job.runs for job in store.health().jobs}
        health = store.health()
        heads = {name: store.topic(name).head_seq for name in store.topics()}

    assert log.failures == []
    assert check(log.writes, log.reads) == []
    assert log.calls >= 200_000
    assert runs["checkpoint"] > 1
    # Syncs may be slow on a busy machine: that is a reason of the disk, not of the store.
    assert [text for text in health.reasons if "the disk is slow" not in text] == []
    with strandline.open(data_dir, readonly=True) as again:
        assert {name: again.topic(name).head_seq for name in again.topics()} == heads
