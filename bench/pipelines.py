"""A compaction of many small files: on threads, on Spark, and as one would write it by hand."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import strandline
import strandline.spark
from bench.measure import Figure, scaled
from strandline.lake import external_reader
from strandline.pipelines import Embedded, compact
from strandline.spark import SparkEngine

FILES = 2_000
FILE_ROWS = 10_000
ROUNDS = 2
SETTINGS = strandline.Settings(
    segment=strandline.SegmentSettings(
        checkpoint_bytes=1 << 40, checkpoint_interval_s=1e9, seal_records=FILE_ROWS, own_bytes_min=1
    ),
    lake=strandline.LakeSettings(hot_segments=0, file_bytes=1),
)


def run(folder: Path, *, scale: float) -> list[Figure]:
    """The same lake for each; before each a copy of it."""
    filled = folder / "pipeline-filled"
    rows, files = _fill(str(filled), scaled(FILES, scale, least=8))
    spark = strandline.spark.session("local[2]", **{"spark.driver.memory": "3g"})
    try:
        by_hand = _best(filled, folder, lambda store: _by_hand(spark, store))
        figures = []
        for name, engine in (("embedded", Embedded()), ("spark", SparkEngine(spark))):
            seconds = _best(filled, folder, lambda store, engine=engine: _ours(store, engine, rows))
            figures.append(
                Figure(
                    name=f"compact {files} files: {name}",
                    value=rows / seconds,
                    unit="rec/s",
                    peer="read.parquet, repartitionByRange, sort, write",
                    ratio=by_hand / seconds,
                    goal=">= 1.0 x",
                    met=by_hand >= seconds,
                    note=f"{seconds:.1f} s against {by_hand:.1f} s",
                )
            )
    finally:
        spark.stop()
        shutil.rmtree(filled)
    return figures


def _fill(path: str, files: int) -> tuple[int, int]:
    """A topic of many small lake files, records of 100 bytes that do not compress."""
    random = np.random.default_rng(7)
    data = pa.array([random.bytes(100) for _ in range(FILE_ROWS)], pa.binary())
    with strandline.open(path, settings=SETTINGS, start_jobs=False) as store:
        topic = store.topic("t")
        for number in range(files):
            keys = [b"k%012d" % key for key in random.integers(0, 10**12, FILE_ROWS)]
            tags = [f"day-{number // 100:05d}"] * FILE_ROWS
            columns = {"data": data, "key": pa.array(keys), "tag": pa.array(tags)}
            topic.append_arrow(pa.table(columns))
            store.checkpoint()
            if number % 50 == 49 or number == files - 1:
                store.relocate()
    return files * FILE_ROWS, len(external_reader.files(f"{path}/lake", "t").files)


def _best(filled: Path, folder: Path, work: Callable[[str], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        store = folder / "pipeline-store"
        shutil.copytree(filled, store)
        begun = time.perf_counter()
        work(str(store))
        times.append(time.perf_counter() - begun)
        shutil.rmtree(store)
    return min(times)


def _ours(store: str, engine: Embedded | SparkEngine, rows: int) -> None:
    summary = compact(store, engine=engine)
    assert not summary.skipped
    assert summary.rows_after == rows


def _by_hand(spark: SparkSession, store: str) -> None:
    """What somebody without a manifest would do; files as large as ours."""
    found = external_reader.files(f"{store}/lake", "t")
    folder = str(Path(found.files[0].url).parent)
    parts = max(1, -(-found.size // strandline.LakeSettings().file_bytes))
    frame = spark.read.parquet(folder)
    frame.repartitionByRange(parts, "seq").sortWithinPartitions("seq").write.option(
        "compression", "zstd"
    ).parquet(f"{store}/by-hand")
