"""Background jobs with one life cycle: start, repeated ``run_once``, drain, stop.

A job that fails with an error that may be transient (``TRANSIENT_ERRORS``: the disk, one of our own
errors, no memory, a codec) runs again after a growing pause, and its health reports the error until
a run succeeds. Two failures are final and make the health of the store red: a failed sync, and any
other error, which is a bug.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable

import msgspec
import pyarrow as pa

from strandline.errors import StoreFailed, StrandlineError
from strandline.platform.clock import Clock
from strandline.platform.thread_pool import start_thread

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TRANSIENT_ERRORS = (OSError, StrandlineError, MemoryError, zstd.ZstdError, pa.ArrowException)
"""Errors after which a repeated run may succeed, unless the error is ``StoreFailed``."""

_BACK_OFF_S_FIRST = 0.05
_BACK_OFF_S_MAX = 30.0


class JobHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job."""

    name: str
    alive: bool
    runs: int
    failures_in_row: int
    last_error: str


class BackgroundJob:
    """One background job on its own thread. ``start`` and ``stop`` are called once each."""

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
        """Whether the interval is counted from the start of a run instead of from its end."""
        self._run_once = run_once
        self._clock = clock
        self._interval_s = interval_s
        self._on_death = on_death
        self._stopping = False
        self._runs = 0
        self._failures = 0
        self._last_run_s = 0.0
        self._last_error = ""
        self._dead = False
        self._thread = threading.Thread(target=self._loop, name=f"strandline-{name}", daemon=True)

    def start(self) -> None:
        start_thread(self._thread)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the current run finish, then end the thread."""
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
        """Seconds until the next run, unless it is kicked; longer after failures."""
        if self._failures:
            return min(_BACK_OFF_S_MAX, math.ldexp(_BACK_OFF_S_FIRST, min(self._failures, 16)))
        return max(0.0, self._interval_s - self._last_run_s)

    def run_once(self) -> bool:
        """Run a job without a thread once, in the caller's; returns whether it may run again."""
        return self._run_step(self._run)

    def _loop(self) -> None:
        while not self._stopping and self._run_step(self._wait_and_run):
            pass

    def _wait_and_run(self) -> None:
        self._clock.wait(self.kick, self.pause_s())
        if not self._stopping:
            self._run()

    def _run(self) -> None:
        self.kick.clear()
        started_s = self._clock.monotonic()
        self._run_once()
        self._last_run_s = self._clock.monotonic() - started_s if self.is_steady else 0.0
        self._runs += 1
        self._failures = 0
        self._last_error = ""

    def _run_step(self, step: Callable[[], None]) -> bool:
        """Run the step; returns whether the job may run again."""
        try:
            step()
        except StoreFailed as error:
            return self._mark_dead(str(error))
        except TRANSIENT_ERRORS as error:
            self._failures += 1
            self._last_error = str(error) or type(error).__name__
        except BaseException as error:  # noqa: BLE001 - a bug must turn health red, whatever it is
            return self._mark_dead(repr(error))
        return True

    def _mark_dead(self, reason: str) -> bool:
        self._dead = True
        self._last_error = reason
        self._on_death(f"the {self.name} job died ({reason})")
        return False
