"""Appends: one, many and Arrow into the page cache; durable ones alone, by threads and by tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pyarrow as pa

import strandline
from bench.measure import Figure, percentile, rate, scaled
from bench.peers import RECORD, Peers
from bench.settings import LAZY, SUSTAINED

MANY = [RECORD] * 1000


def run(folder: Path, peers: Peers, *, scale: float) -> list[Figure]:
    with strandline.open(str(folder / "append"), settings=LAZY) as store:
        figures = _page_cache(store, peers, scale)
    with strandline.open(str(folder / "durable"), settings=LAZY) as store:
        figures += _durable(store, peers, scale)
    with strandline.open(str(folder / "sustained"), settings=SUSTAINED) as store:
        topic = store.topic("many")
        speed = rate(lambda: _append_many(topic, scaled(1000, scale)), rounds=3)
        figures.append(
            Figure(
                name="append_many(1000) disk, checkpoints running",
                value=speed,
                unit="rec/s",
                peer="SQLite executemany(1000)",
                ratio=speed / peers.sqlite_many,
            )
        )
    return figures


def _page_cache(store: strandline.Store, peers: Peers, scale: float) -> list[Figure]:
    topic = store.topic("one")
    figures = []
    one = rate(lambda: _append_one(topic, scaled(100_000, scale)))
    figures.append(
        Figure(
            name="append(one) disk, 1 thread",
            value=one,
            unit="rec/s",
            peer="bare os.pwrite",
            ratio=one / peers.pwrite_small,
            goal=">= 500 k/s",
            met=one >= 500_000,
        )
    )
    slow = percentile(_latencies(topic, scaled(100_000, scale)), 0.99) * 1e6
    figures.append(
        Figure(name="append(one) disk, p99", value=slow, unit="us", goal="< 10 us", met=slow < 10)
    )
    threads = _by_threads(lambda: _append_one(topic, scaled(10_000, scale)), 16)
    figures.append(
        Figure(
            name="append(one) disk, 16 threads",
            value=threads,
            unit="rec/s",
            peer="1 thread",
            ratio=threads / one,
            goal=">= 300 k/s",
            met=threads >= 300_000,
        )
    )
    many_topic = store.topic("many")
    many = rate(lambda: _append_many(many_topic, scaled(200, scale)))
    figures.append(
        Figure(
            name="append_many(1000) disk",
            value=many,
            unit="rec/s",
            peer="SQLite executemany(1000)",
            ratio=many / peers.sqlite_many,
            goal=">= 8 M/s, >= 10x SQLite",
            met=many >= 8e6 and many >= 10 * peers.sqlite_many,
        )
    )
    arrow_topic = store.topic("arrow")
    batch = pa.record_batch([pa.array([RECORD] * 10_000, pa.binary())], names=["data"])
    arrow = rate(lambda: _append_arrow(arrow_topic, batch, scaled(60, scale)))
    figures.append(
        Figure(
            name="append_arrow(10000) disk",
            value=arrow * len(RECORD) / 1e9,
            unit="GB/s",
            peer="raw pwrite bandwidth",
            ratio=arrow * len(RECORD) / peers.pwrite_bytes,
            goal=">= 40 % of pwrite",
            met=arrow * len(RECORD) >= 0.4 * peers.pwrite_bytes,
        )
    )
    return figures


def _durable(store: strandline.Store, peers: Peers, scale: float) -> list[Figure]:
    topic = store.topic("fsync", durability="fsync")
    lone = rate(lambda: _append_one(topic, scaled(1500, scale)), rounds=3)
    figures = [
        Figure(
            name="append(one) fsync, lone",
            value=lone,
            unit="rec/s",
            peer="raw write+fdatasync",
            ratio=lone / peers.sync_rate,
            goal=">= 90 % of raw",
            met=lone >= 0.9 * peers.sync_rate,
        )
    ]
    crowd = _by_threads(lambda: _append_one(topic, scaled(300, scale)), 64)
    figures.append(
        Figure(
            name="append(one) fsync, 64 threads",
            value=crowd,
            unit="rec/s",
            peer="raw write+fdatasync",
            ratio=crowd / peers.sync_rate,
            goal=">= 30 k/s",
            met=crowd >= 30_000,
        )
    )
    tasks, slow = asyncio.run(_by_tasks(topic, 100, scaled(600, scale)))
    figures.append(
        Figure(
            name="append(one) fsync, 100 tasks",
            value=tasks,
            unit="rec/s",
            peer="raw write+fdatasync",
            ratio=tasks / peers.sync_rate,
            goal=">= 150 k/s, p99 < 2 ms",
            met=tasks >= 150_000 and slow < 2e-3,
            note=f"p99 {slow * 1e3:.2f} ms",
        )
    )
    return figures


def _append_one(topic: strandline.Topic, count: int) -> int:
    append = topic.append
    for _ in range(count):
        append(RECORD)
    return count


def _latencies(topic: strandline.Topic, count: int) -> list[float]:
    append, now, taken = topic.append, time.perf_counter, []
    for _ in range(count):
        start = now()
        append(RECORD)
        taken.append(now() - start)
    return taken


def _append_many(topic: strandline.Topic, count: int) -> int:
    for _ in range(count):
        topic.append_many(MANY)
    return count * len(MANY)


def _append_arrow(topic: strandline.Topic, batch: pa.RecordBatch, count: int) -> int:
    for _ in range(count):
        topic.append_arrow(batch)
    return count * len(batch)


def _by_threads(work: object, count: int) -> float:
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(work())) for _ in range(count)]  # type: ignore[operator]  # a callable
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


async def _by_tasks(topic: strandline.Topic, tasks: int, count: int) -> tuple[float, float]:
    taken: list[float] = []

    async def append_many_times() -> None:
        now = time.perf_counter
        for _ in range(count):
            start = now()
            await topic.append_nowait(RECORD).durable()
            taken.append(now() - start)

    start = time.perf_counter()
    await asyncio.gather(*(append_many_times() for _ in range(tasks)))
    return tasks * count / (time.perf_counter() - start), percentile(taken, 0.99)
