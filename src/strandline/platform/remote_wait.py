"""Marks the periods in which a thread only waits for an object store.

    with remote_wait():
        data = objects.get(key)

A pool of threads sets an observer for each of its threads and can let another thread work in the
meantime (``server/worker_pool.py``). Without an observer the mark has no effect. Marks may be
nested; only the outermost one is reported.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol


class WaitObserver(Protocol):
    """Called by the thread that waits."""

    def wait_began(self) -> None: ...

    def wait_ended(self) -> None: ...


class _Thread(threading.local):
    observer: WaitObserver | None = None
    depth: int = 0


_thread = _Thread()


def observe_waits(observer: WaitObserver | None) -> None:
    """Report the waits of this thread to an observer from now on."""
    _thread.observer = observer


class remote_wait:  # noqa: N801 - reads as a statement, like contextlib.suppress
    """The block waits for an object store, or for another thread that does."""

    def __enter__(self) -> None:
        _thread.depth += 1
        if _thread.depth == 1 and _thread.observer is not None:
            _thread.observer.wait_began()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _thread.depth -= 1
        if _thread.depth == 0 and _thread.observer is not None:
            _thread.observer.wait_ended()
