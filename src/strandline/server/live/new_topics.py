"""Notifies streams of created topics: for patterns, and for names that had no topic."""

from __future__ import annotations

import asyncio

from strandline.server.live.publish_notifier import PublishNotifier
from strandline.server.live.streams import Stream
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store


class NewTopics:
    """Watches the catalog of topics after ``watch``. ``release`` is safe from any thread."""

    def __init__(self, store: Store, bridge: ThreadPools, notifier: PublishNotifier) -> None:
        self._store = store
        self._bridge = bridge
        self._notifier = notifier
        self._last_id: int | None = None
        self._is_armed = False
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Start watching. List existing topics after this call, not before."""
        if self._last_id is None:
            newest = self._store.newer_topics(0)[:1]
            self._last_id = newest[0].identity[0] if newest else 0
        self._arm()

    def release(self) -> None:
        """Called by the catalog, once, when a topic was created."""
        self._is_armed = False
        self._notifier.notify(self)

    def on_notified(self, streams: list[Stream]) -> None:
        """Pass the new topics to the streams that wait for some."""
        self._arm()
        waiting = [stream for stream in streams if stream.on_new_topic is not None]
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._notify(waiting))

    async def _notify(self, streams: list[Stream]) -> None:
        assert self._last_id is not None
        while topics := await self._bridge.run(self._store.newer_topics, self._last_id):
            self._last_id = topics[0].identity[0]
            for topic in reversed(topics):
                for stream in streams:
                    if stream.on_new_topic is not None and not stream.ended.done():
                        stream.on_new_topic(topic)

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._store.notify_next_topic(self)
