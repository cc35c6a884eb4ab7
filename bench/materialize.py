"""A remembered query refreshed by Spark, against the same question written by hand over the files.

A daily aggregate over many rows, computed anew; then one percent more rows, and only those. What is
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
from bench.measure import Figure
from bench.settings import SUSTAINED
from strandline.lake import outside
from strandline.pipelines import materialize
from strandline.settings import GIB, ViewSettings
from strandline.spark import SparkEngine
from strandline.store import Store
from strandline.views.table.table import Table

ROWS = 50_000_000
ROUNDS = 3
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
    rows = max(200_000, int(ROWS * scale))
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
            yield from _measured(store, table, spark, rows)
    finally:
        spark.stop()


def _measured(store: Store, table: Table, spark: SparkSession, rows: int) -> Iterator[Figure]:
    engine = SparkEngine(spark)
    files = [file.url for file in outside.files(f"{store.path}/lake", f"{EVENT}:table").files]
    spark.read.parquet(*files).createOrReplaceTempView("sales")
    by_hand = _median(lambda: spark.sql(BY_HAND).toArrow())
    full = _median(lambda: materialize(store, ["daily"], full=True, engine=engine))
    yield Figure(
        name=f"materialize, {rows:,} rows: anew",
        value=rows / full,
        unit="rows/s",
        peer="the same in Spark SQL by hand",
        ratio=by_hand / full,
        goal=">= 0.8 x",
        met=by_hand / full >= 0.8,
        note=f"{full:.2f} s against {by_hand:.2f} s",
    )
    more = max(1, rows // 100)
    news = statistics.median([_one_more(store, table, engine, more) for _ in range(ROUNDS)])
    yield Figure(
        name=f"materialize, {more:,} rows more: only those",
        value=more / news,
        unit="rows/s",
        peer="everything anew",
        ratio=full / news,
        goal=">= 20 x",
        met=full / news >= 20,
        note=f"{news:.2f} s against {full:.2f} s",
    )
    assert _alike(store.run("SHOW daily").tuples(), store.run(QUERY).tuples())


def _one_more(store: Store, table: Table, engine: SparkEngine, rows: int) -> float:
    _store(table, rows)
    table.flush()
    begun = time.perf_counter()
    summary = materialize(store, ["daily"], engine=engine)
    seconds = time.perf_counter() - begun
    assert summary.changed == 1
    assert not summary.refreshed[0].anew
    return seconds


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])  # Spark compiles at the first


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
