"""SSE responses: frames of one source, until it ends or the client disconnects.

    retry: 2000

    event: job
    id: 7
    data: {"$seq": 7, ...}

The source is cancelled as soon as the client has disconnected; then ``closing`` releases resources,
and is not cancelled. When nothing was sent for a while a comment is sent, so that proxies keep the
connection open. ``/v0/watch`` has its own implementation (``live/``), where one record goes to
thousands of streams.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strandline.api.errors import wire_error_of
from strandline.errors import StrandlineError
from strandline.server.http.request import RequestContext

HEARTBEAT_S = 15.0
RECHECK_S = 0.5
"""How often a waiting stream checks its token."""
EVENTS = "text/event-stream"

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


def frame(event: str, data: object, event_id: str) -> bytes:
    """One event."""
    body = msgspec.json.encode(data)
    return b"event: %b\nid: %b\ndata: %b\n\n" % (event.encode(), event_id.encode(), body)


class EventStream(Response):
    """SSE. Owned by the loop's thread."""

    def __init__(
        self,
        call: RequestContext,
        frames: AsyncIterator[bytes | None],
        *,
        closing: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """The source yields None when it has no event: at least once every RECHECK_S."""
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._call = call
        self._frames = frames
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._call.parts.auth.quotas.open_stream(self._call.who)
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self._run(receive, send)
        finally:
            self._call.parts.auth.quotas.close_stream(self._call.who)
            if self._closing is not None:
                await self._closing()

    async def _run(self, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_frames(send))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            disconnect.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await sending

    async def _send_frames(self, send: Send) -> None:
        clock = self._call.parts.clock
        await send(_body(b"retry: 2000\n\n"))
        sent_s = clock.monotonic()
        try:
            async for event in self._frames:
                self._check()
                now = clock.monotonic()
                if event is not None or now - sent_s >= HEARTBEAT_S:
                    await send(_body(event or b": hb %d\n\n" % (clock.now_us() // 1000)))
                    sent_s = now
                if self._call.parts.draining:
                    break
        except StrandlineError as error:
            problem = wire_error_of(error)
            fields = {"code": problem.code, "message": problem.message}
            if problem.detail:
                fields["detail"] = problem.detail  # type: ignore[assignment]  # JSON
            body = msgspec.json.encode({"error": fields})
            await send(_body(b"event: error\ndata: %b\n\n" % body))
        finally:
            await self._frames.aclose()  # type: ignore[attr-defined]  # sources are generators
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _check(self) -> None:
        """Raise when the token was revoked, or has expired."""
        self._call.parts.auth.check_live(self._call.who)


def _body(frame: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": frame, "more_body": True}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
