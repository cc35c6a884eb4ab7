"""SQL in a process of its own, as a server runs it, against SQL in the process of the store.

Each query runs in turns here and there. A query without relations shows what the messages cost, one
that counts a topic what its rows cost on their way.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import strandline
from bench.measure import Figure, scaled
from bench.settings import SUSTAINED
from strandline.query.execute.interrupt import Interrupt
from strandline.query.sql.process_sandbox import QueryProcesses
from strandline.query.sql.sql import sql
from strandline.store import Store

ROWS = 1_000_000
ROUNDS = 100
QUERIES = {
    "of no relation": "SELECT 1",
    "of the last ten records": "SELECT seq, text FROM log.orders WHERE seq > {last}",
    "of all records": "SELECT key, count(*) FROM log.orders GROUP BY key",
}


def run(folder: Path, *, scale: float) -> Iterator[Figure]:
    rows = scaled(ROWS, scale, least=10_000)
    rounds = scaled(ROUNDS, scale, least=5)
    processes = QueryProcesses()
    try:
        with strandline.open(str(folder / "sql"), settings=SUSTAINED) as store:
            topic = store.topic("orders")
            for first in range(0, rows, 10_000):
                keys = [f"k{n % 100}" for n in range(first, first + 10_000)]
                topic.append_many([b"x" * 100] * len(keys), keys=keys)
            for name, text in QUERIES.items():
                yield from _compared(store, processes, name, text.format(last=rows - 10), rounds)
    finally:
        processes.close()


def _compared(
    store: Store, processes: QueryProcesses, name: str, text: str, rounds: int
) -> Iterator[Figure]:
    def there() -> None:
        sandbox = processes.acquire(Interrupt())
        sql(store, text, sandbox=sandbox)
        processes.release(sandbox)

    here = [0.0] * rounds
    apart = [0.0] * rounds
    there()
    for turn in range(rounds):
        here[turn] = _took_ms(lambda: sql(store, text))
        apart[turn] = _took_ms(there)
    mine, other = statistics.median(here), statistics.median(apart)
    yield Figure(
        name=f"sql {name}, in a process of its own",
        value=other,
        unit="ms",
        peer=f"in the store's process {mine:.2f} ms",
        ratio=other / mine,
        goal="at most 2 ms more",
        met=other - mine <= 2.0,
        note=f"best {min(apart):.2f} ms and {min(here):.2f} ms",
    )


def _took_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
