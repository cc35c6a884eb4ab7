"""An event table against DuckDB and SQLite: events in, and the questions that people ask.

The same events in the same order. DuckDB asks one Parquet file that it wrote with its defaults,
SQLite a table with an index for each of the questions. Ours takes validated JSON and asks through
the command language; each question is asked a first time, and then again, when decoded columns may
be in the cache. The full scan of ours is the same question without any zone left out.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec
import pyarrow as pa

import strandline
from bench import table_data
from bench.measure import Figure, scaled
from bench.settings import SUSTAINED
from strandline.config.settings import ViewSettings
from strandline.store import Store
from strandline.views.table.table import Table

ROWS = 20_000_000
ROUNDS = 5
MEMORY = 8 << 30
SINCE = "2026-03-01T00:00:00Z"


class Question(NamedTuple):
    """The same question in three languages."""

    name: str
    ours: str
    sql: str
    sqlite: str | None
    selective: bool


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    rows = scaled(ROWS, scale, least=20_000)
    views = ViewSettings(memory_bytes=MEMORY)
    settings = msgspec.structs.replace(SUSTAINED, views=views)
    with strandline.open(str(folder / "tables"), settings=settings) as store:
        table = store.table(table_data.EVENT)
        table.define(table_data.FIELDS)
        yield _ingest(table, rows)
        yield _settle(store, table, rows)
        duck, sqlite = _duckdb(folder, rows), _sqlite(folder, rows)
        for question in _questions(rows):
            yield from _asked(store, duck, sqlite, question)


def _ingest(table: Table, rows: int) -> Figure:
    """Events as JSON, validated, ten thousand at a time; making them is not counted."""
    taken = 0.0
    for chunk in table_data.chunks(rows):
        contexts, events = table_data.as_json(chunk)
        start = time.perf_counter()
        for at in range(0, len(events), 1000):
            table.store_many(contexts[at : at + 1000], events[at : at + 1000])
        taken += time.perf_counter() - start
    speed = rows / taken
    return Figure(
        name="table: validated JSON events stored",
        value=speed,
        unit="events/s",
        goal=">= 100,000",
        met=speed >= 100_000,
    )


def _settle(store: Store, table: Table, rows: int) -> Figure:
    """Everything in files, merged."""
    start = time.perf_counter()
    table.flush()
    table.compact()
    store.checkpoint()
    facts = table.statistics()
    assert facts.rows == rows
    return Figure(
        name="table: bytes of files for an event",
        value=facts.file_bytes / rows,
        unit="B",
        note=f"{facts.files} files, {facts.zones} zones, {time.perf_counter() - start:.0f} s",
    )


def _duckdb(folder: Path, rows: int) -> duckdb.DuckDBPyConnection:
    """One Parquet file, written with DuckDB's defaults."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    chunks = table_data.chunks(rows)
    first = next(chunks)
    batches = (batch for table in _chain(first, chunks) for batch in table.to_batches())
    reader = pa.RecordBatchReader.from_batches(first.schema, batches)
    file = folder / "visits.parquet"
    connection.register("given", reader)
    connection.execute(f"copy (select * from given) to '{file}' (format parquet)")
    connection.execute(f"create view visit as select * from read_parquet('{file}')")
    return connection


def _sqlite(folder: Path, rows: int) -> sqlite3.Connection:
    db = sqlite3.connect(folder / "visits.sqlite", isolation_level=None)
    db.execute("pragma journal_mode = off")
    db.execute("pragma synchronous = off")
    names = ["context", *table_data.FIELDS]
    db.execute(f"create table visit ({', '.join(names)})")
    for chunk in table_data.chunks(rows):
        columns = [_plain(chunk, name).to_pylist() for name in names]
        db.execute("begin")
        db.executemany(
            f"insert into visit values ({', '.join('?' * len(names))})", zip(*columns, strict=True)
        )
        db.execute("commit")
    for name in ("context", "order_id", "device", "at", "amount"):
        db.execute(f"create index by_{name} on visit ({name})")
    db.execute("analyze")
    return db


def _plain(chunk: pa.Table, name: str) -> pa.ChunkedArray:
    column = chunk[name]
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date(column.type) else column


def _chain(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def _questions(rows: int) -> list[Question]:
    middle = next(iter(table_data.chunks(min(rows, table_data.ROWS_AT_ONCE))))
    context, order = middle["context"][17].as_py(), middle["order_id"][17].as_py()
    span_us = rows * table_data.STEP_US
    start_us = table_data.START_US + span_us // 2
    end_us = start_us + span_us // 500
    range_sql = f'"at" >= make_timestamptz({start_us}) and "at" < make_timestamptz({end_us})'
    per_day = "cast(at / 86400000000 as integer)"
    return [
        Question(
            "lookup by context",
            f'QUERY visit FOR "{context}"',
            f"select * from visit where context = '{context}'",
            f"select * from visit where context = '{context}'",
            True,
        ),
        Question(
            "lookup by order_id",
            f'QUERY visit WHERE order_id = "{order}"',
            f"select * from visit where order_id = '{order}'",
            f"select * from visit where order_id = '{order}'",
            True,
        ),
        Question(
            "enum filter, count",
            'QUERY visit WHERE device = "tv" COUNT',
            "select count(*) from visit where device = 'tv'",
            "select count(*) from visit where device = 'tv'",
            False,
        ),
        Question(
            "time range, 0.2 %",
            f"QUERY visit WHERE at >= {start_us} AND at < {end_us} COUNT, TOTAL amount",
            f"select count(*), sum(amount) from visit where {range_sql}",
            f"select count(*), sum(amount) from visit where at >= {start_us} and at < {end_us}",
            True,
        ),
        Question(
            "top 10 by amount",
            "QUERY visit ORDER BY amount DESC LIMIT 10",
            "select * from visit order by amount desc limit 10",
            "select * from visit order by amount desc limit 10",
            True,
        ),
        Question(
            "count and average by day",
            "QUERY visit COUNT, AVG amount PER DAY USING at",
            "select date_trunc('day', \"at\"), count(*), avg(amount) from visit "
            "group by 1 order by 1",
            f"select {per_day}, count(*), avg(amount) from visit group by 1 order by 1",
            False,
        ),
        Question(
            "total by country and device",
            "QUERY visit COUNT, TOTAL amount BY country, device",
            "select country, device, count(*), sum(amount) from visit group by 1, 2 order by 1, 2",
            "select country, device, count(*), sum(amount) from visit group by 1, 2 order by 1, 2",
            False,
        ),
        Question(
            "two steps of a user within an hour",
            "QUERY visit FOLLOWED BY visit WITHIN 1 HOUR LINKED BY context USING at "
            'WHERE visit.device = "tv" AND visit2.paid COUNT',
            "with a as (select * from visit where device = 'tv'), "
            "b as (select * from visit where paid) "
            'select count(*) from a asof join b on a.context = b.context and a."at" < b."at" '
            'where b."at" <= a."at" + interval 1 hour',
            None,
            False,
        ),
    ]


def _asked(
    store: Store, duck: duckdb.DuckDBPyConnection, sqlite: sqlite3.Connection, question: Question
) -> Iterator[Figure]:
    first = _seconds(lambda: store.run(question.ours).arrow())
    again = _median(lambda: store.run(question.ours).arrow())
    theirs = _median(lambda: duck.sql(question.sql).to_arrow_table())
    facts = msgspec.json.decode(store.run(f"EXPLAIN {question.ours}").rows()[0]["tables"])
    zones = ", ".join(f"zones {each['zones_kept']}/{each['zones']}" for each in facts)
    goal, wanted = (">= 5x DuckDB", 5.0) if question.selective else (">= 1x DuckDB", 1.0)
    yield Figure(
        name=f"table: {question.name}",
        value=again * 1000,
        unit="ms",
        peer="DuckDB",
        ratio=theirs / again,
        goal=goal,
        met=theirs / again >= wanted,
        note=f"first time {first * 1000:.1f} ms, DuckDB {theirs * 1000:.1f} ms; {zones}",
    )
    if question.sqlite is not None:
        sql = question.sqlite
        other = _median(lambda: sqlite.execute(sql).fetchall(), rounds=2)
        yield Figure(
            name=f"table: {question.name}",
            value=again * 1000,
            unit="ms",
            peer="SQLite",
            ratio=other / again,
        )


def _median(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    return statistics.median(_seconds(work) for _ in range(rounds))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
