"""A quick measurement of the rates of a server, beside its requests per second.

It uses a topic of its own, which is deleted at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from strandline.cli.maintenance.bench_timer import MeasuredRate, measurement, rate, threads_rate
from strandline.store import Store

_RECORD = b"one hundred bytes, neither long nor short, like many that are kept".ljust(100, b".")
_BATCH = 1000
KINDS = 5


def measure(store: Store, seconds: float, threads: int) -> Iterator[MeasuredRate]:
    """Rates of appends and reads over the network."""
    name = f"strandline-bench-{secrets.token_hex(4)}"
    topic = store.create_topic(name)
    try:
        requests_per_s = rate(lambda: topic.head_seq, seconds)

        def result(work: str, per_s: float) -> MeasuredRate:
            return measurement(work, per_s, "request of the head", requests_per_s)

        yield result("append, 1 record", rate(lambda: topic.append(_RECORD), seconds))
        batch = [_RECORD] * _BATCH
        yield result("append_many, 1000", _BATCH * rate(lambda: topic.append_many(batch), seconds))
        yield result("read, pages of 1000", _BATCH * rate(_reading(topic.read), seconds))
        parallel = threads_rate(lambda: topic.append(_RECORD), seconds, threads)
        yield result(f"append, {threads} threads", parallel)
        topic.alter(durability="fsync")
        parallel = threads_rate(lambda: topic.append(_RECORD), seconds, threads)
        yield result(f"append fsync, {threads} threads", parallel)
    finally:
        store.delete_topic(name)


def _reading(read: Callable[[int, int], object]) -> Callable[[], object]:
    return lambda: read(0, _BATCH)
