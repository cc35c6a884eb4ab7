"""Wakes those who wait for a job when something has changed.

Who wants to wait listens first, then looks, then waits: what happens in between has rung the bell.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class Bell:
    """Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def listen(self) -> Iterator[threading.Event]:
        """Set at every ring; clear it before looking again."""
        event = threading.Event()
        with self.calling(event.set):
            yield event

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Called at every ring, by whoever rings: it must be quick, and never raise."""
        with self._lock:
            self._listening.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._listening.remove(callback)

    def ring(self) -> None:
        """Something has changed."""
        if self._listening:
            with self._lock:
                for callback in self._listening:
                    callback()
