"""A simulated clock that tests advance.

Both times stand still until the test changes them. A thread in ``wait`` continues when its event is
set or when ``advance`` has moved the monotonic time past its deadline. The deadline counts from the
start of the wait, so a test checks ``waiting`` before it advances.
"""

from __future__ import annotations

import threading

NANOSECONDS = 1_000_000_000
WALL_US_START = 1_700_000_000_000_000
LOOK_SECONDS = 0.001  # real time between two checks of the simulated time


class SimClock:
    """Simulated time. Safe from many threads."""

    def __init__(self, *, wall_us: int = WALL_US_START) -> None:
        self._lock = threading.Lock()
        self._wall_ns = wall_us * 1000
        self._monotonic_ns = 0
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of threads in ``wait``."""
        return self._waiting

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        step_ns = round(seconds * NANOSECONDS)
        if step_ns < 0:
            raise ValueError("monotonic time only grows; use jump_wall to set the wall clock back")
        with self._lock:
            self._monotonic_ns += step_ns
            self._wall_ns += step_ns

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP would."""
        with self._lock:
            self._wall_ns += round(seconds * NANOSECONDS)

    def now_us(self) -> int:
        return self._wall_ns // 1000

    def monotonic(self) -> float:
        return self._monotonic_ns / NANOSECONDS

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        with self._lock:
            self._waiting += 1
            start_ns = self._monotonic_ns
        try:
            if seconds is None:
                return event.wait()
            return self._wait_until(event, start_ns + round(seconds * NANOSECONDS))
        finally:
            with self._lock:
                self._waiting -= 1

    def _wait_until(self, event: threading.Event, deadline_ns: int) -> bool:
        # A thread cannot wait for an Event and the simulated time together, so this polls.
        while self._monotonic_ns < deadline_ns:
            if event.wait(LOOK_SECONDS):
                return True
        return event.is_set()
