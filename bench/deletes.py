"""Delete by tag: what one record costs among few and many, in the log and in segments.

Each record has a tag of its own. The first delete, which builds the index of the topic, is reported
apart. Figures are CPU time of the process, so that a sync by another thread counts too; SQLite
deletes the same row through an index.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import strandline
from bench.measure import Figure, fixed
from strandline import SegmentSettings, Settings

PAYLOAD = b"x" * 100
BATCH = 1000
DELETES = 200
GOAL_US = 100
SIZES = (10_000, 100_000, 1_000_000)


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    for exponent, size in enumerate(SIZES):
        count = fixed(size, scale, least=BATCH)
        numbers = random.Random(7).sample(range(count), min(DELETES, count // 4))
        _, peer = _deletes(_sqlite(folder / f"deletes{exponent}.db", count), numbers)
        for place in ("log", "shared", "sealed"):
            path = folder / f"deletes-{place}{exponent}"
            with strandline.open(str(path), settings=_settings(place, count)) as store:
                topic = store.topic("t")
                _fill(topic, count)
                for _ in range({"log": 0, "shared": 1, "sealed": 2}[place]):
                    store.checkpoint()
                first, each = _deletes(lambda tag, topic=topic: topic.delete(match=tag), numbers)
            cost = statistics.median(each)
            yield Figure(
                name=f"delete by tag, {place}, {count:,} records",
                value=cost,
                unit="us CPU",
                peer="SQLite",
                ratio=statistics.median(peer) / cost,
                goal=f"{GOAL_US} us",
                met=cost <= GOAL_US,
                note=f"the first {first / 1000:,.0f} ms",
            )


def _settings(place: str, count: int) -> Settings:
    """``log`` makes no checkpoint; ``sealed`` gives the topic a segment of its own."""
    own = count // 2 if place == "sealed" else 1 << 40
    return Settings(
        segment=SegmentSettings(
            checkpoint_bytes=1 << 40,
            checkpoint_interval_s=1e9,
            seal_records=own,
            seal_bytes=1 << 40,
            own_bytes_min=1,
        )
    )


def _tags(first: int) -> list[str]:
    return [f"tag-{number:08d}" for number in range(first, first + BATCH)]


def _fill(topic: strandline.Topic, count: int) -> None:
    for first in range(0, count, BATCH):
        topic.append_many([PAYLOAD] * BATCH, tags=_tags(first))


def _sqlite(path: Path, count: int) -> Callable[[str], object]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=normal")
    connection.execute("create table t (seq integer primary key, tag text, data blob)")
    connection.execute("create index by_tag on t (tag)")
    for first in range(0, count, BATCH):
        connection.execute("begin")
        rows = [(tag, PAYLOAD) for tag in _tags(first)]
        connection.executemany("insert into t (tag, data) values (?, ?)", rows)
        connection.execute("commit")
    return lambda tag: connection.execute("delete from t where tag = ?", (tag,))


def _deletes(delete: Callable[[str], object], numbers: list[int]) -> tuple[float, list[float]]:
    """CPU time in us of the first delete, and of each one after it."""
    costs = []
    for number in numbers:
        start = time.process_time_ns()
        delete(f"tag-{number:08d}")
        costs.append((time.process_time_ns() - start) / 1000)
    return costs[0], costs[1:]
