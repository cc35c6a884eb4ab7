"""One connection: uvicorn's HTTP protocol with strict validation, deadlines and a fast path.

    head             limited while it arrives, checked by ``http_validation.py`` when complete
    repeat           a plain append with the bytes of a cached head: the head is not parsed again
    plain append     handled here (``fast_append.py``): no task, no scope, no application
    everything else  is handled by uvicorn, as ASGI

Responses are sent in the order of their requests. Appends that wait for a sync are queued. A
request for the application waits until that queue is empty; appends after it go to the application.
A protocol error is sent in the usual format, after the pending responses; then the connection
ends. The sweep of ``connections.py`` enforces deadlines. All of this depends on internals of
uvicorn: its version is pinned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import httptools
import structlog
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from strandline.api.errors import Refused, WireError, wire_error_of
from strandline.server import transports
from strandline.server.connection import http_validation
from strandline.server.connection.connections import Connections
from strandline.server.connection.fast_append import DelayedResponse, FastAppend, ResponseHeads
from strandline.server.connection.head_cache import IncomingAppend
from strandline.server.http.proxies import TrustedProxies
from strandline.server.limits.byte_budget import NOT_AUTHENTICATED, ByteBudget
from strandline.server.settings import ServerSettings

_LOG = structlog.get_logger("strandline.server")
_QUEUE_MAX = 1000  # responses that may wait for a sync before reading pauses
_HEAD_END = b"\r\n\r\n"
_HEAD_FREE = 4096  # unfinished heads of at most this size are not counted in the budget
_PIPELINE_FREE = 16  # nor are this many requests that wait for earlier responses
_REQUEST_SIZE = 4096  # bytes that each further one counts
_LINGER_S = 2.0  # time for the client to read the last response


class HttpConnection(HttpToolsProtocol):
    """A connection. Owned by the loop's thread."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        connections: Connections,
        proxies: TrustedProxies,
        budget: ByteBudget,
        settings: ServerSettings,
        heads: ResponseHeads,
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.fast_append: FastAppend | None = None
        """The fast path, once the store is open."""
        self.on_connected: Callable[[], None] | None = None
        """Called once it is connected, if it was counted as a TLS handshake before."""
        self._heads = heads
        self._connections = connections
        self._proxies = proxies
        self._hold = budget.hold(NOT_AUTHENTICATED)  # heads, and requests that wait
        self._limits = settings.limits
        self._stalled_s_max = settings.limits.receive_s_max + settings.live.stalled_s_max
        self._address = ""
        self._is_trusted = False
        self._waiting_since = self.loop.time()  # when waiting for the client started
        self._stalled_since: float | None = None  # when the client stopped reading
        self._request_count = 0  # requests whose first byte was received
        self._in_head = True
        self._chunk_size = 0  # bytes of the latest chunk
        self._head_size = 0  # bytes of an unfinished head in earlier chunks
        self._receiving = False
        self._append: IncomingAppend | None = None
        self._head = b""  # the next request's head, if the chunk has all of it
        self._head_request = 0  # the number of that request
        self._queue: deque[bytes | DelayedResponse] = (
            deque()
        )  # a waiting response, and those after it
        self._ready: list[bytes] = []
        self._running: RequestResponseCycle | None = None
        self._ended = False  # no more requests are accepted
        self._final_response: bytes | None = None
        self._upgraded = False

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._is_trusted = self._proxies.trusts(self._address)
        if self.on_connected is not None:
            self.on_connected()
        try:
            self._connections.add(self, self._address)
        except Refused as error:
            self._reject(error.wire_error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self, self._address)
        self._ended = True
        self.pipeline.clear()
        self._release()
        self._cancel_cycle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        hot = self.fast_append
        if (
            hot is not None
            and not self._receiving
            and self._running is None
            and not self.pipeline
            and (data := self._append_repeats(hot, data)) == b""
        ):
            self._write_ready()
            if len(self._queue) > _QUEUE_MAX or self.flow.write_paused:
                self.flow.pause_reading()
            return
        # The number of the newest request that all of these bytes can belong to.
        newest = self._request_count + (not self._receiving)
        self._chunk_size = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
        except httptools.HttpParserError as error:
            self._reject(_problem_of(error))
        else:
            if self._in_head and self._request_count <= newest:
                self._head_size += self._chunk_size
                if self._head_size > self._limits.header_bytes_max:
                    self._reject(http_validation.headers_too_large(self._limits).wire_error)
            self._count()
        self._write_ready()
        if len(self._queue) > _QUEUE_MAX or self.flow.write_paused:
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = None
        self._resume_reading()

    def shutdown(self) -> None:
        """The server shuts down: close after the pending responses."""
        if self._has_pending:
            self._end_with(b"")
            if self.cycle is not None:
                self.cycle.keep_alive = False
        else:
            self.transport.close()

    def overdue(self, now: float) -> bool:
        """Whether a deadline of the client has passed."""
        if self._upgraded:
            return self.transport.is_closing()
        if self._stalled_since is not None and now - self._stalled_since > self._stalled_s_max:
            return True
        waited_s = now - self._waiting_since
        if self._ended and not self._has_pending:
            return waited_s > _LINGER_S
        if self._receiving:
            return waited_s > self._limits.receive_s_max and not self.flow.read_paused
        return waited_s > self._limits.idle_s_max and not self._has_pending

    def expire(self) -> None:
        """The client is overdue: send 408 if a request is incomplete, and close."""
        if self._receiving and not self._ended and self._stalled_since is None:
            seconds = self._limits.receive_s_max
            message = f"a request has to arrive within {seconds:g} s"
            self._reject(WireError(408, "request_timeout", message, {}))
        else:
            self.abort()

    def hang_up(self) -> None:
        """The last response was written: close, once the request has arrived completely."""
        if self._receiving and not self._ended:
            self._ended, self._final_response = True, b""  # on_response_complete comes next
        else:
            self.transport.close()

    def abort(self) -> None:
        """Close now, without waiting for anything."""
        self._connections.remove(self, self._address)
        self._release()
        self._cancel_cycle()
        self.transport.abort()

    # -- the budget

    def _count(self) -> None:
        """Count unfinished and waiting requests in the budget; 503 when it is exhausted."""
        append, hot = self._append, self.fast_append
        size = self._head_size if self._in_head and self._head_size > _HEAD_FREE else 0
        size += max(0, len(self.pipeline) - _PIPELINE_FREE) * _REQUEST_SIZE
        try:
            self._hold.resize(size)
            if append is not None and hot is not None:
                hot.hold(append, self._address_of(self.headers))
        except Refused as error:
            self.pipeline.clear()
            self._reject(error.wire_error)

    def _release(self) -> None:
        self._hold.release()
        if self._append is not None and self._append.hold is not None:
            self._append.hold.release()

    # -- a request

    def on_message_begin(self) -> None:
        self._request_count += 1
        self._in_head = self._receiving = True
        self._head_size = 0
        self._waiting_since = self.loop.time()
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers after a body are ignored
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers, url, parser = self.headers, self.url, self.parser
        by_name = dict(headers)
        limits = self._limits
        if (
            self._head_size + self._chunk_size > limits.header_bytes_max
            or len(headers) > limits.headers_max
        ):
            http_validation.check_size(url, headers, limits)
        method, version = parser.get_method(), parser.get_http_version()
        http_validation.check(version, method, url, headers, by_name)
        hot = self.fast_append
        if (
            method == b"POST"
            and hot is not None
            and self._running is None
            and not self.pipeline
            and version == "1.1"
            and len(by_name) == len(headers)
        ):
            self._append = hot.plain_append(url, by_name, self._address_of(headers))
            if self._append is not None:
                return
        self._start_cycle(headers, by_name)

    def on_body(self, body: bytes) -> None:
        if self._append is not None:
            self._append.pieces.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving = False
        append, self._append = self._append, None
        if append is None:
            super().on_message_complete()
        else:
            self._append_plain(append)

    # -- the fast path

    def _append_repeats(self, hot: FastAppend, data: bytes) -> bytes:
        """Handle appends with cached heads; returns the rest, which starts a request, for the
        parser."""
        at = 0
        cached, size = hot.cached_heads.get, len(data)
        while at < size:
            end = data.find(_HEAD_END, at) + len(_HEAD_END)
            head = data[at:end]
            repeat = cached(head)
            if repeat is None:
                self._head, self._head_request = head, self._request_count + 1
                break
            end += repeat.size
            if end > size:
                break
            address = self._address_of(repeat.headers)
            body = data[end - repeat.size : end]
            response = hot.append_repeat(repeat, body, address, self.server_state.default_headers)
            if response is None:
                break
            self._waiting_since = self.loop.time()
            self._enqueue(response)
            at = end
        return data[at:] if at else data

    def _append_plain(self, append: IncomingAppend) -> None:
        hot = self.fast_append
        assert hot is not None
        response = hot.append(
            append, self._address_of(self.headers), self.server_state.default_headers
        )
        if response is None:
            self._start_cycle(self.headers, dict(self.headers))
            super().on_body(append.body)
            super().on_message_complete()
            return
        if append.hold is not None:
            append.hold.release()
        if self._head_request == self._request_count:
            hot.cache_head(self._head, append, self.headers)
        self._enqueue(response)

    def _address_of(self, headers: list[tuple[bytes, bytes]]) -> str:
        """The client's address, which limits count by."""
        return self._proxies.client(self._address, headers) if self._is_trusted else self._address

    def _enqueue(self, response: bytes | DelayedResponse) -> None:
        self.server_state.total_requests += 1
        if isinstance(response, bytes):
            if self._queue:
                self._queue.append(response)
            else:
                self._ready.append(response)
            return
        self._queue.append(response)
        hot = self.fast_append
        assert hot is not None
        hot.parts.commit_waiters.wait(response.pending, self, response)

    def on_durable(self, append: DelayedResponse, error: BaseException | None) -> None:
        """Set the response of an append that waited for a sync."""
        append.response = append.response_of(error, self.server_state.default_headers)

    def flush(self) -> None:
        """Send the responses that are not after a waiting one."""
        queue = self._queue
        if self.transport.is_closing():
            queue.clear()  # the client has disconnected
            return
        while queue:
            response = queue[0]
            if not isinstance(response, bytes):
                if not response.response:
                    break
                response = response.response
            self._ready.append(response)
            queue.popleft()
        self._write_ready()
        if not queue:
            self._start_next()
        elif len(queue) < _QUEUE_MAX // 2:
            self._resume_reading()

    def _write_ready(self) -> None:
        if self._ready:
            self.transport.write(b"".join(self._ready))
            self._ready.clear()

    # -- requests for the application

    def _start_cycle(self, headers: list[tuple[bytes, bytes]], by_name: dict[bytes, bytes]) -> None:
        http_validation.check_waiting(len(self.pipeline))
        url = self.url
        super().on_message_begin()
        self.url = url
        self.headers += headers  # the scope has this list
        self.scope["extensions"] = {transports.NAME: self.transport}  # type: ignore[dict-item]  # not of uvicorn's types
        self.expect_100_continue = by_name.get(b"expect", b"").lower() == b"100-continue"
        super().on_headers_complete()
        if not self._upgraded and self.cycle is not None:
            self.cycle.transport = _CycleTransport(self)  # type: ignore[assignment]  # has all that it calls

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._queue:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))
            return
        self._write_ready()
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._running = None
        if not self._receiving:
            self._waiting_since = self.loop.time()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._start_next()

    def _start_next(self) -> None:
        """Nothing is in progress: start the next request, or end."""
        if self.pipeline and not self._queue:
            self._start_asgi_task(*self.pipeline.pop())
            if self._hold.size:
                self._count()
        elif self._final_response is not None:
            self._end_with(self._final_response)
        else:
            self._resume_reading()

    def _resume_reading(self) -> None:
        if not self.pipeline and not self.flow.write_paused and not self.transport.is_closing():
            self.flow.resume_reading()

    def _upgrade(self) -> None:
        if not self._should_upgrade():
            # The parser has stopped: no request after this one is accepted.
            self._end_with(b"")
            if self.cycle is not None:
                self.cycle.keep_alive = False
        elif self._has_pending:
            self._reject(http_validation.malformed("an upgrade after other requests").wire_error)
        else:
            self._upgraded = True
            self.handle_websocket_upgrade()

    # -- the end

    @property
    def _has_pending(self) -> bool:
        return bool(self._queue or self._ready or self._running is not None or self.pipeline)

    def _reject(self, problem: WireError) -> None:
        """Send an error after the pending responses, and close."""
        if self._receiving and not self._in_head and self._append is None:
            self._drop_cycle()
        self._release()
        self._receiving = False
        self._append = None
        self._end_with(self._heads.problem(problem, self.server_state.default_headers, close=True))

    def _drop_cycle(self) -> None:
        """Prevent a response of the application to the request whose body is invalid."""
        cycle = self.cycle
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        elif cycle is not None and cycle is self._running:
            if cycle.response_started:
                self.transport.close()
            self._cancel_cycle()

    def _cancel_cycle(self) -> None:
        """Mark the running request as disconnected, so that the application stops."""
        cycle, self._running = self._running, None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _end_with(self, final_response: bytes) -> None:
        """Accept no more requests, and close after the pending responses."""
        self._ended = True
        if self._has_pending:
            self._final_response = final_response
            return
        self._waiting_since = self.loop.time()
        self._final_response = None
        if final_response:
            self.transport.write(final_response)
        if (final_response or self._receiving) and self.transport.can_write_eof():
            # Unread bytes would make the kernel reset the connection, and the client would lose
            # the response: wait until it closes first. The sweep closes connections that do not.
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            self.transport.close()


class _CycleTransport:
    """The transport of a response. ``close`` waits while the request is still arriving."""

    __slots__ = ("_protocol", "write")

    def __init__(self, protocol: HttpConnection) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.hang_up()


def _problem_of(error: httptools.HttpParserError) -> WireError:
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if cause is None or isinstance(cause, httptools.HttpParserError):
        return http_validation.malformed(f"invalid HTTP: {error}").wire_error
    if not isinstance(cause, Refused):
        _LOG.error("internal error in a connection", exc_info=cause)
    return wire_error_of(cause)
