"""The lake chapter: history moves into Parquet files, which other programs read."""

from __future__ import annotations

import pyarrow.parquet as pq

from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.config.settings import LakeSettings, SegmentSettings, Settings
from strandline.lake import external_reader
from strandline.log.repair.verify import verify_store
from strandline.log.topic.topic import Topic
from strandline.platform.disk import OsDisk
from strandline.store import Store

_DAYS = 5


def show(stage: Stage, scene: Scene) -> None:
    stage.title("Older records become Parquet, readable by any program")
    settings = Settings(
        segment=SegmentSettings(seal_records=scene.orders, own_bytes_min=1),
        lake=LakeSettings(hot_segments=1),
    )
    with Store(scene.store, settings=settings) as store:
        history = store.topic("history")
        _append(stage, store, history, scene.orders)
        _relocate(stage, store, history)
    _read_with_pyarrow(stage, scene.store)
    _read_as_dataset(stage, scene)
    report = verify_store(OsDisk(), scene.store, settings)
    stage.check(report.ok, f"verify read the lake, too: {len(report.problems)} problems")


def _append(stage: Stage, store: Store, history: Topic, count: int) -> None:
    with stage.bar("appending", _DAYS) as update:
        for day in range(_DAYS):
            history.append([b'{"item": %d}' % number for number in range(count)], tag=f"day-{day}")
            store.checkpoint()
            update(day + 1)


def _relocate(stage: Stage, store: Store, history: Topic) -> None:
    store.relocate()
    cold = history.statistics().cold
    moved = 0 if cold is None else cold.last_seq
    stage.check(
        cold is not None and moved == history.head_seq * (_DAYS - 1) // _DAYS,
        f"all but the newest segment moved: seqs 1 to {moved:,} in {cold.files if cold else 0} "
        f"Parquet files of {(cold.size if cold else 0) / 1e3:,.0f} kB",
    )
    read = sum(1 for _ in history.follow(after=0, timeout_s=0))
    stage.check(
        read == history.head_seq,
        f"a reader continues from the lake into the segments: {read:,} records",
    )
    history.delete(match="day-0")
    store.relocate()


def _read_with_pyarrow(stage: Stage, path: str) -> None:
    listing = external_reader.files(f"{path}/lake", "history")
    rows = sum(pq.read_table(file.url, columns=["seq"]).num_rows for file in listing.files)
    stage.check(
        rows == listing.rows,
        f"the store is closed, and pyarrow alone reads version {listing.version}: {rows:,} rows in "
        f"{len(listing.files)} files",
    )


def _read_as_dataset(stage: Stage, scene: Scene) -> None:
    rows = external_reader.dataset(f"{scene.store}/lake", "history").count_rows()
    stage.check(
        rows == scene.orders * (_DAYS - 2),
        f"external_reader.dataset omits the deleted day: {rows:,} rows",
    )
    stage.print_line(
        "strandline lake files history --output jsonl lists them for DuckDB, Polars and Spark"
    )
