"""What tests of views in Spark share: a store with a view of each kind, and reads without Spark."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

import strandline
from strandline.config.settings import Settings
from strandline.spark.source.source import StrandlineSource
from strandline.store import Store

Rows = list[dict[str, Any]]
START = 1_767_225_600_000_000


def open_views(path: str, **options: Any) -> Store:
    """A map, a queue, a series and metrics, a few records each."""
    store = strandline.open(path, **options)
    store.topic("plain").append(b"x")
    kv = store.kv("profiles")
    for key in ("ada", "bob", "eve", "ann"):
        kv.put(key, b"first")
    kv.put("ada", b"second")
    kv.delete("ann")
    queue = store.queue("jobs")
    queue.put_many([b"wash", b"dry", b"iron"])
    queue.claim()
    series = store.series("gps")
    for n in range(30):
        series.append(f"bus-{n % 3}", at=START + n, payload=b"point %d" % n, version=n % 2)
    metrics = store.metrics("telemetry")
    for n in range(10):
        metrics.write(
            "cpu", {"host": f"web-{n % 2}"}, {"load": n / 4, "jobs": n}, at=START * 1000 + n
        )
    return store


def table_store(path: str, settings: Settings | None = None) -> Store:
    """An event table: files of two versions, rows in memory, every tenth row deleted."""
    store = strandline.open(path, settings=settings)
    table = store.table("pay", flush_rows=64, zone_rows=256)
    table.define({"n": "i64", "cur": ["EUR", "USD"], "day": "date", "id": "u64 | null"})
    for n in range(150):
        event = {"n": n, "cur": "EUR" if n % 3 else "USD", "day": "2026-01-02", "id": 2**63 + n}
        table.store(f"user-{n % 7}", event)
    table.flush()
    fields = {"n": "f64", "cur": ["EUR", "USD", "CHF"], "day": "datetime", "id": "u64 | null"}
    table.define({**fields, "note": "string | null", "tenth": "bool | null"})
    for n in range(150, 300):
        event = {"n": n + 0.5, "cur": "CHF", "day": "2026-01-02T10:00:00Z", "tenth": n % 10 == 0}
        table.store(f"user-{n % 7}", event)
    table.flush()
    for n in range(300, 330):
        table.store(f"user-{n % 7}", {"n": n, "cur": "EUR", "day": "2026-01-03", "note": "late"})
    for n in range(0, 330, 10):
        seq = n + (2 if n < 150 else 3)
        store.run(f"DELETE pay WHERE seq = {seq}")
    store.views.registry.save()
    return store


def batch(path: str, topic: str, tasks: list[Any] | None = None, **options: str) -> Rows:
    """A batch read; each task by a copy as an executor has it."""
    source = StrandlineSource({"topic": topic, **({"store": path} if path else {}), **options})
    schema = source.schema()
    reader = source.reader(schema)
    planned = reader.partitions()
    if tasks is not None:
        tasks += planned
    return [row for task in planned for row in _rows(reader, task, schema.names)]


def begin(path: str, topic: str, **options: str) -> tuple[Any, dict[str, Any]]:
    """A stream, and where it begins."""
    source = StrandlineSource({"topic": topic, **({"store": path} if path else {}), **options})
    stream = source.streamReader(source.schema())
    return stream, json.loads(json.dumps(stream.initialOffset()))


def step(
    stream: Any, start: dict[str, Any], limit: ReadLimit | None = None
) -> tuple[Rows, dict[str, Any]]:
    """One micro-batch, and where the next one begins."""
    end = json.loads(json.dumps(stream.latestOffset(start, limit or ReadAllAvailable())))
    fresh = type(stream)(stream.options, stream._schema)  # executors have a copy without the store
    found = [row for task in stream.partitions(start, end) for row in _rows(fresh, task, None)]
    return found, end


def drain(path: str, topic: str, limit: ReadLimit | None = None, **options: str) -> list[Rows]:
    """All batches of a stream, until nothing comes."""
    stream, start = begin(path, topic, **options)
    found = []
    while True:
        rows, end = step(stream, start, limit)
        if end == start:
            stream.stop()
            return found
        found.append(rows)
        start = end


def _rows(reader: Any, task: Any, names: list[str] | None) -> Rows:
    copy = pickle.loads(pickle.dumps(reader))
    batches = list(copy.read(pickle.loads(pickle.dumps(task))))
    assert all(names is None or each.schema.names == names for each in batches)
    return [row for each in batches for row in pa.table(each).to_pylist()]
