"""How a figure is taken: several rounds, the median, and the peer measured between them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import msgspec


class Figure(msgspec.Struct, kw_only=True):
    """One row of the report."""

    name: str
    value: float
    unit: str
    peer: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    note: str = ""


def rate(work: Callable[[], int], *, rounds: int = 5) -> float:
    """Median of units of work per second."""
    rates = []
    gc.collect()
    for _ in range(rounds):
        start = time.perf_counter()
        count = work()
        rates.append(count / (time.perf_counter() - start))
    return statistics.median(rates)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
