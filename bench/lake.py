"""History into the lake and back: relocation and scans of a store against plain pyarrow."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet as pq

import strandline
from bench import lake_files, lake_manifests
from bench.measure import Figure, scaled
from strandline.lake.files.file_writer import ZONE_ROWS, parquet_options
from strandline.lake.files.record_columns import SCHEMA

SEAL_ROWS = 500_000
PAGE_ROWS = 100_000
SETTINGS = strandline.Settings(
    segment=strandline.SegmentSettings(
        checkpoint_bytes=1 << 40, checkpoint_interval_s=1e9, seal_records=SEAL_ROWS
    ),
    lake=strandline.LakeSettings(hot_segments=0),
)


def run(folder: Path, *, scale: float) -> list[Figure]:
    figures = _relocation(folder / "relocated", scaled(10_000_000, scale))
    figures += lake_files.run(folder, scale=min(scale, 0.2))
    return figures + lake_manifests.run(scale=scale)


def _relocation(folder: Path, count: int) -> list[Figure]:
    rows = lake_files.sample_rows(min(count, SEAL_ROWS))
    rounds = max(1, count // len(rows))
    folder.mkdir()
    with strandline.open(str(folder / "data"), settings=SETTINGS, start_jobs=False) as store:
        topic = store.topic("t")
        for _ in range(rounds):
            for start in range(0, len(rows), lake_files.BATCH_ROWS):
                topic.append_arrow(rows.drop(["seq", "ts"]).slice(start, lake_files.BATCH_ROWS))
            store.checkpoint()
        start = time.perf_counter()
        store.relocate()
        moving = time.perf_counter() - start
        writing = _write_plain(folder / "plain.parquet", rows) * rounds
        reading = [_read(topic) for _ in range(3)]
        files = sorted((folder / "data" / "lake").rglob("*.parquet"))
        scanning = [_scan([str(file) for file in files]) for _ in range(3)]
    total = rounds * len(rows)
    return [
        Figure(
            name="relocate 200 B records",
            value=total / moving,
            unit="rec/s",
            peer="pyarrow writing the same rows",
            ratio=writing / moving,
            goal=">= 0.5 x",
            met=writing / moving >= 0.5,
        ),
        Figure(
            name="read the lake through the topic as Arrow",
            value=total / min(reading),
            unit="rec/s",
            peer="pyarrow.dataset",
            ratio=min(scanning) / min(reading),
            goal=">= 0.7 x",
            met=min(scanning) / min(reading) >= 0.7,
        ),
    ]


def _write_plain(path: Path, rows: pyarrow.Table) -> float:
    pq.write_table(rows, path, row_group_size=ZONE_ROWS, **parquet_options(SCHEMA))
    start = time.perf_counter()
    pq.write_table(rows, path, row_group_size=ZONE_ROWS, **parquet_options(SCHEMA))
    return time.perf_counter() - start


def _read(topic: strandline.Topic) -> float:
    start = time.perf_counter()
    after = 0
    while True:
        page = topic.read(after, PAGE_ROWS, size_max=1 << 30)
        assert page.arrow().num_columns == len(SCHEMA)
        after = page.next
        if page.caught_up:
            return time.perf_counter() - start


def _scan(paths: list[str]) -> float:
    start = time.perf_counter()
    for batch in pyarrow.dataset.dataset(paths, format="parquet").to_batches():
        assert batch.num_columns == len(SCHEMA)
    return time.perf_counter() - start
