"""Elapsed time: the commit time at an opening, plus the monotonic time since then.

Jumps of the wall clock do not change it; commit times of frames follow them (``Writer.stamp``).
"""

from __future__ import annotations

from strandline.platform.clock import Clock


class ElapsedClock:
    """The time for windows that must not end early or late. Safe from many threads."""

    def __init__(self, clock: Clock, last_ts: int) -> None:
        self._clock = clock
        self._first_us = max(last_ts, clock.now_us())
        self._since_s = clock.monotonic()

    def now_us(self) -> int:
        return self._first_us + round((self._clock.monotonic() - self._since_s) * 1_000_000)

    def lag_us(self, last_ts: int) -> int:
        """How far it lags behind commit time, given the newest one; negative when it is ahead."""
        return max(last_ts, self._clock.now_us()) - self.now_us()
