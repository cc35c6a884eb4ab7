"""Notifies the loop of publishes: one tap on each watched topic.

A tap is registered with the topic like the lock of a waiting reader (``log/read/wait.py``). The
next publish, on any thread, releases and removes it, so further publishes cost nothing until the
loop has run and registered it again. The loop is woken once for any number of taps.

    publish -> Tap.release -> Bells.ring -> (once) loop: handler, which calls Bells.taken
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


class _NotificationSource(Protocol):
    """A source of notifications that is not a topic. ``heard`` is called on the loop."""

    def on_notified(self, streams: list[Stream]) -> None: ...


class PublishNotifier:
    """Wakes the loop. ``ring`` is safe from any thread, the rest is owned by the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> None:
        self._loop = loop
        self._handler = handler
        self._thread = threading.get_ident()
        self._released: deque[TopicNotifier | _NotificationSource] = deque()
        self._is_woken = False

    def notify(self, tap: TopicNotifier | _NotificationSource) -> None:
        """Queue a notification, and wake the loop if it was not woken yet."""
        self._released.append(tap)
        if self._is_woken:
            return
        self._is_woken = True
        wake = self._loop.call_soon_threadsafe
        if threading.get_ident() == self._thread:
            wake = self._loop.call_soon  # the loop is running, not polling
        with contextlib.suppress(RuntimeError):  # the loop is closed
            wake(self._handler)

    def drain(self) -> list[TopicNotifier | _NotificationSource]:
        """The taps that were released since the last call."""
        # First, so that a notification from here on wakes the loop again.
        self._is_woken = False
        released = self._released
        return [released.popleft() for _ in range(len(released))]


class TopicNotifier:
    """Notifies of publishes to one topic. ``release`` is safe from any thread."""

    __slots__ = ("_notifier", "is_armed", "topic")

    def __init__(self, notifier: PublishNotifier, topic: Topic) -> None:
        self._notifier = notifier
        self.topic = topic
        self.is_armed = False
        """Whether the topic will call ``release`` at its next publish."""

    def arm(self) -> None:
        """Register for the next publish. Read the head after this call, not before."""
        if not self.is_armed:
            self.is_armed = True
            self.topic.notify_next(self)

    def release(self) -> None:
        """Called by the topic, once, under its writer's lock."""
        self.is_armed = False
        self._notifier.notify(self)
