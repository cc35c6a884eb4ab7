"""Waits without a thread: for a record of a topic, a bell that any thread may ring, or time.

Whoever waits for others to do something may be gone before they do. Nothing is handed out then, and
nobody stands behind him in a line: ``Patience`` hears of it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from starlette.requests import Request

from strandline.log.topic.topic import Topic
from strandline.server.http.request import Call

Awaited = Coroutine[Any, Any, object]


class Patience:
    """How long one request waits: until its time is over, its client gone, or the server going.

    Owned by the loop's thread; a block of ``with``.
    """

    def __init__(self, call: Call, wait_s: float) -> None:
        self._call = call
        self._clock = call.parts.clock
        self._until = self._clock.monotonic() + wait_s
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._gone: asyncio.Future[None] | None = None

    def __enter__(self) -> Patience:
        connection = self._call.connection
        if self.left_s > 0 and isinstance(connection, Request):
            self._gone = asyncio.ensure_future(_gone(connection))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._gone is not None:
            self._gone.cancel()

    @property
    def left_s(self) -> float:
        """0 when nobody should wait any more."""
        if self.is_alone or self._call.parts.draining:
            return 0.0
        return max(0.0, self._until - self._clock.monotonic())

    @property
    def is_alone(self) -> bool:
        """Whether the client has gone: nothing may be handed out to him."""
        return self._gone is not None and self._gone.done()

    def ring(self) -> None:
        """Let it look again. Safe from many threads."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._rung.set)

    def clear(self) -> None:
        """Before looking: a ring from now on ends the next wait."""
        self._rung.clear()

    async def something_new(self, topic: Topic, after: int, most_s: float | None = None) -> None:
        """Return when the topic's head is past a seq, the bell has rung, or it is over."""
        timeout_s = self.left_s if most_s is None else min(self.left_s, most_s)
        if timeout_s > 0:
            hub = self._call.parts.hub
            await self._first(timeout_s, hub.wait_for(topic, after, timeout_s), self._rung.wait())

    async def acquired(self, line: asyncio.Lock) -> bool:
        """Whether a lock was got in time."""
        getting = asyncio.ensure_future(line.acquire())
        waiting: set[asyncio.Future[Any]] = (
            {getting} if self._gone is None else {getting, self._gone}
        )
        await asyncio.wait(waiting, timeout=self.left_s, return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return True
        getting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await getting
            line.release()
        return False

    async def _first(self, timeout_s: float, *awaited: Awaited) -> None:
        own: list[asyncio.Future[Any]] = [asyncio.ensure_future(each) for each in awaited]
        every = own if self._gone is None else [*own, self._gone]
        try:
            await asyncio.wait(every, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in own:
                each.cancel()
            await asyncio.gather(*own, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
