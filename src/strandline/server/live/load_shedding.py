"""Load shedding: the pressure on the server, and its effects. Pure: time and load are arguments.

Every 100 ms the load is sampled and smoothed into a pressure from 0 to 1. Its effects:

    above 0.2   pushes wait up to 20 ms, so that one event carries more records
    above 0.4   the sync of appends waits 0.5 to 10 ms, so that it covers more of them
    above 0.8   topics of the lowest band wait, and routers forward fewer batches, until it
                is below 0.6 again
    near 1.0    if the queue of appends that wait for a sync is full, too: appends get 429

This changes only when subscribers get records, not which: a deferred topic can still be read.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.api.errors import Refused

SAMPLE_S = 0.1
LAG_S_RANGE = (0.005, 0.020)
"""Delay of the event loop's timers: pressure rises from the first value, full at the second."""
LATENCY_S_FULL = 0.005
"""Average wait of topics for their push at which the pressure is full."""
READY_FULL = 256
"""Number of topics waiting for their push at which the pressure is full."""
INGEST_FULL = 4096
"""Appends waiting for a sync at which the queue is full; ``waiting_appends_max`` sets it."""
COALESCE_S_MAX = 0.020
WINDOW_S_RANGE = (0.0005, 0.010)
RETRY_AFTER_S = 1.0
_SMOOTHING = 0.3
"""The weight of a new sample: the last three are most of the value."""


class LoadSample(NamedTuple):
    """Measures since the last sample."""

    ready: int = 0
    """Topics that wait for their push."""
    latency_s: float = 0.0
    """Average wait of pushed topics, without the delay that load shedding added."""
    busy: float = 0.0
    """The share of the threads that are busy."""
    ingest: int = 0
    """Appends that wait for a sync."""
    lag_s: float = 0.0
    """How late the event loop runs its timers, at worst."""


class LoadShedder:
    """Computes the pressure and its effects. Owned by the loop's thread."""

    def __init__(self, ingest_full: int = INGEST_FULL) -> None:
        self._ingest_full = ingest_full
        self.pressure = 0.0
        self.is_deferring = False
        """Whether the lowest band waits, and routers forward fewer batches."""
        self.is_rejecting = False
        """Whether appends are rejected."""

    def sample(self, load: LoadSample) -> None:
        """Add a sample; called every ``SAMPLE_S``."""
        # Busy threads alone never reject appends: one large query can occupy them.
        sampled = max(
            load.ready / READY_FULL,
            load.latency_s / LATENCY_S_FULL,
            load.busy / 2,
            load.ingest / self._ingest_full,
            _within(load.lag_s, LAG_S_RANGE),
        )
        self.pressure += _SMOOTHING * (min(sampled, 1.0) - self.pressure)
        if self.pressure < 1e-3:
            self.pressure = 0.0
        self.is_deferring = self.pressure > (0.6 if self.is_deferring else 0.8)
        full_count = self._ingest_full
        is_full = load.ingest >= (full_count // 2 if self.is_rejecting else full_count)
        self.is_rejecting = is_full and self.pressure > (0.9 if self.is_rejecting else 0.95)

    @property
    def coalesce_s(self) -> float:
        """How long pushes wait for more records."""
        return max(0.0, self.pressure - 0.2) / 0.8 * COALESCE_S_MAX

    @property
    def window_s(self) -> float:
        """How long a sync waits for more appends."""
        if self.pressure <= 0.4:
            return 0.0
        low, high = WINDOW_S_RANGE
        return low + (high - low) * self.pressure

    def admit(self, *, bypass: bool = False) -> None:
        """Raise 429 when appends are rejected. ``bypass`` is for clients with that right."""
        if self.is_rejecting and not bypass:
            raise Refused(
                429,
                "throttled",
                "the server is overloaded: slow down, then retry",
                detail={"retry_after_ms": int(RETRY_AFTER_S * 1000), "pressure": self.pressure},
                retry_after_s=RETRY_AFTER_S,
            )


def _within(value: float, bounds: tuple[float, float]) -> float:
    """The position of a value in an interval: 0 at its start, 1 at its end; not clamped."""
    low, high = bounds
    return (value - low) / (high - low)
