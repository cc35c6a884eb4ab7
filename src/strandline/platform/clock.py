"""The clock: wall time for timestamps, monotonic time for waiting.

Wall time may jump; the log never lets a timestamp decrease (see ``log/wal/writer.py``). Durations
are always measured with the monotonic clock. ``strandline.testing.SimClock`` is moved by hand.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and waiting. Safe from many threads."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970 UTC. May jump in both directions."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease; not comparable across restarts."""
        ...

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait for the event for at most this many seconds; True when it was set."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        return event.wait(seconds)


def yield_to_other_threads(seconds: float = 0.0) -> None:
    """Let another thread run the interpreter, as a spin lock must."""
    time.sleep(seconds)
