"""Wakes those who wait for a job when something has changed.

Who wants to wait listens first, then looks, then waits: what happens in between has rung the bell.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Bell:
    """Safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: list[threading.Event] = []

    @contextlib.contextmanager
    def listen(self) -> Iterator[threading.Event]:
        """Set at every ring; clear it before looking again."""
        event = threading.Event()
        with self._lock:
            self._listening.append(event)
        try:
            yield event
        finally:
            with self._lock:
                self._listening.remove(event)

    def ring(self) -> None:
        """Something has changed."""
        if self._listening:
            with self._lock:
                for event in self._listening:
                    event.set()
