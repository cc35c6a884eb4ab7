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


def scaled(full: int, scale: float, *, least: int = 1) -> int:
    """An amount that grows with the scale."""
    return max(least, int(full * scale))


def fixed(amount: int, scale: float, *, least: int = 1) -> int:
    """An amount that is the same at every scale from 0.1 up. A smaller scale only checks that the
    benchmark works, so there the amount shrinks too."""
    return scaled(amount, min(1.0, 10 * scale), least=least)


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
