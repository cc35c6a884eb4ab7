"""Notifies waiting claims of changes of a queue.

A caller subscribes first, then checks the queue, then waits: a change after the check has set its
event.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class Notifier:
    """Callbacks for changes of a queue. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def subscribe_event(self) -> Iterator[threading.Event]:
        """An event that every change sets. Clear it before checking the queue again."""
        event = threading.Event()
        with self.subscribe(event.set):
            yield event

    @contextlib.contextmanager
    def subscribe(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call a function at every change. It runs in the thread that made the change: it must be
        fast and must not raise."""
        with self._lock:
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    def notify(self) -> None:
        """Notify all callbacks of a change."""
        # Read without the lock: a caller that subscribes now checks the queue after this change.
        if self._callbacks:
            with self._lock:
                for callback in self._callbacks:
                    callback()
