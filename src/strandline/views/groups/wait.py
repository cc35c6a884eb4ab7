"""Waits for a new record of the topic or a change in the group, whichever comes first.

A caller registers with both before its last read, so nothing that happens between the read and the
wait is missed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock


class GroupWaiter:
    """One waiting caller, released once or more often. Safe to use from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = threading.Event()
        self.release = self._event.set
        """The method that a topic calls to wake a waiter."""

    def wait(self, seconds: float) -> None:
        self._clock.wait(self._event, seconds)


class GroupWaiters:
    """The waiting callers and callbacks of one group. Safe to use from many threads."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: set[GroupWaiter] = set()
        self._callbacks: list[Callable[[], None]] = []

    def notify(self) -> None:
        """Wake all waiting callers and run all callbacks."""
        # Read without the lock: a caller that registers now reads the group after this change.
        if not self._waiters and not self._callbacks:
            return
        with self._lock:
            for waiter in self._waiters:
                waiter.release()
            for callback in self._callbacks:
                callback()

    @contextmanager
    def subscribe(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call a function at every change in the group, but not at new records of the topic."""
        with self._lock:
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    @contextmanager
    def waiter(self) -> Iterator[GroupWaiter]:
        """A waiter that every change and every new record releases from now on."""
        waiter = GroupWaiter(self._clock)
        topic_waiters = self._topic._state.waiters
        lock = cast("threading.Lock", waiter)  # the topic only calls its release
        with self._lock:
            self._waiters.add(waiter)
        topic_waiters.append(lock)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)
            with contextlib.suppress(ValueError):  # released: the topic has removed it already
                topic_waiters.remove(lock)
