"""Background work with one life cycle: start, ``run_once`` again and again, drain, stop.

A job that fails for a reason that may pass (``PASSING``: the disk, one of our own errors, no
memory, a codec) runs again after a pause that grows, and its health has the error until a run
succeeds. Two failures are final, and the store is red from then on: a failed sync, and any other
error, which is a bug.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable

import msgspec
import pyarrow as pa

from strandline.errors import Poisoned, StrandlineError
from strandline.platform.clock import Clock
from strandline.platform.thread_pool import start

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PASSING = (OSError, StrandlineError, MemoryError, zstd.ZstdError, pa.ArrowException)
"""Errors after which the same work may succeed, unless it is ``Poisoned``."""

_BACK_OFF_S_FIRST = 0.05
_BACK_OFF_S_MAX = 30.0


class JobHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How one job is doing."""

    name: str
    alive: bool
    runs: int
    failures_in_row: int
    last_error: str


class Job:
    """One piece of background work on a thread of its own. ``start`` and ``stop`` once each."""

    def __init__(
        self,
        name: str,
        run_once: Callable[[], object],
        clock: Clock,
        *,
        interval_s: float,
        on_death: Callable[[str], None],
        kick: threading.Event | None = None,
    ) -> None:
        self.name = name
        self.kick = kick or threading.Event()
        self.is_steady = False
        """Whether the interval is counted from the beginning of a run, and not from its end."""
        self._run_once = run_once
        self._clock = clock
        self._interval_s = interval_s
        self._on_death = on_death
        self._stopping = False
        self._runs = 0
        self._failures = 0
        self._took_s = 0.0
        self._last_error = ""
        self._dead = False
        self._thread = threading.Thread(target=self._loop, name=f"strandline-{name}", daemon=True)

    def start(self) -> None:
        start(self._thread)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the run under way finish, then end the thread."""
        self._stopping = True
        self.kick.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def health(self) -> JobHealth:
        return JobHealth(
            name=self.name,
            alive=self._thread.is_alive() and not self._dead,
            runs=self._runs,
            failures_in_row=self._failures,
            last_error=self._last_error,
        )

    def pause_s(self) -> float:
        """Seconds until the next run, unless it is kicked; more after failures."""
        if self._failures:
            return min(_BACK_OFF_S_MAX, math.ldexp(_BACK_OFF_S_FIRST, min(self._failures, 16)))
        return max(0.0, self._interval_s - self._took_s)

    def turn(self) -> bool:
        """Run once in the caller's thread, of a job that was not started; False when it is dead."""
        return self._survives(self._run)

    def _loop(self) -> None:
        while not self._stopping and self._survives(self._wait_and_run):
            pass

    def _wait_and_run(self) -> None:
        self._clock.wait(self.kick, self.pause_s())
        if not self._stopping:
            self._run()

    def _run(self) -> None:
        self.kick.clear()
        began_s = self._clock.monotonic()
        self._run_once()
        self._took_s = self._clock.monotonic() - began_s if self.is_steady else 0.0
        self._runs += 1
        self._failures = 0
        self._last_error = ""

    def _survives(self, step: Callable[[], None]) -> bool:
        """Take a step; whether there may be another."""
        try:
            step()
        except Poisoned as error:
            return self._die(str(error))
        except PASSING as error:
            self._failures += 1
            self._last_error = str(error) or type(error).__name__
        except BaseException as error:  # noqa: BLE001 - a bug must turn health red, whatever it is
            return self._die(repr(error))
        return True

    def _die(self, reason: str) -> bool:
        self._dead = True
        self._last_error = reason
        self._on_death(f"the {self.name} job died ({reason})")
        return False
