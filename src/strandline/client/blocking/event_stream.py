# Made from asynchronous/event_stream.py by tests/house/blocking.py: change that one.
"""Reads events one by one from an open stream, until it breaks."""

from __future__ import annotations

from collections import deque

import httpx2

from strandline.client.blocking.connection import RemoteConnection
from strandline.client.request import (
    EVENTS,
    FailedAttempt,
    Request,
    StreamTimeout,
    transport_failure,
)
from strandline.client.sse import SseEvent, SseParser
from strandline.errors import Closed, ObjectStoreUnreachable


class RemoteEventStream:
    """An open event stream. Owned by one thread."""

    def __init__(self, connection: RemoteConnection, response: httpx2.Response) -> None:
        self._connection = connection
        self._response = response
        self._chunks = response.iter_bytes()
        self._events = SseParser()
        self._ready: deque[SseEvent] = deque()

    @classmethod
    def open(
        cls, connection: RemoteConnection, path: str, *, last_id: str, quiet_s: float
    ) -> RemoteEventStream:
        """Open a stream that resumes after an event; Failed when that is not possible."""
        request = Request("GET", path, accept=EVENTS, safe=True, in_loop=True)
        return cls(connection, connection.open_stream(request, {"last-event-id": last_id}, quiet_s))

    def event(self) -> SseEvent:
        """The next event; Quiet after a timeout, Failed when the stream broke or ended."""
        where = self._connection.address.shown
        while not self._ready:
            try:
                chunk = next(self._chunks, None)
            except httpx2.ReadTimeout as error:
                raise StreamTimeout from error
            except (httpx2.RequestError, httpx2.StreamError) as error:
                if self._connection.is_closed:
                    raise Closed("the connection was closed during the request") from None
                raise transport_failure(error, where) from error
            if chunk is None:
                failure = ObjectStoreUnreachable(f"{where} ended the stream")
                raise FailedAttempt(failure, not_executed=True, is_transient=True)
            self._ready += self._events.feed(chunk)
        return self._ready.popleft()

    def close(self) -> None:
        """Close the stream. Closing it twice is fine."""
        self._connection.close_stream(self._response)
