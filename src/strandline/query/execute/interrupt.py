"""Ends a query from another thread: at its deadline, or when nobody waits for it any more.

    interrupt = Interrupt()                     one for each query
    with interruptible(interrupt):              in the thread that runs it
        store.sql(...)
    interrupt.stop(Unavailable("too slow"))     in any other thread

Whoever runs something long attaches a way to stop it, and looks at ``check`` between steps. A stop
may come at any time: before the query begins, it does not begin. DuckDB forgets an interrupt that
comes between two statements, so ``stop`` may be called again until the query has ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from strandline.errors import StrandlineError


class Interrupt:
    """Whether a query is to end, and with which error. Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: StrandlineError | None = None
        self._stops: list[Callable[[], object]] = []

    def stop(self, error: StrandlineError) -> None:
        """End the query with an error; the first error counts."""
        with self._lock:
            self._error = self._error or error
            for stop in self._stops:
                stop()

    def check(self) -> None:
        """Raise, when the query is to end."""
        if self._error is not None:
            raise self._error

    def attach(self, stop: Callable[[], object]) -> None:
        """Call ``stop``, which must not wait, when the query is to end, until it is detached."""
        with self._lock:
            self.check()
            self._stops.append(stop)

    def detach(self, stop: Callable[[], object]) -> None:
        with self._lock:
            self._stops.remove(stop)

    @contextlib.contextmanager
    def attached(self, stop: Callable[[], object]) -> Iterator[None]:
        """The same within a block."""
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
    """What this thread begins within the block is ended by the interrupt."""
    before, _thread.interrupt = _thread.interrupt, interrupt
    try:
        yield
    finally:
        _thread.interrupt = before


def current() -> Interrupt:
    """The interrupt of what this thread runs; one that never stops when there is none."""
    return _thread.interrupt or Interrupt()
