"""``strandline bench``: a quick measurement of rates, beside the raw rates of the disk.

Every rate is printed next to a raw rate of the same run, with the same bytes: only their ratio
describes Strandline. ``make bench`` measures thoroughly.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import msgspec

from strandline.cli.maintenance import server_bench
from strandline.cli.maintenance.bench_timer import MeasuredRate, measurement, rate, threads_rate
from strandline.cli.open_store import open_target_to_read
from strandline.cli.options import TARGET, Target
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.cli.output.progress import Bar
from strandline.config.settings import MIB, SegmentSettings, Settings, WalSettings
from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.store import Store

_RECORD = b"one hundred bytes, neither long nor short, like many that are kept".ljust(100, b".")
_BATCH = 1000
_RAW_SIZE_MIN = 4 << 20
_RAW_SIZE_MAX = 60 << 20
_THREADS = 16
_KINDS = 5
_PAGE = 10_000
_RECORDS_MAX = 100_000
_FRAME_SIZE = 200  # an upper bound of a record in the log


def bench(*, directory: str = ".", seconds: float = 1.0, target: Target = TARGET) -> None:
    """Measure appends and reads on this disk or a server.

    A server is measured if it is named, in a topic that is deleted at the end.

    Parameters
    ----------
    directory
        Directory for the temporary store: on the disk to measure.
    seconds
        Duration of each measurement.
    """
    if not os.path.isdir(directory):
        raise Invalid(f"{directory} is not a directory")
    if not 0 < seconds <= 60:
        raise Invalid("--seconds is more than 0 and at most 60")
    out = output(target.output)
    out.rows(_of_server(target, seconds) if target.is_remote else _of_disk(directory, seconds))
    out.end()


def _of_server(target: Target, seconds: float) -> list[OutputRow]:
    with open_target_to_read(target) as store:
        return _rows(server_bench.measure(store, seconds, _THREADS), server_bench.KINDS)


def _of_disk(directory: str, seconds: float) -> list[OutputRow]:
    folder = tempfile.mkdtemp(prefix=".strandline-bench-", dir=directory)
    try:
        return _rows(_measure(folder, seconds), _KINDS)
    finally:
        shutil.rmtree(folder)


def _rows(measured: Iterator[MeasuredRate], count: int) -> list[OutputRow]:
    rows: list[OutputRow] = []
    with Bar() as bar:
        for each in measured:
            rows.append(_row(each))
            bar.show("measuring", len(rows), count)
    return rows


def _measure(folder: str, seconds: float) -> Iterator[MeasuredRate]:
    raw = _Raw(folder, seconds)
    batch = [_RECORD] * _BATCH
    per_record = _append(f"{folder}/one", lambda topic: topic.append(_RECORD), 1, seconds)
    yield measurement("append, 1 record", per_record, "pwrite of 100 B", raw.write_one())
    per_batch = _append(f"{folder}/many", lambda topic: topic.append_many(batch), _BATCH, seconds)
    yield measurement("append_many, 1000", per_batch, "pwrite of 100 kB", raw.write_many() * _BATCH)
    raw_sync = raw.write_and_sync()
    with Store(f"{folder}/store") as store:
        topic = store.topic("fsync", durability="fsync")
        single = rate(lambda: topic.append(_RECORD), seconds)
        yield measurement("append fsync, 1 thread", single, "pwrite + fdatasync", raw_sync)
        parallel = threads_rate(lambda: topic.append(_RECORD), seconds, _THREADS)
        name = f"append fsync, {_THREADS} threads"
        yield measurement(name, parallel, "pwrite + fdatasync", raw_sync)
    with Store(f"{folder}/many", readonly=True) as store:
        topic = store.existing_topic("bench")
        cursors = itertools.cycle(range(0, max(1, topic.head_seq - _PAGE), _PAGE))
        pages = rate(lambda: topic.read(next(cursors), _PAGE).data, seconds)
        records = pages * min(_PAGE, topic.head_seq)
        yield measurement("read, pages of 10000", records, "pread of 1 MB", raw.read() * _PAGE)


def _append(path: str, append: Callable[[Topic], object], records: int, seconds: float) -> float:
    """Records per second, within one WAL file: excludes the preparation of the next file."""
    times_max = max(1, int(_RECORDS_MAX * min(1.0, seconds)) // records)
    file_size = MIB + (times_max + 1) * records * _FRAME_SIZE
    wal = WalSettings(file_size_first=file_size, file_size_max=file_size)
    segment = SegmentSettings(checkpoint_bytes=2 * file_size)
    with Store(path, settings=Settings(wal=wal, segment=segment)) as store:
        topic = store.topic("bench")
        append(topic)
        return rate(lambda: append(topic), seconds, times_max=times_max) * records


class _Raw:
    """The rates of the disk alone: the same bytes through plain system calls."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._seconds = seconds
        # As large as the measured file: a smaller one would stay in the cache of the processor.
        self._size = int(_RAW_SIZE_MAX * min(1.0, seconds)) + _RAW_SIZE_MIN
        self._path = f"{folder}/raw"
        with open(self._path, "wb") as file:
            for _ in range(self._size >> 20):
                file.write(bytes(1 << 20))
            os.fsync(file.fileno())

    def write_one(self) -> float:
        return self._rate(len(_RECORD), lambda fd, at: os.pwrite(fd, _RECORD, at))

    def write_many(self) -> float:
        chunk = _RECORD * _BATCH
        return self._rate(len(chunk), lambda fd, at: os.pwrite(fd, chunk, at))

    def write_and_sync(self) -> float:
        def write(fd: int, at: int) -> None:
            os.pwrite(fd, _RECORD, at)
            os.fdatasync(fd)

        return self._rate(len(_RECORD), write)

    def read(self) -> float:
        size = len(_RECORD) * _PAGE
        return self._rate(size, lambda fd, at: os.pread(fd, size, at))

    def _rate(self, step: int, operation: Callable[[int, int], object]) -> float:
        fd = os.open(self._path, os.O_RDWR)
        offset = 0

        def step_once() -> None:
            nonlocal offset
            operation(fd, offset)
            offset = (offset + step) % (self._size - step)

        try:
            return rate(step_once, self._seconds)
        finally:
            os.close(fd)


def _row(measured: MeasuredRate) -> PreparedRow:
    cells = {
        "work": measured.work,
        "records/s": f"{measured.per_s:,.0f}",
        "raw": measured.raw,
        "raw/s": f"{measured.raw_per_s:,.0f}",
        "ratio": f"{measured.ratio:.2f}",
    }
    return PreparedRow(msgspec.to_builtins(measured), cells)
