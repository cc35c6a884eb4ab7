"""Small stores on a real disk whose records are in every place: lake, segments, log."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter, InputPartition

import strandline
from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    WalSettings,
)
from strandline.log.topic.topic import Topic
from strandline.pipelines.splits.record_schema import RECORD
from strandline.spark.read.options import parse
from strandline.spark.source.batch_reader import BatchReader
from strandline.store import Store
from strandline.testing.sim_clock import SimClock

Row = tuple[Any, ...]
BATCH = 40


def settings(**lake: Any) -> Settings:
    """Every forty records are a segment and a file of two zones."""
    return Settings(
        wal=WalSettings(file_size_first=64 * 1024, file_size_max=256 * 1024),
        segment=SegmentSettings(
            seal_records=BATCH, own_bytes_min=1, block_records=16, checkpoint_interval_s=1e9
        ),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
        lake=LakeSettings(**{"hot_segments": 1, "zone_rows": 20, "file_bytes": 1, **lake}),
    )


def open_store(path: str, clock: SimClock | None = None, **lake: Any) -> Store:
    return strandline.open(path, settings=settings(**lake), start_jobs=False, clock=clock)


def fill(store: Store, topic: Topic, batches: int = 5, *, clock: SimClock | None = None) -> None:
    """Batches of records, each checkpointed; an hour passes between two records of a slow clock."""
    for _ in range(batches):
        first = topic.head_seq + 1
        for seq in range(first, first + BATCH):
            topic.append(b"%d" % seq, tag=f"t{seq // 20:03d}", key=b"k%05d" % (seq * 7919 % 10_000))
            if clock is not None:
                clock.advance(3600)
        store.checkpoint()


def cold_store(path: str, batches: int = 5, name: str = "t", **options: Any) -> Store:
    """A store whose topic has all but its last forty records in the lake, and ten in the log."""
    store = open_store(path)
    topic = store.topic(name, **options)
    fill(store, topic, batches)
    store.relocate()
    topic.append_many([b"hot"] * 10, tags=["hot"] * 10)
    return store


def random_store(path: str, seed: int) -> Store:
    """A topic after a random life: batches, deletes, caps, checkpoints, files in the lake."""
    choices = random.Random(seed)
    store = open_store(path, hot_segments=choices.choice([0, 1, 2]))
    topic = store.topic("t")
    for _ in range(choices.randrange(8, 16)):
        _one_step(choices, store, topic)
    return store


def _one_step(choices: random.Random, store: Store, topic: Topic) -> None:
    step = choices.randrange(12)
    if step < 5:
        count = choices.randrange(1, 90)
        topic.append_many(
            [b"%d" % choices.randrange(1000) for _ in range(count)],
            keys=[choices.choice([None, b"", b"\xff", b"k%d" % choices.randrange(50)])] * count,
            tags=[choices.choice([None, "eu", "eu-1", "us", "ü"]) for _ in range(count)],
            nodes=[choices.choice([None, "a"])] * count,
            metas=[choices.choice([None, b"m"]) for _ in range(count)],
        )
    elif step < 7:
        for number in range(choices.randrange(1, 10)):
            topic.append(b"single %d" % number)
    elif step < 9:
        store.checkpoint()
    elif step == 9:
        store.relocate()
    elif step == 10:
        topic.delete(match=choices.choice(["eu*", "us", "eu-1"]))
    elif choices.random() < 0.5:
        topic.delete(before=max(1, topic.head_seq // 3))
    else:
        topic.alter(cap_records=choices.choice([0, 60, 150]))


def records(path: str, name: str = "t", **lake: Any) -> list[Row]:
    """What the topic itself says, as a read-only reader sees it."""
    with strandline.open(path, readonly=True, settings=settings(**lake)) as store:
        return all_rows(store.existing_topic(name))


def all_rows(topic: Topic) -> list[Row]:
    """All rows of a topic, in order."""
    found: list[Row] = []
    after = 0
    while True:
        page = topic.read(after, 1000)
        found += [row_of(record) for record in page.records]
        after = page.next
        if page.caught_up:
            return found


def row_of(record: strandline.Record) -> Row:
    return tuple(getattr(record, name) for name in RECORD)


def reader(path: str, topic: str = "t", **options: str) -> BatchReader:
    return BatchReader(parse({"store": path, "topic": topic, **options}))


def read(made: Any, partitions: Sequence[InputPartition] | None = None) -> list[Row]:
    """The rows of all tasks, each read by a copy as an executor has it."""
    found: list[Row] = []
    for partition in made.partitions() if partitions is None else partitions:
        copy = pickle.loads(pickle.dumps(made))
        for batch in copy.read(pickle.loads(pickle.dumps(partition))):
            found += rows(pa.table(batch))
    return found


def read_where(path: str, *filters: Filter) -> list[Row]:
    made = reader(path)
    assert list(made.pushFilters(list(filters))) == []
    return read(made)


def rows(table: pa.Table) -> list[Row]:
    """Rows with times in microseconds."""
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return list(zip(*(column.to_pylist() for column in plain), strict=True))
