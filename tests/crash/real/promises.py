"""A client that tells the oracle what it is about to do and what it was told, and what it finds.

The topics of its stores have numbers, because messages to the oracle do. Where there is a pipe
there may as well be a file: what a killed process has written into one is there, too.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa

import strandline
from strandline.testing.oracle import Reporter, record_hash

KIB = 1024
TOPICS = {1: "fsync", 2: "disk", 3: "fsync", 4: "disk", 5: "memory"}
TAGS = (None, "eu", "us", "eu-west")
PAGE_RECORDS = 1000
BATCH_RECORDS_MAX = 60


def settings(shards: int = 1, file_size: int = 64 * KIB) -> strandline.Settings:
    """Everything small, so that a tenth of a second sees rotations, checkpoints and merges."""
    return strandline.Settings(
        wal=strandline.WalSettings(
            shards=shards,
            file_size_first=file_size,
            file_size_max=4 * file_size,
            sync_interval_ms=100,
        ),
        segment=strandline.SegmentSettings(
            checkpoint_bytes=96 * KIB,
            seal_bytes=128 * KIB,
            seal_records=2000,
            own_bytes_min=16 * KIB,
            shared_files_max=4,
            block_records=64,
        ),
        space=strandline.SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
    )


def reporter_of(pipe: str, generation: int) -> Reporter:
    fd = os.open(pipe, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return Reporter(fd, generation << 32)


def report(
    store: strandline.Store,
    pipe: str | Reporter,
    generation: int,
    *,
    lossy: tuple[str, ...] = ("memory",),
) -> Reporter:
    """Tell the oracle every record of every topic; the reporter, for what is to come."""
    reporter = pipe if isinstance(pipe, Reporter) else reporter_of(pipe, generation)
    reporter.begin_report()
    for number, durability in TOPICS.items():
        topic = store.topic(f"t{number}", durability=durability)
        after = 0
        while True:
            page = topic.read(after, PAGE_RECORDS)
            if page.tombstone is not None:
                reporter.gap(number, page.tombstone.gap_from, page.tombstone.gap_to)
            rows = [
                (record.seq, record.ts, record_hash(record.data, record.key, record.tag))
                for record in page.records
            ]
            reporter.found(number, rows)
            after = page.next
            if page.caught_up:
                break
        reporter.head(number, after, lossy=durability in lossy)
    reporter.judge()
    return reporter


class Client:
    """Appends and deletes at random, and promises nothing that it was not told. One thread's."""

    def __init__(self, store: strandline.Store, reporter: Reporter, seed: int) -> None:
        self._topics = {number: store.topic(f"t{number}") for number in TOPICS}
        self._reporter = reporter
        self._rng = random.Random(seed)

    def append(self, *numbers: int) -> None:
        """Append one record or a batch, in any form, to one of these topics (any)."""
        rng = self._rng
        number = rng.choice(numbers or tuple(TOPICS))
        count = 1 if rng.random() < 0.7 else rng.randrange(1, BATCH_RECORDS_MAX)
        data = [self._payload() for _ in range(count)]
        keys = [rng.choice([None, b"", b"key"]) for _ in range(count)]
        tags = [rng.randrange(len(TAGS)) for _ in range(count)]
        if count == 1 and rng.random() < 0.7:
            keys, tags = [None], [0]
        texts = [TAGS[tag] for tag in tags]
        hashes = list(map(record_hash, data, keys, texts))
        op = self._reporter.intend(number, hashes, tags)
        appended = self._append(self._topics[number], data, keys, texts)
        self._reporter.acked(op, appended.first_seq)

    def delete(self) -> None:
        """Delete by tag or below a seq. One client of a store may do that, not several."""
        rng = self._rng
        number = rng.choice(tuple(TOPICS))
        topic = self._topics[number]
        if rng.random() < 0.5:
            tag = rng.randrange(1, len(TAGS))
            op = self._reporter.begin_delete(number, tag=tag)
            topic.delete(match=TAGS[tag])
        else:
            before = max(1, topic.head_seq - rng.randrange(300))
            op = self._reporter.begin_delete(number, before=before)
            topic.delete(before=before)
        self._reporter.deleted(op)

    def _append(
        self,
        topic: strandline.Topic,
        data: list[bytes],
        keys: list[bytes | None],
        tags: list[str | None],
    ) -> strandline.AppendResult:
        if len(data) == 1 and keys == tags == [None]:
            return topic.append(data[0])
        if len(data) == 1:
            return topic.append_nowait(data[0], key=keys[0], tag=tags[0]).wait()
        if self._rng.random() < 0.5:
            return topic.append_many(data, keys=keys, tags=tags)
        columns = {
            "data": pa.array(data, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "tag": pa.array(tags, pa.string()),
        }
        return topic.append_arrow(pa.record_batch(columns))

    def _payload(self) -> bytes:
        """Never the same twice; some beyond a sector, some full of zeros, some beyond 32 KiB."""
        rng = self._rng
        kind = rng.random()
        size = rng.randrange(200)
        if kind < 0.05:
            size = rng.randrange(6000)
        elif kind < 0.055:
            size = 40_000
        fill = b"\0" if rng.random() < 0.3 else b"x"
        return rng.randbytes(12) + fill * size
