"""The rates chapter: each rate beside a raw one of the same run and the same bytes.

Every kind of append has its own store and stays within one WAL file, so that the preparation of the
next file is not measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from examples.tour.raw import Raw, rate
from examples.tour.scene import Scene
from examples.tour.stage import Stage
from strandline.config.settings import MIB, SegmentSettings, Settings, WalSettings
from strandline.log.topic.topic import Topic
from strandline.store import Store

_RECORD = b"one hundred bytes, neither long nor short, like many that are kept".ljust(100, b".")
_MANY = 1000
_ROWS = 10_000
_THREADS = 16
_FRAME_SIZE = 200  # an upper bound of a record in the log

Rate = tuple[str, float, str, float]
"""The work, records per second, the raw work, its records per second."""


def show(stage: Stage, scene: Scene) -> None:
    stage.title("Rates on this machine, beside the raw disk (records of 100 bytes)")
    raw = Raw(f"{scene.scratch}/raw", scene.measure_s)
    try:
        rates = [*_appends(scene, raw), *_syncs(scene, raw), *_reads(scene, raw)]
    finally:
        raw.close()
    rows = [
        [work, short(ours_per_s), raw_work, short(raw_per_s), f"{ours_per_s / raw_per_s:.2f}"]
        for work, ours_per_s, raw_work, raw_per_s in rates
    ]
    stage.table(["work", "records/s", "raw", "raw/s", "ratio"], rows)
    stage.print_line(
        "a quick measurement on a machine that may be busy: make bench measures thoroughly"
    )


def short(value: float) -> str:
    """A number, shortened: 13.1 M, 159.5 k, 763."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:,.1f}{name}"
    return f"{value:.0f}"


def _appends(scene: Scene, raw: Raw) -> Iterator[Rate]:
    batch = [_RECORD] * _MANY
    table = pa.record_batch({"data": pa.array([_RECORD] * _ROWS, pa.binary())})
    per_s = _append(scene, "one", lambda topic: topic.append(_RECORD), 1)
    yield "append, one by one", per_s, "pwrite 100 B", raw.write(_RECORD)
    per_s = _append(scene, "many", lambda topic: topic.append_many(batch), _MANY)
    yield "append_many, 1000", per_s, "pwrite 100 kB", raw.write(_RECORD * _MANY) * _MANY
    per_s = _append(scene, "arrow", lambda topic: topic.append_arrow(table), _ROWS)
    yield "append_arrow, 10000", per_s, "pwrite 1 MB", raw.write(_RECORD * _ROWS) * _ROWS


def _append(scene: Scene, name: str, append: Callable[[Topic], object], records: int) -> float:
    times_max = max(1, scene.rate_records // records)
    file_size = MIB + (times_max + 1) * records * _FRAME_SIZE
    wal = WalSettings(file_size_first=file_size, file_size_max=file_size)
    segment = SegmentSettings(checkpoint_bytes=2 * file_size)
    path = f"{scene.scratch}/{name}"
    with Store(path, settings=Settings(wal=wal, segment=segment)) as store:
        topic = store.topic("topic")
        append(topic)
        return rate(lambda: append(topic), scene.measure_s, times_max=times_max) * records


def _syncs(scene: Scene, raw: Raw) -> Iterator[Rate]:
    raw_per_s = raw.write_and_sync(_RECORD)
    with Store(f"{scene.scratch}/syncs") as store:
        topic = store.topic("topic", durability="fsync")
        single = rate(lambda: topic.append(_RECORD), scene.measure_s)
        yield "append fsync, 1 thread", single, "pwrite + fdatasync", raw_per_s
        parallel = _parallel_rate(lambda: topic.append(_RECORD), scene.measure_s)
        yield f"append fsync, {_THREADS} threads", parallel, "pwrite + fdatasync", raw_per_s


def _reads(scene: Scene, raw: Raw) -> Iterator[Rate]:
    path = f"{scene.scratch}/reads"
    with Store(path) as store:
        topic = store.topic("topic")
        for _ in range(max(1, scene.rate_records // _ROWS)):
            topic.append_many([_RECORD] * _ROWS)
        raw_per_s = raw.read(len(_RECORD) * _ROWS) * _ROWS
        data = _read(topic, scene.measure_s, lambda cursor: topic.read(cursor, _ROWS).data)
        yield "read as bytes", data, "pread 1 MB", raw_per_s
        columns = _read(topic, scene.measure_s, lambda cursor: topic.read(cursor, _ROWS).arrow())
        yield "read as Arrow", columns, "pread 1 MB", raw_per_s
        count = topic.head_seq
    started_at = time.perf_counter()
    Store(path, readonly=True).close()
    yield "recovery", count / (time.perf_counter() - started_at), "pread 1 MB", raw_per_s


def _read(topic: Topic, seconds: float, read: Callable[[int], object]) -> float:
    pages = max(1, topic.head_seq // _ROWS)
    page = 0

    def read_page() -> None:
        nonlocal page
        read(page % pages * _ROWS)
        page += 1

    return rate(read_page, seconds) * _ROWS


def _parallel_rate(operation: Callable[[], object], seconds: float) -> float:
    rates: list[float] = []
    threads = [
        threading.Thread(target=lambda: rates.append(rate(operation, seconds)))
        for _ in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)
