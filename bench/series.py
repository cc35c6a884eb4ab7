"""A series against SQLite and DuckDB: points in, ranges out, and what it costs when it grows.

A thousand sources take turns, with a payload of 100 bytes each. Payloads differ: they are kept with
the index, compressed, and it must not help that all are the same. The peers have a table with an
index on (source, time); DuckDB gets its rows as Arrow tables, which is its quick way. One figure
is without payloads in the index: then they are read from the log.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import duckdb
import msgspec
import pyarrow as pa

import strandline
from bench.measure import Figure, percentile, rate, scaled
from bench.settings import SUSTAINED
from strandline.config.settings import ViewSettings
from strandline.views.series.block_cache import DecodedBlocks
from strandline.views.series.series import Series

SOURCES = 1000
BATCH = 1000
POINTS = 1_000_000
STEP_US = 1000
"""Between two points of all sources."""
WINDOW = 100 * SOURCES * STEP_US
"""Of a read of all sources: a hundred points of each."""
EXPONENTS = (4, 5, 6, 7)
FEW_SOURCES = 10
TEN_POINTS = 9 * FEW_SOURCES * STEP_US
MUCH_MEMORY = msgspec.structs.replace(SUSTAINED, views=ViewSettings(memory_bytes=32 << 30))
"""All pages of 10^7 points stay in memory."""
SINGLES = 100_000
SINGLE_SOURCES = (1000, 20)
"""With a few sources blocks are made and written on the way, about one with 30 points."""

_MIXED, _LARGE = 48_271_903_117_664_525_837, 10**20 - 11

Row = tuple[int, int, bytes]


class Peer(Protocol):
    """What takes the same points and answers the same questions."""

    name: str

    def append(self, rows: list[Row]) -> None: ...

    def one(self, source: int, start: int, end: int) -> int: ...

    def all(self, start: int, end: int) -> int: ...


def run(folder: Path, *, scale: float) -> list[Figure]:
    count = scaled(POINTS // BATCH, scale, least=10) * BATCH
    with strandline.open(str(folder / "series"), settings=SUSTAINED) as store:
        ours = Ours(store.series("points"))
        peers: list[Peer] = [Sqlite(folder), Duck(folder)]
        figures = _ingest(ours, peers, count)
        figures += _reads(ours, peers, count)
    with strandline.open(str(folder / "log"), settings=SUSTAINED) as store:
        figures.append(_from_log(Ours(store.series("points", inline_bytes=0)), count // 10))
    for sources in SINGLE_SOURCES:
        with strandline.open(str(folder / f"single{sources}"), settings=SUSTAINED) as store:
            singles = scaled(SINGLES, scale, least=1000)
            figures.append(_single(store.series("points"), singles, sources))
    largest = 7 if scale >= 1 else 6 if scale >= 0.2 else 5 if scale >= 0.01 else 4
    exponents = [number for number in EXPONENTS if number <= largest]
    figures += _growth(folder, exponents) + _range_growth(folder, exponents)
    return figures


class Ours:
    """The series that is measured."""

    name = "ours"

    def __init__(self, series: Series) -> None:
        self._series = series

    def append(self, rows: list[Row]) -> None:
        self._series.append_many(rows)

    def one(self, source: int, start: int, end: int) -> int:
        return len(self._series.range(source, start, end))

    def all(self, start: int, end: int) -> int:
        return sum(map(len, self._series.range_all(start, end).values()))


class Sqlite:
    """A table with an index, WAL, synchronous=normal: as durable as class ``disk``."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "points.sqlite", isolation_level=None)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = normal")
        self._db.execute("create table points (source integer, time integer, payload blob)")
        self._db.execute("create index by_time on points (source, time)")

    def append(self, rows: list[Row]) -> None:
        self._db.execute("begin")
        self._db.executemany("insert into points values (?, ?, ?)", rows)
        self._db.execute("commit")

    def one(self, source: int, start: int, end: int) -> int:
        asked = "select source, time, payload from points where source = ? and time between ? and ?"
        return len(self._db.execute(f"{asked} order by time", (source, start, end)).fetchall())

    def all(self, start: int, end: int) -> int:
        asked = "select source, time, payload from points where time between ? and ?"
        return len(self._db.execute(f"{asked} order by source, time", (start, end)).fetchall())


class Duck:
    """A table with an index, filled from Arrow."""

    name = "DuckDB"

    def __init__(self, folder: Path) -> None:
        self._db = duckdb.connect(str(folder / "points.duckdb"))
        self._db.execute("create table points (source bigint, time bigint, payload blob)")
        self._db.execute("create index by_time on points (source, time)")

    def append(self, rows: list[Row]) -> None:
        sources, ats, payloads = zip(*rows, strict=True)
        batch = pa.table({"source": sources, "time": ats, "payload": payloads})
        self._db.register("batch", batch)
        self._db.execute("insert into points select * from batch")

    def one(self, source: int, start: int, end: int) -> int:
        asked = "select source, time, payload from points where source = ? and time between ? and ?"
        return len(self._db.execute(f"{asked} order by time", (source, start, end)).fetchall())

    def all(self, start: int, end: int) -> int:
        asked = "select source, time, payload from points where time between ? and ?"
        return len(self._db.execute(f"{asked} order by source, time", (start, end)).fetchall())


def _payload(n: int) -> bytes:
    """100 bytes, 40 of them as good as random."""
    return b'{"at": %020d, "x": %020d, "y": %020d, "unit": "degree"}' % (
        n,
        n * _MIXED % _LARGE,
        (n + 7) * _MIXED % _LARGE,
    )


def _batches(count: int, sources: int = SOURCES) -> Iterator[list[Row]]:
    for first in range(0, count, BATCH):
        yield [(n % sources, n * STEP_US, _payload(n)) for n in range(first, first + BATCH)]


def _ingest(ours: Ours, peers: list[Peer], count: int) -> list[Figure]:
    """All take the same batches, a part each in turn."""
    spent = {ours.name: 0.0, **{peer.name: 0.0 for peer in peers}}
    for rows in _batches(count):
        for each in (ours, *peers):
            start = time.perf_counter()
            each.append(rows)
            spent[each.name] += time.perf_counter() - start
    own = count / spent[ours.name]
    return [
        Figure(
            name=f"series: append_many({BATCH}), {count:,} points",
            value=own,
            unit="points/s",
            peer=peer.name,
            ratio=own * spent[peer.name] / count,
        )
        for peer in peers
    ]


def _reads(ours: Ours, peers: list[Peer], count: int) -> list[Figure]:
    """One source from beginning to end, and a moment of all sources."""
    generator = random.Random(7)
    end = count * STEP_US
    figures = []
    for name, turns, ask in (
        ("one of 1,000 sources", 20, lambda each: each.one(generator.randrange(SOURCES), 0, end)),
        ("all sources, a window", 3, lambda each: each.all(_start(generator, end), 2**62)),
    ):
        for peer in peers:
            taken = [(_rate(ours, turns, ask), _rate(peer, turns, ask)) for _ in range(3)]
            own, theirs = (statistics.median(each) for each in zip(*taken, strict=True))
            figures.append(
                Figure(
                    name=f"series: range of {name}",
                    value=own,
                    unit="points/s",
                    peer=peer.name,
                    ratio=own / theirs,
                )
            )
    return figures


def _from_log(ours: Ours, count: int) -> Figure:
    """One source, when no payload is kept with the index."""
    for rows in _batches(count):
        ours.append(rows)
    generator = random.Random(7)
    return Figure(
        name="series: range of one of 1,000 sources, inline_bytes=0",
        value=_rate(ours, 5, lambda each: each.one(generator.randrange(SOURCES), 0, 2**62)),
        unit="points/s",
    )


def _start(generator: random.Random, end: int) -> int:
    return max(0, end - WINDOW) - generator.randrange(STEP_US)


def _rate(each: Peer, turns: int, ask: Callable[[Peer], int]) -> float:
    return rate(lambda: sum(ask(each) for _ in range(turns)), rounds=1)


def _single(series: Series, count: int, sources: int) -> Figure:
    """Single appends to a topic of class ``disk``, sources in turn."""
    times, cpu = [], []
    for n in range(count):
        payload = _payload(n)
        worked, start = time.thread_time(), time.perf_counter()
        series.append(n % sources, n, payload)
        times.append(time.perf_counter() - start)
        cpu.append(time.thread_time() - worked)
    p50, p99, p999 = (percentile(times, part) * 1e6 for part in (0.5, 0.99, 0.999))
    return Figure(
        name=f"series: append(one) to {sources:,} sources, class disk, p99",
        value=p99,
        unit="us",
        goal="< 100 us",
        met=p99 < 100,
        note=f"median {p50:.0f}, p99.9 {p999:.0f}, CPU p99 {percentile(cpu, 0.99) * 1e6:.0f} us",
    )


def _growth(folder: Path, exponents: list[int]) -> list[Figure]:
    """What one append and one latest cost when there is more and more, of a thousand sources."""
    base: dict[str, float] = {}
    figures = []
    for exponent in exponents:
        path = str(folder / f"series{exponent}")
        with strandline.open(path, settings=SUSTAINED) as store:
            series = store.series("points")
            for rows in _batches(10**exponent):
                series.append_many(rows)
            figures += _compared(exponent, _costs(series, 10**exponent), base)
    return figures


def _range_growth(folder: Path, exponents: list[int]) -> list[Figure]:
    """What ten points of one of ten sources cost, by where they are.

    So few sources have blocks already when there are 10^4 points: at every size it is the same
    work, and memory is not compared with pages.
    """
    base: dict[str, float] = {}
    figures = []
    for exponent in exponents:
        path, count = str(folder / f"ranges{exponent}"), 10**exponent
        with strandline.open(path, settings=SUSTAINED) as store:
            series = store.series("points")
            for rows in _batches(count, sources=FEW_SOURCES):
                series.append_many(rows)
            store.checkpoint()
        with strandline.open(path, settings=MUCH_MEMORY) as store:
            series = store.series("points")
            _bring_into_memory(series)
            costs = {"from pages": _from_pages(series, count)}
            _bring_into_memory(series)
            costs |= _in_memory(series, count)
        named = {f"range of 10 points, {where}": cost for where, cost in costs.items()}
        figures += _compared(exponent, named, base)
    return figures


def _compared(exponent: int, costs: dict[str, float], base: dict[str, float]) -> list[Figure]:
    """Each beside the same of the smallest."""
    for name, cost in costs.items():
        base.setdefault(name, cost)
    return [
        Figure(
            name=f"series of 10^{exponent}: {name}",
            value=cost,
            unit="us",
            peer="10^4 (times as long)",
            ratio=cost / base[name],
            goal="as log n: <= 2 x",
            met=cost <= 2 * base[name],
        )
        for name, cost in costs.items()
    ]


def _costs(series: Series, count: int) -> dict[str, float]:
    """Medians in microseconds."""
    generator = random.Random(7)

    def append(turn: int) -> None:
        series.append(turn % SOURCES, count * STEP_US + turn, _payload(turn))

    def latest(_: int) -> None:
        series.latest(generator.randrange(SOURCES))

    return {
        "append(one)": _median_us(append, 5000),
        "latest": _median_us(latest, 300),
    }


def _anywhere(series: Series, count: int) -> float:
    """The median in microseconds of reads that have nothing to do with each other."""
    generator = random.Random(7)

    def read(_: int) -> None:
        start = generator.randrange(count * STEP_US - TEN_POINTS)
        series.range(generator.randrange(FEW_SOURCES), start, start + TEN_POINTS)

    return _median_us(read, 300)


def _from_pages(series: Series, count: int) -> float:
    """The same when every page with points must be read: only those that lead there stay."""
    with series._host.reading() as fold:
        maps = [each._store for each in fold._maps]
    rooms = [each.ram_max for each in maps]
    for each in maps:
        each.ram_max = 2 * each._branch_ram
    cost = _anywhere(series, count)
    for each, room in zip(maps, rooms, strict=True):
        each.ram_max = room
    return cost


def _bring_into_memory(series: Series) -> None:
    """All pages, and no block that is unpacked."""
    with series._host.reading() as fold:
        for each in fold._maps:
            deque(each.range(), maxlen=0)
        fold.index.decoded.clear()


def _in_memory(series: Series, count: int) -> dict[str, float]:
    """The same with all pages in memory, then of the same few blocks, then of the newest points."""
    end = count * STEP_US
    with series._host.reading() as fold:
        decoded, fold.index.decoded = fold.index.decoded, DecodedBlocks(0)

    def again(turn: int) -> None:
        start = end // 3 + turn % FEW_SOURCES
        series.range(turn % FEW_SOURCES, start, start + TEN_POINTS)

    def newest(turn: int) -> None:
        series.range(turn % FEW_SOURCES, end - TEN_POINTS, end)

    found = {"pages in memory": _anywhere(series, count)}
    with series._host.reading() as fold:
        fold.index.decoded = decoded
    _median_us(again, 3 * FEW_SOURCES)
    found["read before"] = _median_us(again, 300)
    for source in range(FEW_SOURCES):
        series.append(source, end, _payload(source))
    found["newest"] = _median_us(newest, 300)
    return found


def _median_us(work: Callable[[int], None], turns: int) -> float:
    times = []
    for turn in range(turns):
        start = time.perf_counter()
        work(turn)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
