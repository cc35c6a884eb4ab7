"""Metrics against SQLite and DuckDB: points in, windows and ranges out, and what it costs to grow.

A thousand hosts report one gauge with two decimals every ten seconds. The peers have a table with
an index on (host, time); DuckDB gets its rows as Arrow tables, which is its quick way, and keeps
no index, which would slow it down and helps it little here.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa

import strandline
from bench.measure import Figure, percentile, rate, scaled
from bench.settings import SUSTAINED
from strandline.store import Store
from strandline.views.metrics.metrics import Metrics

HOSTS = 1000
POINTS = 2_000_000
BATCH = 10_000
SECOND = 1_000_000_000
STEP = 10 * SECOND
BASE = 1_700_000_000 * SECOND
LINES = 100_000
SINGLES = 20_000
SERIES = 100_000
EXPONENTS = (4, 5, 6, 7)


class Peer(Protocol):
    """What takes the same points and answers the same questions."""

    name: str

    def write(self, table: Any) -> None: ...

    def windows(self, width: int) -> int: ...

    def percentiles(self, width: int) -> int: ...

    def range(self, host: str, start: int, end: int) -> int: ...

    def size(self) -> int: ...


def run(folder: Path, *, scale: float) -> list[Figure]:
    count = scaled(POINTS // BATCH, scale, least=10) * BATCH
    figures = []
    with strandline.open(str(folder / "metrics"), settings=SUSTAINED) as store:
        ours = Ours(store, folder / "metrics")
        peers: list[Peer] = [Sqlite(folder), Duck(folder)]
        figures += _ingest(ours, peers, count)
        figures += _questions(ours, peers, count)
        figures += _sizes(ours, peers, count)
    with strandline.open(str(folder / "single"), settings=SUSTAINED) as store:
        figures.append(_single(store.metrics("m"), scaled(SINGLES, scale, least=1000)))
        figures.append(_lines(store.metrics("lines"), scaled(LINES, scale, least=1000)))
        figures += _many_series(store.metrics("many"), scaled(SERIES, scale, least=1000))
    largest = 7 if scale >= 1 else 6 if scale >= 0.2 else 5 if scale >= 0.01 else 4
    figures += _growth(folder, [number for number in EXPONENTS if number <= largest])
    return figures


class Ours:
    """The view that is measured."""

    name = "ours"

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._metrics = store.metrics("points")

    def write(self, table: Any) -> None:
        self._metrics.write_table("cpu", table, tags=["host"])

    def windows(self, width: int) -> int:
        return len(self._metrics.aggregate("cpu", "avg", window=width, by=["host"]))

    def percentiles(self, width: int) -> int:
        return len(self._metrics.aggregate("cpu", "percentile(95)", window=width))

    def range(self, host: str, start: int, end: int) -> int:
        return len(self._metrics.read("cpu", tags={"host": host}, first=start, next=end))

    def size(self) -> int:
        """Of the view's state; the log has the same points once more."""
        self._store.checkpoint()
        views = self._folder / "views"
        return sum(path.stat().st_size for path in views.rglob("*") if path.is_file())

    def log_size(self) -> int:
        segments = self._folder / "segments"
        return sum(path.stat().st_size for path in segments.rglob("*") if path.is_file())


class Sqlite:
    """A table with an index, WAL, synchronous=normal: as durable as class ``disk``."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cpu.sqlite"
        self._db = sqlite3.connect(self._path, isolation_level=None)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = normal")
        self._db.execute("create table cpu (host text, time integer, load real)")
        self._db.execute("create index by_time on cpu (host, time)")

    def write(self, table: Any) -> None:
        columns = [table.column(name).to_pylist() for name in ("host", "at", "load")]
        self._db.execute("begin")
        self._db.executemany("insert into cpu values (?, ?, ?)", zip(*columns, strict=True))
        self._db.execute("commit")

    def windows(self, width: int) -> int:
        asked = "select host, time / ?, avg(load) from cpu group by 1, 2 order by 1, 2"
        return len(self._db.execute(asked, (width,)).fetchall())

    def percentiles(self, width: int) -> int:
        """It has no percentile of its own: the row of that rank."""
        asked = """with ranked as (select time / ? as w, load,
            row_number() over (partition by time / ? order by load) as n,
            count(*) over (partition by time / ?) as c from cpu)
            select w, load from ranked where n = cast(0.95 * (c - 1) as integer) + 1"""
        return len(self._db.execute(asked, (width,) * 3).fetchall())

    def range(self, host: str, start: int, end: int) -> int:
        asked = "select time, load from cpu where host = ? and time >= ? and time < ? order by 1"
        return len(self._db.execute(asked, (host, start, end)).fetchall())

    def size(self) -> int:
        self._db.execute("pragma wal_checkpoint(truncate)")
        return self._path.stat().st_size


class Duck:
    """A table without an index, filled from Arrow; answers come as Arrow, too."""

    name = "DuckDB"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cpu.duckdb"
        self._db = duckdb.connect(str(self._path))
        self._db.execute("create table cpu (host varchar, time bigint, load double)")

    def write(self, table: Any) -> None:
        self._db.register("batch", table)
        self._db.execute("insert into cpu select * from batch")

    def windows(self, width: int) -> int:
        asked = "select host, time // ? as w, avg(load) from cpu group by 1, 2 order by 1, 2"
        return self._rows(asked, [width])

    def percentiles(self, width: int) -> int:
        asked = "select time // ? as w, quantile_cont(load, 0.95) from cpu group by 1 order by 1"
        return self._rows(asked, [width])

    def range(self, host: str, start: int, end: int) -> int:
        asked = "select time, load from cpu where host = ? and time >= ? and time < ? order by 1"
        return self._rows(asked, [host, start, end])

    def size(self) -> int:
        self._db.execute("checkpoint")
        return self._path.stat().st_size

    def _rows(self, asked: str, values: list[object]) -> int:
        found: int = self._db.sql(asked, params=values).to_arrow_table().num_rows
        return found


def _batches(count: int, *, hosts: int = HOSTS, size: int = BATCH) -> Iterator[Any]:
    """Every host in turn, again and again."""
    chance = np.random.default_rng(7)
    for first in range(0, count, size):
        places = np.arange(first, first + size)
        names = pa.array(np.array([f"web-{n}" for n in range(hosts)])[places % hosts])
        loads = np.round(50 + 10 * np.sin(places / 5000) + chance.normal(0, 2, size), 2)
        yield pa.table({"host": names, "at": BASE + places // hosts * STEP, "load": loads})


def _ingest(ours: Ours, peers: list[Peer], count: int) -> list[Figure]:
    """All take the same tables, in turn."""
    spent = {each.name: 0.0 for each in (ours, *peers)}
    for table in _batches(count):
        for each in (ours, *peers):
            start = time.perf_counter()
            each.write(table)
            spent[each.name] += time.perf_counter() - start
    own = count / spent[ours.name]
    return [
        Figure(
            name=f"metrics: write_table({BATCH:,}), {count:,} points",
            value=own,
            unit="points/s",
            peer=peer.name,
            ratio=own / (count / spent[peer.name]),
        )
        for peer in peers
    ]


def _questions(ours: Ours, peers: list[Peer], count: int) -> list[Figure]:
    steps = count // HOSTS
    middle = BASE + steps // 2 * STEP
    day = 24 * 3600 * SECOND
    works: dict[str, Callable[[Any], int]] = {
        "avg of 10 min by host": lambda each: each.windows(600 * SECOND),
        "avg of 1 day by host": lambda each: each.windows(day),
        "p95 of 10 min": lambda each: each.percentiles(600 * SECOND),
    }
    figures = []
    for name, work in works.items():
        own, theirs = _in_turn(work, ours, peers, calls=1)
        for peer in peers:
            figures.append(
                Figure(
                    name=f"metrics: {name}, {count:,} points",
                    value=1000 / own,
                    unit="ms",
                    peer=f"{peer.name} (times as quick)",
                    ratio=own / theirs[peer.name],
                )
            )
    hosts = [f"web-{n}" for n in range(0, HOSTS, 50)]
    for points in (100, steps):
        start = middle - points // 2 * STEP

        def read(each: Any, start: int = start, end: int = start + points * STEP) -> int:
            return sum(each.range(host, start, end) for host in hosts)

        own, theirs = _in_turn(read, ours, peers, calls=len(hosts))
        figures += [
            Figure(
                name=f"metrics: range of {points:,} of one host",
                value=1e6 / own,
                unit="us",
                peer=f"{peer.name} (times as quick)",
                ratio=own / theirs[peer.name],
            )
            for peer in peers
        ]
    return figures


def _in_turn(
    work: Callable[[Any], int], ours: Ours, peers: list[Peer], *, calls: int
) -> tuple[float, dict[str, float]]:
    """Calls a second: ours, and theirs by name. All must give the same number of rows."""
    counts = {each.name: work(each) for each in (ours, *peers)}
    assert len(set(counts.values())) == 1, counts
    taken: dict[str, list[float]] = {name: [] for name in counts}
    for _ in range(3):
        for each in (ours, *peers):
            start = time.perf_counter()
            work(each)
            taken[each.name].append(calls / (time.perf_counter() - start))
    found = {name: max(rates) for name, rates in taken.items()}
    return found[ours.name], found


def _sizes(ours: Ours, peers: list[Peer], count: int) -> list[Figure]:
    own = ours.size()
    note = f"the log has {ours.log_size() / count:.1f} more"
    return [
        Figure(
            name=f"metrics: size of {count:,} points",
            value=own / count,
            unit="B/point",
            peer=f"{peer.name} (of its size)",
            ratio=own / peer.size(),
            note=note,
        )
        for peer in peers
    ]


def _single(metrics: Metrics, count: int) -> Figure:
    tags = {"host": "web-1"}
    metrics.write("cpu", tags, {"load": 0.5}, BASE)
    taken = []
    for n in range(1, count):
        start = time.perf_counter()
        metrics.write("cpu", tags, {"load": n / 4}, BASE + n * STEP)
        taken.append(time.perf_counter() - start)
    late = percentile(taken, 0.99) * 1e6
    return Figure(
        name="metrics: write one point, p99",
        value=late,
        unit="us",
        goal="< 100 us",
        met=late < 100,
        note=f"p50 {statistics.median(taken) * 1e6:.0f} us",
    )


def _lines(metrics: Metrics, count: int) -> Figure:
    texts = []
    for table in _batches(count // 1000 * 1000, size=1000):
        rows = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
        texts.append("\n".join(f"cpu,host={host} load={load} {at}" for host, at, load in rows))

    def work() -> int:
        for text in texts:
            metrics.write_lines(text)
        return 1000 * len(texts)

    own = rate(work, rounds=3)
    return Figure(name="metrics: write_lines(1,000)", value=own, unit="points/s")


def _many_series(metrics: Metrics, series: int) -> list[Figure]:
    """Every series a point at a time, so that none has many."""
    batch = min(series, BATCH)
    first = rate(lambda: _write_all(metrics, series, series, batch), rounds=1)
    again = rate(lambda: _write_all(metrics, series, 10 * series, batch), rounds=1)

    def ask() -> int:
        return len(metrics.query("cpu | window(1h) | avg by (host)")) // len(
            {row.at for row in metrics.query("cpu | window(1h) | count")}
        )

    asked = rate(ask, rounds=1)
    return [
        Figure(name=f"metrics: {series:,} new series", value=first, unit="series/s"),
        Figure(name=f"metrics: {series:,} series, 10 more of each", value=again, unit="points/s"),
        Figure(name=f"metrics: avg by host of {series:,}", value=asked, unit="series/s"),
    ]


def _write_all(metrics: Metrics, series: int, count: int, batch: int) -> int:
    for table in _batches(count, hosts=series, size=batch):
        metrics.write_table("cpu", table, tags=["host"])
    return count


def _growth(folder: Path, exponents: list[int]) -> list[Figure]:
    """What small things cost when there is more and more."""
    figures = []
    base: dict[str, float] = {}
    for exponent in exponents:
        path = str(folder / f"metrics{exponent}")
        with strandline.open(path, settings=SUSTAINED) as store:
            metrics = store.metrics("points")
            _write_all(metrics, HOSTS, 10**exponent, BATCH)
            for name, cost in _costs(metrics, 10**exponent).items():
                if exponent > min(exponents):  # the smallest is all in memory, and in no block
                    base.setdefault(name, cost)
                figures.append(
                    Figure(
                        name=f"metrics of 10^{exponent}: {name}",
                        value=cost,
                        unit="us",
                        peer="10^5 (times as long)",
                        ratio=cost / base.get(name, cost),
                        goal="as log n: <= 2 x",
                        met=cost <= 2 * base.get(name, cost),
                    )
                )
    return figures


def _costs(metrics: Metrics, count: int) -> dict[str, float]:
    """Medians in microseconds."""
    steps = count // HOSTS
    end = BASE + steps * STEP
    chance = np.random.default_rng(7)

    def some() -> dict[str, Any]:
        first = BASE + int(chance.integers(0, max(1, steps - 9))) * STEP
        host = f"web-{chance.integers(0, HOSTS)}"
        return {"tags": {"host": host}, "first": first, "next": first + 10 * STEP}

    def write(turn: int) -> None:
        metrics.write("cpu", {"host": f"web-{turn % HOSTS}"}, {"load": 0.5}, end + turn)

    def read(_: int) -> None:
        metrics.read("cpu", **some())

    def ask(_: int) -> None:
        metrics.aggregate("cpu", "max", window=60 * SECOND, **some())

    works = {
        "write one": (write, 5000),
        "range of 10 points": (read, 300),
        "max of 10 points by minute": (ask, 300),
    }
    return {name: _median_us(work, turns) for name, (work, turns) in works.items()}


def _median_us(work: Callable[[int], None], turns: int) -> float:
    taken = []
    for turn in range(turns):
        start = time.perf_counter()
        work(turn)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6
