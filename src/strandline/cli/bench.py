"""``strandline bench``: a quick look at the rates on this disk, beside what the disk itself does.

Every rate stands next to a raw one of the same run, with the same bytes: only their ratio says
something about Strandline. ``make bench`` measures thoroughly.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from strandline.cli.cells import Made
from strandline.cli.options import Shape
from strandline.cli.output import output
from strandline.cli.progress import Bar
from strandline.errors import Invalid
from strandline.settings import MIB, SegmentSettings, Settings, WalSettings
from strandline.store import Store
from strandline.topic.topic import Topic

_RECORD = b"one hundred bytes, neither long nor short, like many that are kept".ljust(100, b".")
_BATCH = 1000
_RAW_SIZE_MIN = 4 << 20
_RAW_SIZE_MAX = 60 << 20
_THREADS = 16
_KINDS = 5
_ROUNDS = 5
_PAGE = 10_000
_RECORDS_MAX = 100_000
_FRAME_SIZE = 200  # more than a record takes in the log


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One rate beside the raw one that bounds it."""

    work: str
    per_s: float
    raw: str
    raw_per_s: float
    ratio: float


def bench(
    *,
    directory: str = ".",
    seconds: float = 1.0,
    shape: Annotated[Shape, Parameter(name="--output")] = "table",
) -> None:
    """Measure appends and reads on this disk for a few seconds.

    Parameters
    ----------
    directory
        Where to put the temporary store: the disk to measure.
    seconds
        How long to measure each kind of work.
    shape
        A table to read, one JSON value, or one JSON value per line.
    """
    if not os.path.isdir(directory):
        raise Invalid(f"{directory} is not a directory")
    if not 0 < seconds <= 60:
        raise Invalid("--seconds is more than 0 and at most 60")
    out = output(shape)
    folder = tempfile.mkdtemp(prefix=".strandline-bench-", dir=directory)
    try:
        with Bar() as bar:
            rows = []
            for measured in _measure(folder, seconds):
                rows.append(_row(measured))
                bar.show("measuring", len(rows), _KINDS)
        out.rows(rows)
        out.end()
    finally:
        shutil.rmtree(folder)


def _measure(folder: str, seconds: float) -> Iterator[Measured]:
    raw = _Raw(folder, seconds)
    batch = [_RECORD] * _BATCH
    one = _append(f"{folder}/one", lambda topic: topic.append(_RECORD), 1, seconds)
    yield _beside("append, 1 record", one, "pwrite of 100 B", raw.write_one())
    many = _append(f"{folder}/many", lambda topic: topic.append_many(batch), _BATCH, seconds)
    yield _beside("append_many, 1000", many, "pwrite of 100 kB", raw.write_many() * _BATCH)
    raw_sync = raw.write_and_sync()
    with Store(f"{folder}/store") as store:
        topic = store.topic("fsync", durability="fsync")
        lone = rate(lambda: topic.append(_RECORD), seconds)
        yield _beside("append fsync, 1 thread", lone, "pwrite + fdatasync", raw_sync)
        together = _threads_rate(lambda: topic.append(_RECORD), seconds)
        name = f"append fsync, {_THREADS} threads"
        yield _beside(name, together, "pwrite + fdatasync", raw_sync)
    with Store(f"{folder}/many", readonly=True) as store:
        topic = store.existing_topic("bench")
        cursors = itertools.cycle(range(0, max(1, topic.head_seq - _PAGE), _PAGE))
        pages = rate(lambda: topic.read(next(cursors), _PAGE).data, seconds)
        records = pages * min(_PAGE, topic.head_seq)
        yield _beside("read, pages of 10000", records, "pread of 1 MB", raw.read() * _PAGE)


def _append(path: str, append: Callable[[Topic], object], records: int, seconds: float) -> float:
    """Records per second, within one WAL file: not how fast the disk prepares the next one."""
    times_max = max(1, int(_RECORDS_MAX * min(1.0, seconds)) // records)
    file_size = MIB + (times_max + 1) * records * _FRAME_SIZE
    wal = WalSettings(file_size_first=file_size, file_size_max=file_size)
    segment = SegmentSettings(checkpoint_bytes=2 * file_size)
    with Store(path, settings=Settings(wal=wal, segment=segment)) as store:
        topic = store.topic("bench")
        append(topic)
        return rate(lambda: append(topic), seconds, times_max=times_max) * records


class _Raw:
    """What the disk does without us: the same bytes through the bare system calls."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._seconds = seconds
        # As large as what is measured beside it, or all of it would stay in the processor's cache.
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
        def act(fd: int, at: int) -> None:
            os.pwrite(fd, _RECORD, at)
            os.fdatasync(fd)

        return self._rate(len(_RECORD), act)

    def read(self) -> float:
        size = len(_RECORD) * _PAGE
        return self._rate(size, lambda fd, at: os.pread(fd, size, at))

    def _rate(self, step: int, act: Callable[[int, int], object]) -> float:
        fd = os.open(self._path, os.O_RDWR)
        place = 0

        def turn() -> None:
            nonlocal place
            act(fd, place)
            place = (place + step) % (self._size - step)

        try:
            return rate(turn, self._seconds)
        finally:
            os.close(fd)


def rate(act: Callable[[], object], seconds: float, *, times_max: int = 1 << 62) -> float:
    """How often per second something can be done: the median of a few rounds."""
    round_max = max(1, times_max // _ROUNDS)
    return statistics.median(_round(act, seconds / _ROUNDS, round_max) for _ in range(_ROUNDS))


def _round(act: Callable[[], object], seconds: float, times_max: int) -> float:
    begun = time.perf_counter()
    count = 0
    while count < times_max and time.perf_counter() - begun < seconds:
        act()
        count += 1
    return count / (time.perf_counter() - begun)


def _threads_rate(act: Callable[[], object], seconds: float) -> float:
    rates: list[float] = []
    threads = [
        threading.Thread(target=lambda: rates.append(rate(act, seconds))) for _ in range(_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _beside(work: str, per_s: float, raw: str, raw_per_s: float) -> Measured:
    return Measured(
        work=work,
        per_s=round(per_s, 1),
        raw=raw,
        raw_per_s=round(raw_per_s, 1),
        ratio=round(per_s / raw_per_s, 3),
    )


def _row(measured: Measured) -> Made:
    cells = {
        "work": measured.work,
        "records/s": f"{measured.per_s:,.0f}",
        "raw": measured.raw,
        "raw/s": f"{measured.raw_per_s:,.0f}",
        "ratio": f"{measured.ratio:.2f}",
    }
    return Made(msgspec.to_builtins(measured), cells)
