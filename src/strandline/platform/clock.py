"""Time comes in here: wall time for stamps, monotonic time for waiting.

Wall time may jump; the log never lets a stamp go backwards (see ``log/wal/writer.py``). Durations
are always measured on the monotonic clock. ``strandline.testing.SimClock`` is moved by hand.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the store asks of time. Safe from many threads."""

    def now_us(self) -> int:
        """Wall time in microseconds since 1970 UTC. May jump in both directions."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow; meaningless across restarts."""
        ...

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait for the event at most so long; True when it was set."""
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
    """Let another thread have the interpreter, as a spinning lock must."""
    time.sleep(seconds)
