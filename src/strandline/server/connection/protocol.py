"""One connection: uvicorn's HTTP protocol, made strict and patient to a limit, with a hot path.

    head             limited while it arrives, checked by ``http_validation.py`` when it is whole
    a repeat         a plain append whose head came before, byte for byte: nothing is parsed again
    plain append     answered right here (``fast_append.py``): no task, no scope, no application
    everything else  goes uvicorn's way, as ASGI

Answers leave in the order of their requests. Appends that wait for a sync stand in line; a request
for the application waits until the line is empty, and an append behind such a request goes with it.
What breaks a rule is told in our format, after the answers that are still owed; then the connection
ends. Deadlines are kept by the sweep of ``connections.py``. All of this rests on the insides of
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

from strandline.api.errors import Problem, Refused, problem_of
from strandline.server import transports
from strandline.server.connection import http_validation
from strandline.server.connection.connections import Connections
from strandline.server.connection.fast_append import Heads, Hot, Waiting
from strandline.server.connection.head_cache import Append
from strandline.server.http.proxies import Proxies
from strandline.server.limits.byte_budget import NOT_AUTHENTICATED, ByteBudget
from strandline.server.settings import ServerSettings

_LOG = structlog.get_logger("strandline.server")
_LINE_MAX = 1000  # answers that may wait for a sync before no more is read
_HEAD_ENDS = b"\r\n\r\n"
_HEAD_FREE = 4096  # unfinished heads of at most this size are not counted
_PIPELINE_FREE = 16  # nor are so many requests that wait for the answers before them
_REQUEST_SIZE = 4096  # what each of the others counts
_LINGER_S = 2.0  # how long a client may take to read why its connection ends


class Protocol(HttpToolsProtocol):
    """A connection. Owned by the loop's thread."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        connections: Connections,
        proxies: Proxies,
        budget: ByteBudget,
        settings: ServerSettings,
        heads: Heads,
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.hot: Hot | None = None
        """The hot path, once the store is open."""
        self.arrived: Callable[[], None] | None = None
        """Called once it is connected, if it was counted before as one that makes a handshake."""
        self._heads = heads
        self._all = connections
        self._proxies = proxies
        self._hold = budget.hold(NOT_AUTHENTICATED)  # of heads, and of requests that wait
        self._limits = settings.limits
        self._stuck_s_max = settings.limits.receive_s_max + settings.live.patience_s
        self._address = ""
        self._is_trusted = False
        self._since = self.loop.time()  # when the client began to let us wait
        self._stuck_since: float | None = None  # when it stopped to read
        self._begun = 0  # requests whose first byte has come
        self._in_head = True
        self._fed = 0  # bytes that came last
        self._head_fed = 0  # bytes of an unfinished head that came before them
        self._receiving = False
        self._append: Append | None = None
        self._head = b""  # of the request that comes next, when its first bytes have all of it
        self._head_of = 0  # which request that is
        self._line: deque[bytes | Waiting] = deque()  # answers behind one that waits for a sync
        self._ready: list[bytes] = []
        self._running: RequestResponseCycle | None = None
        self._ended = False  # nothing more is taken from the client
        self._last_words: bytes | None = None
        self._upgraded = False

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._is_trusted = self._proxies.trusts(self._address)
        if self.arrived is not None:
            self.arrived()
        try:
            self._all.add(self, self._address)
        except Refused as error:
            self._refuse(error.problem)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self, self._address)
        self._ended = True
        self.pipeline.clear()
        self._release()
        self._let_go()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        hot = self.hot
        if (
            hot is not None
            and not self._receiving
            and self._running is None
            and not self.pipeline
            and (data := self._take_repeats(hot, data)) == b""
        ):
            self._write_ready()
            if len(self._line) > _LINE_MAX or self.flow.write_paused:
                self.flow.pause_reading()
            return
        # The newest request that all of these bytes can be a part of.
        newest = self._begun + (not self._receiving)
        self._fed = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrade()
        except httptools.HttpParserError as error:
            self._refuse(_problem_of(error))
        else:
            if self._in_head and self._begun <= newest:
                self._head_fed += self._fed
                if self._head_fed > self._limits.header_bytes_max:
                    self._refuse(http_validation.headers_too_large(self._limits).problem)
            self._count()
        self._write_ready()
        if len(self._line) > _LINE_MAX or self.flow.write_paused:
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck_since = None
        self._read_on()

    def shutdown(self) -> None:
        """The server goes down: end when what was asked is answered."""
        if self._is_owing:
            self._end_after(b"")
            if self.cycle is not None:
                self.cycle.keep_alive = False
        else:
            self.transport.close()

    def overdue(self, now: float) -> bool:
        """Whether the client has let us wait for too long."""
        if self._upgraded:
            return self.transport.is_closing()
        if self._stuck_since is not None and now - self._stuck_since > self._stuck_s_max:
            return True
        waited_s = now - self._since
        if self._ended and not self._is_owing:
            return waited_s > _LINGER_S
        if self._receiving:
            return waited_s > self._limits.receive_s_max and not self.flow.read_paused
        return waited_s > self._limits.idle_s_max and not self._is_owing

    def give_up(self) -> None:
        """The client is overdue: say so if it was sending, and close."""
        if self._receiving and not self._ended and self._stuck_since is None:
            seconds = self._limits.receive_s_max
            message = f"a request has to arrive within {seconds:g} s"
            self._refuse(Problem(408, "request_timeout", message, {}))
        else:
            self.cut()

    def hang_up(self) -> None:
        """The answer is given and the last one: close, when the client has heard it."""
        if self._receiving and not self._ended:
            self._ended, self._last_words = True, b""  # on_response_complete comes next
        else:
            self.transport.close()

    def cut(self) -> None:
        """Close now, whatever is under way."""
        self._all.remove(self, self._address)
        self._release()
        self._let_go()
        self.transport.abort()

    # -- the budget

    def _count(self) -> None:
        """Hold in the budget what is unfinished or waits; 503 when there is no room for it."""
        append, hot = self._append, self.hot
        size = self._head_fed if self._in_head and self._head_fed > _HEAD_FREE else 0
        size += max(0, len(self.pipeline) - _PIPELINE_FREE) * _REQUEST_SIZE
        try:
            self._hold.resize(size)
            if append is not None and hot is not None:
                hot.hold(append, self._sender(self.headers))
        except Refused as error:
            self.pipeline.clear()
            self._refuse(error.problem)

    def _release(self) -> None:
        self._hold.release()
        if self._append is not None and self._append.hold is not None:
            self._append.hold.release()

    # -- a request

    def on_message_begin(self) -> None:
        self._begun += 1
        self._in_head = self._receiving = True
        self._head_fed = 0
        self._since = self.loop.time()
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes behind a body is not asked for
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers, url, parser = self.headers, self.url, self.parser
        by_name = dict(headers)
        limits = self._limits
        if (
            self._head_fed + self._fed > limits.header_bytes_max
            or len(headers) > limits.headers_max
        ):
            http_validation.check_size(url, headers, limits)
        method, version = parser.get_method(), parser.get_http_version()
        http_validation.check(version, method, url, headers, by_name)
        hot = self.hot
        if (
            method == b"POST"
            and hot is not None
            and self._running is None
            and not self.pipeline
            and version == "1.1"
            and len(by_name) == len(headers)
        ):
            self._append = hot.plain(url, by_name, self._sender(headers))
            if self._append is not None:
                return
        self._begin_cycle(headers, by_name)

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
            self._take(append)

    # -- the hot path

    def _take_repeats(self, hot: Hot, data: bytes) -> bytes:
        """Answer appends whose heads are known; what is left is for the parser, which has not
        begun a request."""
        at = 0
        known, size = hot.repeats.get, len(data)
        while at < size:
            behind = data.find(_HEAD_ENDS, at) + len(_HEAD_ENDS)
            head = data[at:behind]
            repeat = known(head)
            if repeat is None:
                self._head, self._head_of = head, self._begun + 1
                break
            behind += repeat.size
            if behind > size:
                break
            address = self._sender(repeat.headers)
            body = data[behind - repeat.size : behind]
            answer = hot.take_again(repeat, body, address, self.server_state.default_headers)
            if answer is None:
                break
            self._since = self.loop.time()
            self._tell(answer)
            at = behind
        return data[at:] if at else data

    def _take(self, append: Append) -> None:
        hot = self.hot
        assert hot is not None
        answer = hot.take(append, self._sender(self.headers), self.server_state.default_headers)
        if answer is None:
            self._begin_cycle(self.headers, dict(self.headers))
            super().on_body(append.body)
            super().on_message_complete()
            return
        if append.hold is not None:
            append.hold.release()
        if self._head_of == self._begun:
            hot.remember(self._head, append, self.headers)
        self._tell(answer)

    def _sender(self, headers: list[tuple[bytes, bytes]]) -> str:
        """The address that a request counts for."""
        return self._proxies.client(self._address, headers) if self._is_trusted else self._address

    def _tell(self, answer: bytes | Waiting) -> None:
        self.server_state.total_requests += 1
        if isinstance(answer, bytes):
            if self._line:
                self._line.append(answer)
            else:
                self._ready.append(answer)
            return
        self._line.append(answer)
        hot = self.hot
        assert hot is not None
        hot.parts.durable.wait(answer.pending, self, answer)

    def settled(self, append: Waiting, error: BaseException | None) -> None:
        """An append that waited for a sync has its answer."""
        append.told = append.answer(error, self.server_state.default_headers)

    def flush(self) -> None:
        """Send the answers that are not behind one that waits."""
        line = self._line
        if self.transport.is_closing():
            line.clear()  # nobody is there any more
            return
        while line:
            answer = line[0]
            if not isinstance(answer, bytes):
                if not answer.told:
                    break
                answer = answer.told
            self._ready.append(answer)
            line.popleft()
        self._write_ready()
        if not line:
            self._go_on()
        elif len(line) < _LINE_MAX // 2:
            self._read_on()

    def _write_ready(self) -> None:
        if self._ready:
            self.transport.write(b"".join(self._ready))
            self._ready.clear()

    # -- uvicorn's way

    def _begin_cycle(self, headers: list[tuple[bytes, bytes]], by_name: dict[bytes, bytes]) -> None:
        http_validation.check_waiting(len(self.pipeline))
        url = self.url
        super().on_message_begin()
        self.url = url
        self.headers += headers  # the scope has this list
        self.scope["extensions"] = {transports.NAME: self.transport}  # type: ignore[dict-item]  # ours alone
        self.expect_100_continue = by_name.get(b"expect", b"").lower() == b"100-continue"
        super().on_headers_complete()
        if not self._upgraded and self.cycle is not None:
            self.cycle.transport = _Patient(self)  # type: ignore[assignment]  # all that it uses

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._line:
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
            self._since = self.loop.time()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._go_on()

    def _go_on(self) -> None:
        """Nothing is under way: begin what waits behind it, or end."""
        if self.pipeline and not self._line:
            self._start_asgi_task(*self.pipeline.pop())
            if self._hold.size:
                self._count()
        elif self._last_words is not None:
            self._end_after(self._last_words)
        else:
            self._read_on()

    def _read_on(self) -> None:
        if not self.pipeline and not self.flow.write_paused and not self.transport.is_closing():
            self.flow.resume_reading()

    def _upgrade(self) -> None:
        if not self._should_upgrade():
            # The parser has stopped: this is the last request, whatever comes behind it.
            self._end_after(b"")
            if self.cycle is not None:
                self.cycle.keep_alive = False
        elif self._is_owing:
            self._refuse(http_validation.malformed("an upgrade behind other requests").problem)
        else:
            self._upgraded = True
            self.handle_websocket_upgrade()

    # -- the end

    @property
    def _is_owing(self) -> bool:
        return bool(self._line or self._ready or self._running is not None or self.pipeline)

    def _refuse(self, problem: Problem) -> None:
        """Tell what is wrong, behind the answers that are still owed, and close."""
        if self._receiving and not self._in_head and self._append is None:
            self._drop_cycle()
        self._release()
        self._receiving = False
        self._append = None
        self._end_after(self._heads.problem(problem, self.server_state.default_headers, close=True))

    def _drop_cycle(self) -> None:
        """The request whose body is wrong must not be answered by the application as well."""
        cycle = self.cycle
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        elif cycle is not None and cycle is self._running:
            if cycle.response_started:
                self.transport.close()
            self._let_go()

    def _let_go(self) -> None:
        """Tell the application that nobody waits for the answer it is giving."""
        cycle, self._running = self._running, None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def _end_after(self, last_words: bytes) -> None:
        """Take nothing more, and close as soon as nothing is owed."""
        self._ended = True
        if self._is_owing:
            self._last_words = last_words
            return
        self._since = self.loop.time()
        self._last_words = None
        if last_words:
            self.transport.write(last_words)
        if (last_words or self._receiving) and self.transport.can_write_eof():
            # Bytes that nobody reads would make the kernel reset the connection, and the client
            # would lose our words: let it hang up first. The sweep sees to those that do not.
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            self.transport.close()


class _Patient:
    """The transport of an answer, which does not hang up while the request is still arriving."""

    __slots__ = ("_protocol", "write")

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self.write = protocol.transport.write

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    def close(self) -> None:
        self._protocol.hang_up()


def _problem_of(error: httptools.HttpParserError) -> Problem:
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
    if cause is None or isinstance(cause, httptools.HttpParserError):
        return http_validation.malformed(f"this is not HTTP: {error}").problem
    if not isinstance(cause, Refused):
        _LOG.error("a connection met a bug", exc_info=cause)
    return problem_of(cause)
