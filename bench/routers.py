"""Routers: what appends to a source pay for them, how fast they forward, and bytes of the log."""

from __future__ import annotations

import time
from pathlib import Path

import strandline
from bench.measure import Figure, scaled
from bench.peers import RECORD
from bench.settings import LAZY

BATCH = [RECORD] * 100
_DEADLINE_S = 60.0


def run(folder: Path, *, scale: float) -> list[Figure]:
    """With no router, one and ten."""
    figures = []
    for count in (0, 1, 10):
        with strandline.open(str(folder / f"routers-{count}"), settings=LAZY) as store:
            figures += _figures(store, count, scaled(2_000, scale))
    return figures


def _figures(store: strandline.Store, routers: int, batches: int) -> list[Figure]:
    source = store.topic("source")
    for number in range(routers):
        store.routers.put(f"r{number}", source="source", dest=f"dest-{number}")
    before = _log_bytes(store)
    records = batches * len(BATCH)
    began_s = time.perf_counter()
    for _ in range(batches):
        source.append_many(BATCH)
    appended_s = time.perf_counter() - began_s
    _wait_for_all(store, records)
    forwarded_s = time.perf_counter() - began_s
    written = _log_bytes(store) - before
    name = f"{routers} routers" if routers != 1 else "1 router"
    figures = [
        Figure(
            name=f"append_many(100) to a source, {name}", value=records / appended_s, unit="rec/s"
        ),
        Figure(name=f"log for a record of a source, {name}", value=written / records, unit="B"),
    ]
    if routers:
        speed = routers * records / forwarded_s
        figures.append(Figure(name=f"forwarded, {name}", value=speed, unit="rec/s"))
    return figures


def _log_bytes(store: strandline.Store) -> int:
    return sum(shard.writer.end_lsn for shard in store._shards)


def _wait_for_all(store: strandline.Store, records: int) -> None:
    deadline_s = time.perf_counter() + _DEADLINE_S
    for found in store.routers.list():
        dest = store.topic(found.router.dest)
        dest.wait_for(records - 1, timeout_s=max(0.0, deadline_s - time.perf_counter()))
