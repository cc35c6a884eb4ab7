"""Spark over a topic: tables and reads against plain Parquet, and how fast a stream follows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import strandline
import strandline.spark
from bench import decoded
from bench.measure import Figure, percentile, scaled
from strandline.lake.files.file_writer import ZONE_ROWS
from strandline.pipelines.splits.record_schema import RECORD

ROWS = 20_000_000
SEAL_ROWS = 500_000
BATCH_ROWS = 50_000
DELIVERED = 150_000
"""Records whose way through a stream is timed: half a minute."""
DELIVERED_S_MAX = 60.0
ROUNDS = 5
KEY = b"k500000000000"  # in no record, between those that are there


def run(folder: Path, *, scale: float) -> list[Figure]:
    path = str(folder / "spark-store")
    rows = _fill(path, scaled(ROWS, scale))
    unindexed = _copy_without_index(path, folder / "unindexed")
    spark = strandline.spark.session("local[2]", **{"spark.driver.memory": "3g"})
    try:
        figures = _tables(spark, path, rows)
        figures += _sources(spark, path, rows, str(folder / "decoded.arrow"))
        figures.append(_selective(spark, path, unindexed))
        figures.append(_available_now(spark, path, folder, rows))
        figures += _latency(spark, str(folder / "spark-live"), folder, scaled(DELIVERED, scale))
    finally:
        spark.stop()
    return figures


def _fill(path: str, count: int) -> int:
    """A topic that is all in the lake. Tags rise with time, keys are scattered."""
    random = np.random.default_rng(7)
    data = pa.array([random.bytes(100) for _ in range(BATCH_ROWS)], pa.binary())
    total = 0
    settings = strandline.Settings(
        segment=strandline.SegmentSettings(
            checkpoint_bytes=1 << 40,
            checkpoint_interval_s=1e9,
            seal_records=min(SEAL_ROWS, max(BATCH_ROWS, count)),
        ),
        lake=strandline.LakeSettings(hot_segments=0),
    )
    with strandline.open(path, settings=settings, start_jobs=False) as store:
        topic = store.topic("t")
        while total < count:
            keys = [b"k%012d" % number for number in random.integers(0, 10**12, BATCH_ROWS)]
            tags = [f"day-{total // SEAL_ROWS:05d}"] * BATCH_ROWS
            columns = {"data": data, "key": pa.array(keys), "tag": pa.array(tags)}
            topic.append_arrow(pa.table(columns))
            total += BATCH_ROWS
            if total % SEAL_ROWS == 0 or total >= count:
                store.checkpoint()
                store.relocate()
    return total


def _files(path: str) -> list[str]:
    return sorted(str(file) for file in Path(path, "lake").rglob("*.parquet"))


def _copy_without_index(path: str, folder: Path) -> list[str]:
    folder.mkdir()
    made = []
    for place, file in enumerate(_files(path)):
        made.append(str(folder / f"{place}.parquet"))
        pq.write_table(
            pq.read_table(file),
            made[-1],
            row_group_size=ZONE_ROWS,
            compression="zstd",
            compression_level=1,
            write_statistics=False,
        )
    return made


def _tables(spark: SparkSession, path: str, rows: int) -> list[Figure]:
    files = _files(path)

    def native() -> DataFrame:
        return spark.read.parquet(*files)

    def table() -> DataFrame:
        return strandline.spark.table(spark, path, "t")

    return [
        _compared("table: full scan", lambda: _scan(table()), lambda: _scan(native()), rows, 0.9),
        _compared(
            "table: aggregate of 3 columns",
            lambda: _aggregate(table()),
            lambda: _aggregate(native()),
            rows,
            0.9,
        ),
    ]


def _sources(spark: SparkSession, path: str, rows: int, batch: str) -> list[Figure]:
    """Reads through Python beside the plain one, and beside batches that are decoded already."""
    files = _files(path)
    decoded.prepare(spark, files[0], batch)
    figures = []
    for name, work, columns, goal in [
        ("full scan", _scan, RECORD, 0.7),
        ("aggregate, columns chosen", _aggregate, ("seq", "ts", "tag"), 0.5),
    ]:
        figures += _limited(
            name,
            partial(_source, spark, path, columns, work),
            lambda work=work: work(spark.read.parquet(*files)),
            lambda work=work, columns=columns: work(decoded.frame(spark, batch, rows, columns)),
            rows,
            goal,
        )
    return figures


def _source(
    spark: SparkSession, path: str, columns: Sequence[str], work: Callable[[DataFrame], None]
) -> None:
    reading = spark.read.format("strandline").option("topic", "t")
    work(reading.option("columns", ",".join(columns)).load(path))


def _scan(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: DataFrame) -> None:
    frame.groupBy("tag").agg(f.max("seq"), f.min("ts")).write.format("noop").mode(
        "overwrite"
    ).save()


def _selective(spark: SparkSession, path: str, unindexed: list[str]) -> Figure:
    wanted = [("tag", "=", "day-00001"), ("key", "=", KEY)]

    def ours() -> None:
        strandline.spark.table(spark, path, "t", where=wanted).count()

    def peer() -> None:
        key = f.lit(bytearray(KEY))
        frame = spark.read.parquet(*unindexed)
        frame.where((f.col("tag") == "day-00001") & (f.col("key") == key)).count()

    plan = strandline.spark.plan(path, "t", where=wanted)
    figure = _compared("table: selective filter", ours, peer, 1, 3.0)
    figure.unit = "query/s"
    figure.peer = "a copy without statistics"
    figure.note = (
        f"files {plan.files} read {plan.files_skipped} skipped, "
        f"zones of those {plan.zones} read {plan.zones_skipped} skipped"
    )
    return figure


def _limited(
    name: str,
    ours: Callable[[], None],
    peer: Callable[[], None],
    limit: Callable[[], None],
    rows: int,
    goal: float,
) -> list[Figure]:
    """Ours, the peer and the limit of ours in turn."""
    own, theirs, least = _best(ours, peer, limit)
    mine = _figure(f'format("strandline"): {name}', rows, own, theirs, goal)
    mine.note = f"{least / own:.2f} of the limit"
    bare = _figure(f"the limit of Python: {name}, decoded already", rows, least, theirs)
    return [mine, bare]


def _compared(
    name: str, ours: Callable[[], None], peer: Callable[[], None], rows: int, goal: float
) -> Figure:
    return _figure(name, rows, *_best(ours, peer), goal)


def _best(*works: Callable[[], None]) -> tuple[float, ...]:
    """The least time of each; they take turns, so that all meet the same machine."""
    for work in works:
        work()
    taken = [[_seconds(work) for work in works] for _ in range(ROUNDS)]
    return tuple(min(times) for times in zip(*taken, strict=True))


def _figure(name: str, rows: int, own: float, theirs: float, goal: float | None = None) -> Figure:
    ratio = theirs / own
    return Figure(
        name=name,
        value=rows / own,
        unit="rec/s",
        peer="spark.read.parquet",
        ratio=ratio,
        goal="" if goal is None else f">= {goal} x",
        met=None if goal is None else ratio >= goal,
    )


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _available_now(spark: SparkSession, path: str, folder: Path, rows: int) -> Figure:
    query = (
        spark.readStream.format("strandline")
        .option("topic", "t")
        .load(path)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint-all"))
        .trigger(availableNow=True)
    )
    start = time.perf_counter()
    query.start().awaitTermination()
    value = rows / (time.perf_counter() - start)
    goal = 200_000
    return Figure(
        name="stream: available now, all of the lake",
        value=value,
        unit="rec/s",
        goal=f">= {goal:,}",
        met=value >= goal,
    )


def _latency(spark: SparkSession, path: str, folder: Path, count: int) -> list[Figure]:
    """From the stamp of a record to its arrival in ``foreachBatch``, at 5,000 a second."""
    waits: list[float] = []
    ended = threading.Event()

    def arrived(frame: DataFrame, batch: int) -> None:
        stamps = frame.select("ts").toArrow()["ts"].cast(pa.int64()).to_numpy()
        if batch > 3 and not ended.is_set():
            waits.extend(((time.time_ns() // 1000 - stamps) / 1000).tolist())

    with strandline.open(path) as store:
        topic = store.topic("t")
        topic.append(b"first")
        query = (
            spark.readStream.format("strandline")
            .option("topic", "t")
            .load(path)
            .writeStream.foreachBatch(arrived)
            .option("checkpointLocation", str(folder / "checkpoint-live"))
            .start()
        )
        begun = time.monotonic()
        deadline = begun + DELIVERED_S_MAX
        while len(waits) < count and time.monotonic() < deadline and query.isActive:
            topic.append_many([b"x" * 100] * 50)
            time.sleep(0.01)
        ended.set()
        seconds = time.monotonic() - begun
        query.stop()
    p50 = percentile(waits, 0.5)
    return [
        Figure(
            name="stream: record to batch, p50",
            value=p50,
            unit="ms",
            goal="< 500 ms",
            met=p50 < 500,
            note=f"{len(waits) / seconds:,.0f} records/s",
        ),
        Figure(name="stream: record to batch, p99", value=percentile(waits, 0.99), unit="ms"),
    ]
