"""Ends a query from another thread: at its deadline, or when its client is gone.

    interrupt = Interrupt()                     one for each query
    with interruptible(interrupt):              in the thread that runs it
        store.sql(...)
    interrupt.stop(Unavailable("too slow"))     in any other thread

Long operations attach a function that stops them, and call ``check`` between steps. ``stop`` may be
called at any time: before the query starts, the query does not start. DuckDB ignores an interrupt
between two statements, so ``stop`` may be called again until the query has ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from strandline.errors import StrandlineError


class Interrupt:
    """A request to end a query with an error. Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: StrandlineError | None = None
        self._stops: list[Callable[[], object]] = []

    def stop(self, error: StrandlineError) -> None:
        """End the query with an error; of several errors, the first is raised."""
        with self._lock:
            self._error = self._error or error
            for stop in self._stops:
                stop()

    def check(self) -> None:
        """Raise the error if ``stop`` was called."""
        if self._error is not None:
            raise self._error

    def attach(self, stop: Callable[[], object]) -> None:
        """Call the function, which must not block, at ``stop``, until it is detached."""
        with self._lock:
            self.check()
            self._stops.append(stop)

    def detach(self, stop: Callable[[], object]) -> None:
        with self._lock:
            self._stops.remove(stop)

    @contextlib.contextmanager
    def attached(self, stop: Callable[[], object]) -> Iterator[None]:
        """Attach a function within a block."""
        self.attach(stop)
        try:
            yield
        finally:
            self.detach(stop)


class _Thread(threading.local):
    interrupt: Interrupt | None = None


_thread = _Thread()


@contextlib.contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """The interrupt ends operations that this thread starts within the block."""
    previous, _thread.interrupt = _thread.interrupt, interrupt
    try:
        yield
    finally:
        _thread.interrupt = previous


def current() -> Interrupt:
    """The interrupt of this thread; without one, an interrupt that never stops."""
    return _thread.interrupt or Interrupt()
