"""WebSocket at /v0/ws: subscribe, unsubscribe, publish and ping, as JSON messages.

    -> {"op": "subscribe", "topic": "orders", "request_id": 1}
    <- {"op": "subscribed", "request_id": 1, "topics": {"orders": {"from_seq": 0, ...}}}
    <- {"op": "record", "topic": "orders", "records": [...], "from_seq": 0, "to_seq": 2, ...}
    -> {"op": "publish", "topic": "orders", "records": [{"data": 1}], "request_id": 2}
    <- {"op": "ack", "request_id": 2, "topic": "orders", "first_seq": 3, ...}

A client authenticates by the header ``Authorization``, by ``?token=`` and a ticket, or by its first
message: ``{"op": "auth", "token": "..."}``. Until then it may send 4 KiB in all. Publishes may
follow each other without waiting; acks come in their order, and only so many may be on their way.
An error names the request; only a message that is no message, or who may not be here at all, ends
the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import msgspec
import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from strandline.api import live
from strandline.api.errors import Refused
from strandline.api.json_limits import check_json
from strandline.errors import Invalid, StrandlineError, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.server.handlers import append
from strandline.server.handlers.topic_cache import touch
from strandline.server.handlers.watch_targets import Meant, named
from strandline.server.handlers.ws_publish import Acks, body_of, refusal
from strandline.server.http.audit import address_of
from strandline.server.http.request import Call
from strandline.server.http.request_body import check_objects
from strandline.server.http.route import OPEN, Answer, Route
from strandline.server.limits.rate_limits import client_of
from strandline.server.live import frames
from strandline.server.live.sinks import Outlet, QueueOutlet, TransportOutlet
from strandline.server.live.streams import Stream
from strandline.server.live.subscriptions import Wish, prefix_of, wish_of
from strandline.server.transports import taking, transport_of

_LOG = structlog.get_logger("strandline.server")
WINDOW = 1024
"""Publishes that may wait for their ack; then nothing more is read."""
_LOGIN_S = 10.0
_LOOK_S = 0.02
_TURN = 64  # messages of one connection that are answered in a row
_MESSAGE = msgspec.json.Decoder(live.Message)


class _Identified(msgspec.Struct):
    request_id: str | int | None = None


_IDENTIFIED = msgspec.json.Decoder(_Identified)


async def websocket(call: Call) -> Answer:
    """A whole connection, from the handshake to the end."""
    assert isinstance(call.connection, WebSocket)
    quotas = call.parts.auth.quotas
    try:
        await call.connection.accept()
        connection = _Connection(call, call.connection)
        await connection.log_in()
        quotas.open_stream(call.who)
    except WebSocketDisconnect:
        return Answer({})  # the log has no line: anybody can do this
    except StrandlineError as error:
        connection.refuse(error, None)
        await connection.finish(1008)
        return Answer({})
    try:
        await connection.run()
    finally:
        quotas.close_stream(call.who)
    return Answer({})


class _Connection:
    """One client. Owned by the loop's thread."""

    def __init__(self, call: Call, socket: WebSocket) -> None:
        self._call = call
        self._socket = socket
        self._hub = call.parts.hub
        self._outlet = _outlet(socket)
        wrapping: frames.Wrapping = "frame" if isinstance(self._outlet, TransportOutlet) else "text"
        settings = call.parts.settings.live
        self._stream = Stream(self._outlet, who=call.who, wrapping=wrapping, settings=settings)
        self._patterns: dict[str, Wish] = {}
        self._acks = Acks(call.parts.durable, self._write)
        self._is_idle = False
        """Whether all messages that have come are answered."""

    async def log_in(self) -> None:
        """Find out who this is, when no header said it."""
        call = self._call
        if call.who.kind == "nobody":
            ticket = self._socket.query_params.get("token")
            if ticket is not None:
                call.who = call.parts.auth.redeem(ticket, address_of(self._socket))
            else:
                await self._log_in_by_message()
        call.parts.auth.check_live(call.who)
        self._stream.who = call.who
        protocol = taking(self._socket.scope)
        if protocol is not None:
            client = client_of(call.who, address_of(self._socket))
            protocol.hold = call.parts.budget.hold(client)

    async def _log_in_by_message(self) -> None:
        call = self._call
        try:
            async with asyncio.timeout(_LOGIN_S):
                message = self._decoded(await self._received())
        except TimeoutError as error:
            raise Refused(401, "unauthorized", "nobody said who this is") from error
        if not isinstance(message, live.Login):
            raise Refused(401, "unauthorized", 'send {"op": "auth", "token": "..."} first')
        header, address = f"Bearer {message.token}", address_of(self._socket)
        call.who = call.parts.auth.authenticate(header, address)
        self._tell("authenticated", message.request_id, {})

    async def run(self) -> None:
        """Answer messages until one side ends."""
        stream = self._stream
        stream.check = self._check
        stream.newcomer = self._newcomer
        protocol = taking(self._socket.scope)
        reading = asyncio.ensure_future(self._read())
        reading.add_done_callback(lambda _: stream.end("internal"))
        try:
            self._hub.open(stream)
            if protocol is not None:
                protocol.taker = self
            await stream.ended
        except StrandlineError as error:
            self.refuse(error, None)
        finally:
            if protocol is not None:
                protocol.taker = None
            reading.cancel()
            self._hub.close(stream)
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
                await reading
            if not stream.waiting() > 0:
                await self._acks.drain()
            await self.finish(_CODES.get(stream.ended.result(), 1000))

    async def _read(self) -> None:
        """Take messages one after the other, as long as their answers are taken."""
        for number in itertools.count(1):
            if not await self._has_room():
                return
            if number % _TURN == 0:
                await asyncio.sleep(0)  # other connections take their turn
            self._is_idle = True
            try:
                text = await self._received()
            except WebSocketDisconnect:
                self._stream.end("gone")
                return
            finally:
                self._is_idle = False
            try:
                message = self._decoded(text)
            except (Invalid, Refused) as error:
                self.refuse(error, _request_id(text))
                continue
            try:
                await self._answer(message)
            except StrandlineError as error:
                self.refuse(error, message.request_id)

    async def _has_room(self) -> bool:
        """Wait until answers go out again; False when they do not for too long."""
        settings, clock = self._call.parts.settings.live, self._call.parts.clock
        began = clock.monotonic()
        while self._stream.waiting() > settings.queue_bytes_max:
            if clock.monotonic() - began > settings.patience_s:
                self._stream.end("slow_consumer")
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def _received(self) -> str | bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: str | None = message.get("text")
        data: bytes = message.get("bytes") or b""
        return data if text is None else text

    def _decoded(self, text: str | bytes) -> live.Message:
        data = text.encode() if isinstance(text, str) else text
        limits = self._call.parts.settings.limits
        check_objects(data, limits.json_objects_max)
        try:
            check_json(data, limits.json_depth_max)
            message: live.Message = _MESSAGE.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Invalid(f"this is no message: {error}") from error
        return message

    async def _answer(self, message: live.Message) -> None:
        match message:
            case live.Publish():
                await self._publish(message)
            case live.Subscribe():
                await self._subscribe(message)
            case live.Unsubscribe():
                self._unsubscribe(message)
            case live.Ping():
                now_ms = self._call.parts.clock.now_us() // 1000
                self._tell("pong", message.request_id, {"ts": now_ms})
            case live.Login():
                raise Invalid("who this is was said already: open another connection")

    # Publishing.

    async def _publish(self, message: live.Publish) -> None:
        call = self._call
        body = body_of(message)
        call.parts.auth.quotas.message(call.who, address_of(call.connection), len(body))
        try:
            if len(body) > append.LARGE:
                raise UnknownTopic("too large to be placed on the loop")
            placed = append.place(
                call.parts,
                call.who,
                message.topic,
                body,
                append.JSON,
                return_seqs=message.return_seqs,
            )
        except UnknownTopic:
            # The topic has to be made, or the body decoded on a thread: in its turn.
            placed = await append.append(
                call.parts,
                call.who,
                message.topic,
                body,
                append.JSON,
                return_seqs=message.return_seqs,
            )
        self._acks.owe(message.request_id, placed)
        self._acks.flush()
        while self._acks.count >= WINDOW:
            await self._acks.wait_for_fewer()

    def take(self, message: bytes) -> bool:
        """Answer a publish that need not wait, as ``_publish`` would; False for all else."""
        call = self._call
        if (
            not self._is_idle
            or self._acks.count >= WINDOW
            or call.parts.auth.quotas.counts_bytes
            or self._stream.waiting() > call.parts.settings.live.queue_bytes_max
        ):
            return False
        try:
            publish = self._decoded(message)
        except (Invalid, Refused):
            return False
        if not isinstance(publish, live.Publish):
            return False
        body = body_of(publish)
        if len(body) > append.LARGE:
            return False
        try:
            placed = append.place(
                call.parts,
                call.who,
                publish.topic,
                body,
                append.JSON,
                return_seqs=publish.return_seqs,
            )
        except UnknownTopic:
            return False
        except StrandlineError as error:
            self._acks.flush()
            self.refuse(error, publish.request_id)
        except Exception as bug:  # noqa: BLE001 - it ends this connection, not the loop's turn
            _LOG.error("a publish met a bug", topic=publish.topic, exc_info=bug)
            self._stream.end("internal")
        else:
            self._acks.owe(publish.request_id, placed)
        return True

    def flush(self) -> None:
        """No more messages have come: send the acks of those that did."""
        self._acks.flush()

    # Watching.

    async def _subscribe(self, message: live.Subscribe) -> None:
        asked = _asked(message)
        wish = wish_of(message, self._stream.wrapping)
        found = await named(self._call, asked, wish.sieve)
        new = [topic for topic in found.topics if topic.name not in self._stream.places]
        most = self._call.parts.settings.limits.watch_topics_max
        if len(self._stream.places) + len(new) > most:
            raise Invalid(f"a connection watches at most {most} topics: open another")
        self._patterns |= dict.fromkeys(found.patterns, wish)
        told = {topic.name: _told(topic) for topic in found.topics}
        self._tell("subscribed", message.request_id, {"topics": told})
        for meant in found.topics:
            self._hub.detach(self._stream, meant.name)
            touch(self._call.parts, meant.name)
            self._hub.attach(self._stream, meant.topic, wish, meant.from_seq, meant.life)

    def _unsubscribe(self, message: live.Unsubscribe) -> None:
        names = list(message.topics or ())
        if message.topic is not None:
            names.append(message.topic)
        if not names:
            names = [*self._stream.places, *self._patterns]
        for name in names:
            self._patterns.pop(name, None)
            self._hub.detach(self._stream, name)
        self._tell("unsubscribed", message.request_id, {"topics": names})

    def _newcomer(self, topic: Topic) -> None:
        """A topic was made: take it when it is one that was waited for."""
        name = topic.name
        wish = next(
            (wish for pattern, wish in self._patterns.items() if _fits(pattern, name)), None
        )
        waiting = self._stream.places.get(name)
        if waiting is not None and not waiting.is_alive:
            wish = self._stream.wishes.get(name, wish)
        elif waiting is not None:
            return
        if wish is None or not self._call.parts.auth.may(self._call.who, "read", name):
            return
        if len(self._stream.places) < self._call.parts.settings.limits.watch_topics_max:
            with contextlib.suppress(Invalid):  # without the fields that are asked for
                self._hub.attach(self._stream, topic, wish, 0)

    def _check(self) -> None:
        self._call.parts.auth.check_live(self._call.who)
        for name in self._stream.places:
            self._call.allow("read", name)

    # Telling.

    def _tell(self, op: str, request_id: str | int | None, more: dict[str, Any]) -> None:
        self._write(msgspec.json.encode({"op": op, "request_id": request_id} | more))

    def refuse(self, error: BaseException, request_id: str | int | None) -> None:
        """Tell of an error."""
        self._write(refusal(error, request_id))

    def _write(self, *messages: bytes) -> None:
        if self._stream.wrapping == "frame":
            self._stream.send(b"".join([frames.text_frame(message) for message in messages]))
            return
        for message in messages:
            self._stream.send(message)

    async def finish(self, code: int) -> None:
        """Close; a client that does not take even this is cut off."""
        self._acks.end()
        try:
            async with asyncio.timeout(_LOGIN_S / 2):
                if isinstance(self._outlet, QueueOutlet):
                    await self._outlet.finish()
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # closed already
                    await self._socket.close(code)
        except TimeoutError:
            self._outlet.abort()


_CODES = {
    "shutting_down": 1001,
    "unauthorized": 1008,
    "forbidden": 1008,
    "slow_consumer": 1013,
    "corrupt": 1011,
    "internal": 1011,
}
"""How a connection is closed, by why its stream ended; else it is a normal end."""


def _outlet(socket: WebSocket) -> Outlet:
    transport = transport_of(socket.scope)
    if transport is not None:
        return TransportOutlet(transport)

    async def text(data: bytes) -> None:
        await socket.send_text(data.decode())

    return QueueOutlet(text)


def _request_id(text: str | bytes) -> str | int | None:
    """The id in a message that is refused; its other fields are skipped, however many."""
    try:
        return _IDENTIFIED.decode(text).request_id
    except (msgspec.MsgspecError, RecursionError):
        return None


def _asked(message: live.Subscribe) -> dict[str, live.From]:
    default = live.From(from_seq=message.from_seq, tail=message.tail)
    asked: dict[str, live.From] = {}
    if isinstance(message.topics, dict):
        asked |= message.topics
    else:
        asked |= dict.fromkeys(message.topics or (), default)
    if message.topic is not None:
        asked[message.topic] = default
    return asked


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(prefix_of(pattern))


def _told(meant: Meant) -> live.WatchedTopic:
    return live.WatchedTopic(
        from_seq=meant.from_seq, head_seq=meant.head_seq, earliest_seq=meant.earliest_seq
    )


ROUTES = (
    Route(
        method="WEBSOCKET",
        path="/v0/ws",
        handler=websocket,
        needs=OPEN,
        is_public=True,  # the first message may authenticate
        summary="Subscribe, unsubscribe, publish and ping over one WebSocket",
    ),
)
