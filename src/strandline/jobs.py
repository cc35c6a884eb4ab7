"""Background work with one life cycle: start, ``run_once`` again and again, drain, stop.

A job that fails because the world fails (an OSError, one of our own errors) is tried again with a
growing pause, and says so in its health. A job that raises anything else has met a bug: it is dead,
its store is told at once, and nothing pretends that it still runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from strandline.env.clock import Clock
from strandline.errors import Poisoned, StrandlineError

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
        self._last_error = ""
        self._dead = False
        self._thread = threading.Thread(target=self._loop, name=f"strandline-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

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

    def _loop(self) -> None:
        took_s = 0.0
        while not self._stopping:
            pause = max(0.0, self._interval_s - took_s)
            if self._failures:
                pause = min(_BACK_OFF_S_MAX, _BACK_OFF_S_FIRST * 2 ** min(self._failures, 16))
            self._clock.wait(self.kick, pause)
            self.kick.clear()
            began_s = self._clock.monotonic()
            if not self._stopping and not self._turn():
                return
            took_s = self._clock.monotonic() - began_s if self.is_steady else 0.0

    def _turn(self) -> bool:
        try:
            self._run_once()
        except Poisoned as error:
            return self._die(str(error))
        except (OSError, StrandlineError) as error:
            self._failures += 1
            self._last_error = str(error)
        except BaseException as error:  # noqa: BLE001 - a bug must turn health red, whatever it is
            return self._die(repr(error))
        else:
            self._runs += 1
            self._failures = 0
            self._last_error = ""
        return True

    def _die(self, reason: str) -> bool:
        self._dead = True
        self._last_error = reason
        self._on_death(f"the {self.name} job died ({reason})")
        return False
