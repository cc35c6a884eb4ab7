"""How the loop hears of publishes: one tap on each topic that somebody waits for.

A tap is left with the topic as readers leave a lock (``log/read/wait.py``). Whoever publishes next
releases it, on whatever thread; that takes it off, so further publishes cost nothing until the loop
has had its turn and put it on again. However many taps ring, the loop is woken once.

    publish -> Tap.release -> Bells.ring -> (once) loop: turn(the taps that rang)
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from strandline.log.topic.topic import Topic
from strandline.server.live.streams import Stream


class Ringer(Protocol):
    """Whatever rings that is not a topic: it is told on the loop that it was heard."""

    def heard(self, streams: list[Stream]) -> None: ...


class Bells:
    """Wakes the loop. ``ring`` is safe from any thread, the rest is the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Callable[[], None]) -> None:
        self._loop = loop
        self._turn = turn
        self._thread = threading.get_ident()
        self._rung: deque[Tap | Ringer] = deque()
        self._woken = False

    def ring(self, tap: Tap | Ringer) -> None:
        """Note that a tap rang, and see to it that the loop looks."""
        self._rung.append(tap)
        if self._woken:
            return
        self._woken = True
        wake = self._loop.call_soon_threadsafe
        if threading.get_ident() == self._thread:
            wake = self._loop.call_soon  # no need to interrupt a poll that is not going on
        with contextlib.suppress(RuntimeError):  # a loop that was closed has nobody to tell
            wake(self._turn)

    def taken(self) -> list[Tap | Ringer]:
        """The taps that rang since the last time."""
        # First: what rings from here on wakes the loop again.
        self._woken = False
        rung = self._rung
        return [rung.popleft() for _ in range(len(rung))]


class Tap:
    """One topic, as the loop hears of it. ``release`` is safe from any thread."""

    __slots__ = ("_bells", "is_on", "topic")

    def __init__(self, bells: Bells, topic: Topic) -> None:
        self._bells = bells
        self.topic = topic
        self.is_on = False
        """Whether the topic will tell of its next publish."""

    def put_on(self) -> None:
        """Be told of the next publish. Look at the head after this, not before."""
        if not self.is_on:
            self.is_on = True
            self.topic.tap(self)

    def release(self) -> None:
        """What the topic calls, once, under its writer's lock."""
        self.is_on = False
        self._bells.ring(self)
