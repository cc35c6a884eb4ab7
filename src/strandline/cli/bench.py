"""``strandline bench``: a quick look at the rates on this disk, beside what the disk itself does.

Every rate stands next to a raw one of the same run, with the same bytes: only their ratio says
something about Strandline. ``make bench`` measures thoroughly.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from strandline.cli.cells import Row
from strandline.cli.options import Shape
from strandline.cli.output import output
from strandline.cli.progress import Bar
from strandline.errors import Invalid
from strandline.store import Store

_RECORD = (
    b"a record of one hundred bytes, neither long nor short, just like many that are kept:".ljust(
        100, b"."
    )
)
_BATCH = 1000
_RAW_SIZE = 64 << 20
_THREADS = 16
_KINDS = 5


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
    with Store(f"{folder}/store") as store:
        disk, synced = store.topic("disk"), store.topic("fsync", durability="fsync")
        one = rate(lambda: disk.append(_RECORD), seconds)
        yield _beside("append, 1 record", one, "pwrite of 100 B", raw.write_one())
        many = rate(lambda: disk.append_many(batch), seconds) * _BATCH
        raw_many = raw.write_many() * _BATCH
        yield _beside("append_many, 1000 records", many, "pwrite of 100 kB", raw_many)
        raw_sync = raw.write_and_sync()
        lone = rate(lambda: synced.append(_RECORD), seconds)
        yield _beside("append fsync, 1 thread", lone, "pwrite + fdatasync", raw_sync)
        together = _threads_rate(lambda: synced.append(_RECORD), seconds)
        name = f"append fsync, {_THREADS} threads"
        yield _beside(name, together, "pwrite + fdatasync", raw_sync)
        cursor = iter(_cursors(disk.head_seq))
        read = rate(lambda: disk.read(next(cursor), 10_000).data, seconds) * 10_000
        yield _beside("read, pages of 10000", read, "pread of 1 MB", raw.read() * 10_000)


class _Raw:
    """What the disk does without us: the same bytes through the bare system calls."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._seconds = seconds
        self._path = f"{folder}/raw"
        with open(self._path, "wb") as file:
            for _ in range(_RAW_SIZE >> 20):
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
        size = len(_RECORD) * 10_000
        return self._rate(size, lambda fd, at: os.pread(fd, size, at))

    def _rate(self, step: int, act: Callable[[int, int], object]) -> float:
        fd = os.open(self._path, os.O_RDWR)
        place = 0

        def turn() -> None:
            nonlocal place
            act(fd, place)
            place = (place + step) % (_RAW_SIZE - step)

        try:
            return rate(turn, self._seconds)
        finally:
            os.close(fd)


def rate(act: Callable[[], object], seconds: float) -> float:
    """How often per second something can be done."""
    begun = time.perf_counter()
    until = begun + seconds
    count, step = 0, 1
    while (now := time.perf_counter()) < until:
        for _ in range(step):
            act()
        count += step
        step = max(1, min(1000, int(count / (now - begun + 1e-9) / 100)))
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


def _cursors(head: int) -> Iterator[int]:
    """Cursors of pages through a topic, again and again."""
    while True:
        yield from range(0, max(1, head - 10_000), 10_000)


def _beside(work: str, per_s: float, raw: str, raw_per_s: float) -> Measured:
    return Measured(
        work=work,
        per_s=round(per_s, 1),
        raw=raw,
        raw_per_s=round(raw_per_s, 1),
        ratio=round(per_s / raw_per_s, 3),
    )


def _row(measured: Measured) -> Row:
    cells = {
        "work": measured.work,
        "records/s": f"{measured.per_s:,.0f}",
        "raw": measured.raw,
        "raw/s": f"{measured.raw_per_s:,.0f}",
        "ratio": f"{measured.ratio:.2f}",
    }
    return Row(msgspec.to_builtins(measured), cells)
