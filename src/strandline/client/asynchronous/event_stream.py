"""A stream of events that is open: one after the other, until it breaks."""

from __future__ import annotations

from collections import deque

import httpx2

from strandline.client.asynchronous.connection import AsyncConnection
from strandline.client.request import EVENTS, Ask, Failed, Quiet, failed_on_the_way
from strandline.client.sse import Event, Events
from strandline.errors import Closed, Unreachable


class AsyncListening:
    """Owned by one task."""

    def __init__(self, connection: AsyncConnection, response: httpx2.Response) -> None:
        self._connection = connection
        self._response = response
        self._pieces = response.aiter_bytes()
        self._events = Events()
        self._ready: deque[Event] = deque()

    @classmethod
    async def begin(
        cls, connection: AsyncConnection, path: str, *, last_id: str, quiet_s: float
    ) -> AsyncListening:
        """Open a stream that goes on behind an event; Failed when there is none."""
        ask = Ask("GET", path, accept=EVENTS, safe=True, in_loop=True)
        return cls(connection, await connection.open(ask, {"last-event-id": last_id}, quiet_s))

    async def event(self) -> Event:
        """The next one; Quiet when none comes, Failed when the stream broke or ended."""
        where = self._connection.address.shown
        while not self._ready:
            try:
                piece = await anext(self._pieces, None)
            except httpx2.ReadTimeout as error:
                raise Quiet from error
            except (httpx2.RequestError, httpx2.StreamError) as error:
                if self._connection.is_closed:
                    raise Closed("the connection was closed meanwhile") from None
                raise failed_on_the_way(error, where) from error
            if piece is None:
                ended = Unreachable(f"{where} has ended the stream")
                raise Failed(ended, undone=True, passing=True)
            self._ready += self._events.take(piece)
        return self._ready.popleft()

    async def close(self) -> None:
        """Hang up. Twice is fine."""
        await self._connection.leave(self._response)
