"""Rates of operations per second, beside the raw rate that bounds them."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable

import msgspec

_ROUNDS = 5


class MeasuredRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate, and the raw rate that bounds it."""

    work: str
    per_s: float
    raw: str
    raw_per_s: float
    ratio: float


def rate(act: Callable[[], object], seconds: float, *, times_max: int = 1 << 62) -> float:
    """Operations per second: the median of a few rounds."""
    round_max = max(1, times_max // _ROUNDS)
    return statistics.median(_round(act, seconds / _ROUNDS, round_max) for _ in range(_ROUNDS))


def threads_rate(act: Callable[[], object], seconds: float, threads: int) -> float:
    """Operations per second of several threads together."""
    rates: list[float] = []
    started = [
        threading.Thread(target=lambda: rates.append(rate(act, seconds))) for _ in range(threads)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return sum(rates)


def measurement(work: str, per_s: float, raw: str, raw_per_s: float) -> MeasuredRate:
    """A rate and its raw rate, rounded."""
    return MeasuredRate(
        work=work,
        per_s=round(per_s, 1),
        raw=raw,
        raw_per_s=round(raw_per_s, 1),
        ratio=round(per_s / raw_per_s, 3),
    )


def _round(act: Callable[[], object], seconds: float, times_max: int) -> float:
    started_at = time.perf_counter()
    count = 0
    while count < times_max and time.perf_counter() - started_at < seconds:
        act()
        count += 1
    return count / (time.perf_counter() - started_at)
