"""Tells streams of topics that were made since: for patterns, and for names that had no topic."""

from __future__ import annotations

import asyncio

from strandline.server.live.publish_notifier import Bells
from strandline.server.live.streams import Stream
from strandline.server.thread_pool import Bridge
from strandline.store import Store


class Newcomers:
    """Watches the catalogue once somebody asks. ``release`` is safe from any thread."""

    def __init__(self, store: Store, bridge: Bridge, bells: Bells) -> None:
        self._store = store
        self._bridge = bridge
        self._bells = bells
        self._last_id: int | None = None
        self._is_on = False
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Be told from now on. Look for what there is after this, not before."""
        if self._last_id is None:
            newest = self._store.newer_topics(0)[:1]
            self._last_id = newest[0].identity[0] if newest else 0
        self._put_on()

    def release(self) -> None:
        """What the catalogue calls, once, when a topic was made."""
        self._is_on = False
        self._bells.ring(self)

    def heard(self, streams: list[Stream]) -> None:
        """Hand the new topics to the streams that wait for some."""
        self._put_on()
        wanting = [stream for stream in streams if stream.newcomer is not None]
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell(wanting))

    async def _tell(self, streams: list[Stream]) -> None:
        assert self._last_id is not None
        while found := await self._bridge.run(self._store.newer_topics, self._last_id):
            self._last_id = found[0].identity[0]
            for topic in reversed(found):
                for stream in streams:
                    if stream.newcomer is not None and not stream.ended.done():
                        stream.newcomer(topic)

    def _put_on(self) -> None:
        if not self._is_on:
            self._is_on = True
            self._store.tap_topics(self)
