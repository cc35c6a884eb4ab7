"""Waits for whatever comes first: a record of the topic, or something that happens in the group.

Who waits hangs up a bell with both before looking a last time, so nothing that happens between
looking and waiting is missed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock


class Bell:
    """Rings once or more often; waiting ends at the first time. Safe from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = threading.Event()
        self.release = self._rung.set
        """What a topic calls of whoever waits for it."""

    def wait(self, seconds: float) -> None:
        self._clock.wait(self._rung, seconds)


class Waiting:
    """Those who wait for one group. Safe from many threads."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._lock = threading.Lock()
        self._bells: set[Bell] = set()
        self._callbacks: list[Callable[[], None]] = []

    def ring(self) -> None:
        """Let everybody look again."""
        if not self._bells and not self._callbacks:
            return
        with self._lock:
            for bell in self._bells:
                bell.release()
            for callback in self._callbacks:
                callback()

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Called at everything that happens in the group; records of the topic are not told."""
        with self._lock:
            self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    @contextmanager
    def bell(self) -> Iterator[Bell]:
        """A bell that rings at everything that happens from now on."""
        bell = Bell(self._clock)
        gates = self._topic._state.waiters
        gate = cast("threading.Lock", bell)  # a topic does nothing with it but release
        with self._lock:
            self._bells.add(bell)
        gates.append(gate)
        try:
            yield bell
        finally:
            with self._lock:
                self._bells.discard(bell)
            with contextlib.suppress(ValueError):  # rung: then it has been taken out already
                gates.remove(gate)
