# Made from asynchronous/event_stream.py by tests/house/blocking.py: change that one.
"""A stream of events that is open: one after the other, until it breaks."""

from __future__ import annotations

from collections import deque

import httpx2

from strandline.client.blocking.connection import RemoteConnection
from strandline.client.request import EVENTS, Ask, Failed, Quiet, failed_on_the_way
from strandline.client.sse import Event, Events
from strandline.errors import Closed, Unreachable


class RemoteListening:
    """Owned by one thread."""

    def __init__(self, connection: RemoteConnection, response: httpx2.Response) -> None:
        self._connection = connection
        self._response = response
        self._pieces = response.iter_bytes()
        self._events = Events()
        self._ready: deque[Event] = deque()

    @classmethod
    def begin(
        cls, connection: RemoteConnection, path: str, *, last_id: str, quiet_s: float
    ) -> RemoteListening:
        """Open a stream that goes on behind an event; Failed when there is none."""
        ask = Ask("GET", path, accept=EVENTS, safe=True, in_loop=True)
        return cls(connection, connection.open(ask, {"last-event-id": last_id}, quiet_s))

    def event(self) -> Event:
        """The next one; Quiet when none comes, Failed when the stream broke or ended."""
        where = self._connection.address.shown
        while not self._ready:
            try:
                piece = next(self._pieces, None)
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

    def close(self) -> None:
        """Hang up. Twice is fine."""
        self._connection.leave(self._response)
