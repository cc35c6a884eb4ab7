"""Waits without a thread: for a record of a topic, a notification from any thread, or a timeout.

A client may disconnect while its request waits. ``Patience`` detects that at once: the request gets
no records or jobs, and releases its place in a queue of waiting requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from starlette.requests import Request

from strandline.log.topic.topic import Topic
from strandline.server.http.request import RequestContext

Awaited = Coroutine[Any, Any, object]


class RequestWait:
    """The wait of one request: until a timeout, a disconnect, or the shutdown of the server.

    Owned by the loop's thread; a block of ``with``.
    """

    def __init__(self, call: RequestContext, wait_s: float) -> None:
        self._call = call
        self._clock = call.parts.clock
        self._until = self._clock.monotonic() + wait_s
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._disconnect: asyncio.Future[None] | None = None

    def __enter__(self) -> RequestWait:
        connection = self._call.connection
        if self.left_s > 0 and isinstance(connection, Request):
            self._disconnect = asyncio.ensure_future(_wait_for_disconnect(connection))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._disconnect is not None:
            self._disconnect.cancel()

    @property
    def left_s(self) -> float:
        """Seconds left; 0 when the request should not wait any more."""
        if self.is_disconnected or self._call.parts.draining:
            return 0.0
        return max(0.0, self._until - self._clock.monotonic())

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has disconnected: it must not get records or jobs."""
        return self._disconnect is not None and self._disconnect.done()

    def notify(self) -> None:
        """End the present or next wait. Safe from many threads."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: no request waits any more
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Call this before a check: ``ring`` from now on ends the next wait."""
        self._event.clear()

    async def wait_for_record(self, topic: Topic, after: int, s_max: float | None = None) -> None:
        """Return when the topic's head is past a seq, after ``ring``, or at the end of the wait."""
        timeout_s = self.left_s if s_max is None else min(self.left_s, s_max)
        if timeout_s > 0:
            hub = self._call.parts.hub
            await self._first(timeout_s, hub.wait_for(topic, after, timeout_s), self._event.wait())

    async def acquire(self, lock: asyncio.Lock) -> bool:
        """Acquire a lock; False if that failed in time."""
        acquiring = asyncio.ensure_future(lock.acquire())
        waiting: set[asyncio.Future[Any]] = (
            {acquiring} if self._disconnect is None else {acquiring, self._disconnect}
        )
        await asyncio.wait(waiting, timeout=self.left_s, return_when=asyncio.FIRST_COMPLETED)
        if acquiring.done():
            return True
        acquiring.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await acquiring
            lock.release()
        return False

    async def _first(self, timeout_s: float, *awaited: Awaited) -> None:
        futures: list[asyncio.Future[Any]] = [asyncio.ensure_future(each) for each in awaited]
        all_futures = futures if self._disconnect is None else [*futures, self._disconnect]
        try:
            await asyncio.wait(all_futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in futures:
                each.cancel()
            await asyncio.gather(*futures, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
