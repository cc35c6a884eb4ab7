"""How hard the server is pressed, and what it does about it. Pure: time and load are handed in.

Every 100 ms the load is sampled and smoothed into a pressure from 0 to 1, and a ladder follows:

    above 0.2   pushes wait up to 20 ms, so that one event carries more records
    above 0.4   the sync behind appends waits 0.5 to 10 ms, so that it covers more of them
    above 0.8   topics of the lowest band wait, and routers forward a batch now and then, until it
                is below 0.6 again
    near 1.0    and the line of appends that wait for a sync is full: appends get 429

Nothing of this changes what a reader is told, only when: a topic that waits can be read all along.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.api.errors import Refused

SAMPLE_S = 0.1
LAG_S_RANGE = (0.005, 0.020)
"""An event loop that runs its timers late is pressed from the first, and fully from the second."""
LATENCY_S_FULL = 0.005
"""A topic that waits this long for its turn is full pressure."""
READY_FULL = 256
"""So many topics that wait for their turn are, too."""
INGEST_FULL = 4096
"""Appends that wait for a sync: the line is full, unless ``waiting_appends_max`` says otherwise."""
COALESCE_S_MAX = 0.020
WINDOW_S_RANGE = (0.0005, 0.010)
RETRY_AFTER_S = 1.0
_SMOOTHING = 0.3
"""The weight of a new sample: three of them make most of the answer."""


class Load(NamedTuple):
    """What was seen since the last sample."""

    ready: int = 0
    """Topics that wait for their turn."""
    latency_s: float = 0.0
    """How long those that had it waited, on average, besides what they were made to wait."""
    busy: float = 0.0
    """The share of the threads that are at work."""
    ingest: int = 0
    """Appends that wait for a sync."""
    lag_s: float = 0.0
    """How late the event loop runs its timers, at worst."""


class Governor:
    """Keeps the pressure. Owned by the loop's thread."""

    def __init__(self, ingest_full: int = INGEST_FULL) -> None:
        self._ingest_full = ingest_full
        self.pressure = 0.0
        self.is_deferring = False
        """Whether the lowest band waits, and routers go slowly."""
        self.is_refusing = False
        """Whether appends are refused."""

    def sample(self, load: Load) -> None:
        """Take a look, every ``SAMPLE_S``."""
        # Threads alone never refuse anybody: they are also busy with one large question.
        seen = max(
            load.ready / READY_FULL,
            load.latency_s / LATENCY_S_FULL,
            load.busy / 2,
            load.ingest / self._ingest_full,
            _within(load.lag_s, LAG_S_RANGE),
        )
        self.pressure += _SMOOTHING * (min(seen, 1.0) - self.pressure)
        if self.pressure < 1e-3:
            self.pressure = 0.0
        self.is_deferring = self.pressure > (0.6 if self.is_deferring else 0.8)
        most = self._ingest_full
        full = load.ingest >= (most // 2 if self.is_refusing else most)
        self.is_refusing = full and self.pressure > (0.9 if self.is_refusing else 0.95)

    @property
    def coalesce_s(self) -> float:
        """How long pushes wait for more."""
        return max(0.0, self.pressure - 0.2) / 0.8 * COALESCE_S_MAX

    @property
    def window_s(self) -> float:
        """How long a sync waits for more appends."""
        if self.pressure <= 0.4:
            return 0.0
        low, high = WINDOW_S_RANGE
        return low + (high - low) * self.pressure

    def admit(self, *, bypass: bool = False) -> None:
        """Raise 429 when appends are refused. ``bypass`` is for those who may pass by."""
        if self.is_refusing and not bypass:
            raise Refused(
                429,
                "throttled",
                "the server is at its limit: slow down, then try again",
                detail={"retry_after_ms": int(RETRY_AFTER_S * 1000), "pressure": self.pressure},
                retry_after_s=RETRY_AFTER_S,
            )


def _within(value: float, bounds: tuple[float, float]) -> float:
    """How far a value is from the first to the second: 0 or less before, 1 or more after."""
    low, high = bounds
    return (value - low) / (high - low)
