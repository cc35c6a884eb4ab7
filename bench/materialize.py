"""A remembered query refreshed by Spark, against the same question written by hand over the files.

A daily aggregate over many rows, computed anew; then one percent more rows, and only those: by
Spark whatever their size, and by the engine that ``auto`` takes; into a store that is open here,
and by its folder beside the process that has it open, which the commit is delivered to. What is
written by hand has no high-water mark, no states to put together, and commits nothing. A million
different events are stored again and again: the engines read files, and these do not repeat within
a page.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
from pyspark.sql import SparkSession

import strandline
import strandline.spark
from bench.measure import Figure, fixed, scaled
from bench.settings import SUSTAINED
from strandline.config.settings import GIB, ViewSettings
from strandline.lake import external_reader
from strandline.pipelines import Embedded, Engine, by_size, materialize
from strandline.pipelines.engine import Chooser
from strandline.spark import SparkEngine
from strandline.store import Store
from strandline.views.table.table import Table

ROWS = 50_000_000
ROUNDS = 3
WARM_UP_S = 15
EVENT = "sale"
FIELDS = {"amount": "f64", "quantity": "i64", "country": ["DE", "US", "FR", "JP"], "at": "datetime"}
QUERY = f"QUERY {EVENT} COUNT, TOTAL amount, AVG quantity, MAX amount BY country PER DAY USING at"
BY_HAND = (
    "SELECT date_trunc('DAY', at) AS bucket, country, count(*), sum(amount), avg(quantity), "
    "max(amount) FROM sales GROUP BY 1, 2"
)
DISTINCT = 1_000_000
BATCH = 10_000
START_S = 1_767_225_600  # 2026-01-01
DAYS = 90


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    rows = scaled(ROWS, scale, least=20_000)
    settings = msgspec.structs.replace(SUSTAINED, views=ViewSettings(memory_bytes=4 * GIB))
    spark = strandline.spark.session("local[*]", **{"spark.driver.memory": "3g"})
    try:
        with strandline.open(str(folder / "materialize"), settings=settings) as store:
            table = store.table(EVENT)
            table.define(FIELDS)
            store.run(f"REMEMBER {QUERY} AS daily")
            _store(table, rows)
            table.flush()
            table.compact()
            yield from _measured(store, table, spark, rows, fixed(WARM_UP_S, scale, least=0))
    finally:
        spark.stop()


def _measured(
    store: Store, table: Table, spark: SparkSession, rows: int, warm_up_s: int
) -> Iterator[Figure]:
    engine = SparkEngine(spark)
    files = [
        file.url for file in external_reader.files(f"{store.path}/lake", f"{EVENT}:table").files
    ]
    spark.read.parquet(*files).createOrReplaceTempView("sales")
    by_hand, full, here = _medians(
        warm_up_s,
        lambda: spark.sql(BY_HAND).toArrow(),
        lambda: materialize(store, ["daily"], full=True, engine=engine),
        lambda: materialize(store, ["daily"], full=True, engine=Embedded()),
    )
    hand = "the same in Spark SQL by hand"
    yield _figure(f"{rows:,} rows anew, Spark", rows, full, hand, by_hand, 0.8)
    yield _figure(f"{rows:,} rows anew, embedded", rows, here, hand, by_hand)
    more, auto = max(1, rows // 100), by_size(lambda: engine)
    anew = "everything anew on Spark"
    for name, where, target, chosen, goal in (
        ("Spark", "", store, engine, 20.0),
        ("auto", "", store, auto, 20.0),
        ("Spark", ", delivered to the writer", store.path, engine, None),
        ("auto", ", delivered to the writer", store.path, auto, None),
    ):
        news = _news(table, target, chosen, more)
        yield _figure(f"{more:,} rows more{where}, {name}", more, news, anew, full, goal)
    assert _alike(store.run("SHOW daily").tuples(), store.run(QUERY).tuples())


def _figure(
    name: str, rows: int, seconds: float, peer: str, theirs: float, goal: float | None = None
) -> Figure:
    ratio = theirs / seconds
    return Figure(
        name=f"materialize, {name}",
        value=rows / seconds,
        unit="rows/s",
        peer=peer,
        ratio=ratio,
        goal=f">= {goal:g} x" if goal else "",
        met=ratio >= goal if goal else None,
        note=f"{seconds:.3f} s against {theirs:.2f} s",
    )


def _news(table: Table, target: Store | str, engine: Engine | Chooser, rows: int) -> float:
    """Seconds in which one percent more becomes part of what is remembered."""
    times = []
    for _ in range(ROUNDS + 1):
        _store(table, rows)
        table.flush()
        begun = time.perf_counter()
        summary = materialize(target, ["daily"], engine=engine)
        times.append(time.perf_counter() - begun)
        assert (summary.changed, summary.refreshed[0].full) == (1, False)
    return statistics.median(times[1:])


def _medians(warm_up_s: int, *works: Callable[[], object]) -> list[float]:
    """Of each: they take turns, since Java is the quicker the longer it runs."""
    warm_from = time.perf_counter() + warm_up_s
    times: list[list[float]] = [[] for _ in works]
    while len(times[0]) < ROUNDS:
        counts = time.perf_counter() > warm_from
        for work, mine in zip(works, times, strict=True):
            begun = time.perf_counter()
            work()
            if counts:
                mine.append(time.perf_counter() - begun)
    return [statistics.median(mine) for mine in times]


def _store(table: Table, rows: int) -> None:
    contexts, events = _events(min(rows, DISTINCT))
    for start in range(0, rows, BATCH):
        place, count = start % len(events), min(BATCH, rows - start)
        some = events[place : place + count]
        table.store_many(contexts[place : place + len(some)], some)


def _events(count: int) -> tuple[list[str], list[bytes]]:
    chance = Random(7)
    shape = '{"amount":%.2f,"quantity":%d,"country":"%s","at":%d}'
    countries = FIELDS["country"]
    events = [
        (
            shape
            % (
                chance.lognormvariate(3, 1),
                chance.randrange(1, 20),
                countries[int(4 * chance.random() ** 2)],
                START_S + chance.randrange(DAYS * 86_400),
            )
        ).encode()
        for _ in range(count)
    ]
    return [f"user-{chance.randrange(count // 20 + 1)}" for _ in range(count)], events


def _alike(shown: list[tuple[object, ...]], asked: list[tuple[object, ...]]) -> bool:
    """Sums of doubles may differ in their last digits."""
    return len(shown) == len(asked) and all(
        abs(one - other) <= 1e-6 * abs(other) if isinstance(other, float) else one == other
        for row, right in zip(shown, asked, strict=True)
        for one, other in zip(row, right, strict=True)
    )
