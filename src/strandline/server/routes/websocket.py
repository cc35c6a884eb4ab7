"""WebSocket at /v0/ws: subscribe, unsubscribe, publish and ping, as JSON messages.

    -> {"op": "subscribe", "topic": "orders", "request_id": 1}
    <- {"op": "subscribed", "request_id": 1, "topics": {"orders": {"from_seq": 0, ...}}}
    <- {"op": "record", "topic": "orders", "records": [...], "from_seq": 0, "to_seq": 2, ...}
    -> {"op": "publish", "topic": "orders", "records": [{"data": 1}], "request_id": 2}
    <- {"op": "ack", "request_id": 2, "topic": "orders", "first_seq": 3, ...}

A client authenticates by the header ``Authorization``, by ``?token=`` and a ticket, or by its first
message: ``{"op": "auth", "token": "..."}``. Before that it may send 4 KiB in all. Publishes may be
sent without waiting for acks; acks are sent in the same order, and at most ``WINDOW`` publishes
wait for one. An error names its request; it ends the connection only if the client is not, or no
longer, authorized.
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
from strandline.server.handlers.watch_targets import WatchTarget, resolve_targets
from strandline.server.handlers.ws_publish import PublishAcks, body_of, error_message
from strandline.server.http.audit import address_of
from strandline.server.http.request import RequestContext
from strandline.server.http.request_body import check_objects
from strandline.server.http.route import OPEN, JsonResponse, Route
from strandline.server.limits.rate_limits import client_of
from strandline.server.live import frames
from strandline.server.live.sinks import ByteSink, QueueSink, TransportSink
from strandline.server.live.streams import Stream
from strandline.server.live.subscriptions import Subscription, prefix_of, subscription_of
from strandline.server.transports import transport_of, websocket_of

_LOG = structlog.get_logger("strandline.server")
WINDOW = 1024
"""Publishes that may wait for their ack; beyond that nothing is read."""
_LOGIN_S_MAX = 10.0
_POLL_S = 0.02
_BURST = 64  # messages of one connection that are handled in a row
_MESSAGE = msgspec.json.Decoder(live.Message)


class _Identified(msgspec.Struct):
    request_id: str | int | None = None


_IDENTIFIED = msgspec.json.Decoder(_Identified)


async def websocket(call: RequestContext) -> JsonResponse:
    """Serve a connection, from the handshake to its end."""
    assert isinstance(call.connection, WebSocket)
    quotas = call.parts.auth.quotas
    try:
        await call.connection.accept()
        connection = _Connection(call, call.connection)
        await connection.log_in()
        quotas.open_stream(call.who)
    except WebSocketDisconnect:
        return JsonResponse({})  # not logged: unauthenticated clients can cause it
    except StrandlineError as error:
        connection.refuse(error, None)
        await connection.finish(1008)
        return JsonResponse({})
    try:
        await connection.run()
    finally:
        quotas.close_stream(call.who)
    return JsonResponse({})


class _Connection:
    """One client. Owned by the loop's thread."""

    def __init__(self, call: RequestContext, socket: WebSocket) -> None:
        self._call = call
        self._socket = socket
        self._hub = call.parts.hub
        self._sink = _sink(socket)
        wrapping: frames.Wrapping = "frame" if isinstance(self._sink, TransportSink) else "text"
        settings = call.parts.settings.live
        self._stream = Stream(self._sink, who=call.who, wrapping=wrapping, settings=settings)
        self._patterns: dict[str, Subscription] = {}
        self._acks = PublishAcks(call.parts.commit_waiters, self._write)
        self._is_idle = False
        """Whether all received messages are handled."""

    async def log_in(self) -> None:
        """Authenticate by ticket or first message, unless a header did."""
        call = self._call
        if call.who.kind == "anonymous":
            ticket = self._socket.query_params.get("token")
            if ticket is not None:
                call.who = call.parts.auth.redeem(ticket, address_of(self._socket))
            else:
                await self._log_in_by_message()
        call.parts.auth.check_live(call.who)
        self._stream.who = call.who
        protocol = websocket_of(self._socket.scope)
        if protocol is not None:
            client = client_of(call.who, address_of(self._socket))
            protocol.hold = call.parts.budget.hold(client)

    async def _log_in_by_message(self) -> None:
        call = self._call
        try:
            async with asyncio.timeout(_LOGIN_S_MAX):
                message = self._decode(await self._receive())
        except TimeoutError as error:
            raise Refused(401, "unauthorized", "authentication required") from error
        if not isinstance(message, live.LoginMessage):
            raise Refused(401, "unauthorized", 'send {"op": "auth", "token": "..."} first')
        header, address = f"Bearer {message.token}", address_of(self._socket)
        call.who = call.parts.auth.authenticate(header, address)
        self._respond("authenticated", message.request_id, {})

    async def run(self) -> None:
        """Handle messages until one side ends the connection."""
        stream = self._stream
        stream.check = self._check
        stream.on_new_topic = self._on_new_topic
        protocol = websocket_of(self._socket.scope)
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
        """Handle messages one by one, while the client reads the responses."""
        for number in itertools.count(1):
            if not await self._has_room():
                return
            if number % _BURST == 0:
                await asyncio.sleep(0)  # let other connections run
            self._is_idle = True
            try:
                text = await self._receive()
            except WebSocketDisconnect:
                self._stream.end("gone")
                return
            finally:
                self._is_idle = False
            try:
                message = self._decode(text)
            except (Invalid, Refused) as error:
                self.refuse(error, _request_id(text))
                continue
            try:
                await self._handle(message)
            except StrandlineError as error:
                self.refuse(error, message.request_id)

    async def _has_room(self) -> bool:
        """Wait until responses can be sent; False after ``stalled_s_max`` without."""
        settings, clock = self._call.parts.settings.live, self._call.parts.clock
        started_s = clock.monotonic()
        while self._stream.waiting() > settings.queue_bytes_max:
            if clock.monotonic() - started_s > settings.stalled_s_max:
                self._stream.end("slow_consumer")
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _receive(self) -> str | bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text: str | None = message.get("text")
        data: bytes = message.get("bytes") or b""
        return data if text is None else text

    def _decode(self, text: str | bytes) -> live.Message:
        data = text.encode() if isinstance(text, str) else text
        limits = self._call.parts.settings.limits
        check_objects(data, limits.json_objects_max)
        try:
            check_json(data, limits.json_depth_max)
            message: live.Message = _MESSAGE.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Invalid(f"invalid message: {error}") from error
        return message

    async def _handle(self, message: live.Message) -> None:
        match message:
            case live.Publish():
                await self._publish(message)
            case live.Subscribe():
                await self._subscribe(message)
            case live.Unsubscribe():
                self._unsubscribe(message)
            case live.PingMessage():
                now_ms = self._call.parts.clock.now_us() // 1000
                self._respond("pong", message.request_id, {"ts": now_ms})
            case live.LoginMessage():
                raise Invalid("already authenticated: open another connection")

    # Publishing.

    async def _publish(self, message: live.Publish) -> None:
        call = self._call
        body = body_of(message)
        call.parts.auth.quotas.count_message(call.who, address_of(call.connection), len(body))
        try:
            if len(body) > append.LARGE:
                raise UnknownTopic("too large to be appended on the loop")
            placed = append.place(
                call.parts,
                call.who,
                message.topic,
                body,
                append.JSON,
                return_seqs=message.return_seqs,
            )
        except UnknownTopic:
            # The topic has to be created, or the body decoded on a thread.
            placed = await append.append(
                call.parts,
                call.who,
                message.topic,
                body,
                append.JSON,
                return_seqs=message.return_seqs,
            )
        self._acks.add(message.request_id, placed)
        self._acks.flush()
        while self._acks.count >= WINDOW:
            await self._acks.wait_for_fewer()

    def handle(self, message: bytes) -> bool:
        """Handle a publish that need not wait, as ``_publish`` does; False for all others."""
        call = self._call
        if (
            not self._is_idle
            or self._acks.count >= WINDOW
            or call.parts.auth.quotas.counts_bytes
            or self._stream.waiting() > call.parts.settings.live.queue_bytes_max
        ):
            return False
        try:
            publish = self._decode(message)
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
        except Exception as bug:  # noqa: BLE001 - a bug ends this connection only
            _LOG.error("internal error in a publish", topic=publish.topic, exc_info=bug)
            self._stream.end("internal")
        else:
            self._acks.add(publish.request_id, placed)
        return True

    def flush(self) -> None:
        """Send the acks of the received messages: there are no more for now."""
        self._acks.flush()

    # Watching.

    async def _subscribe(self, message: live.Subscribe) -> None:
        requested = _requested_topics(message)
        subscription = subscription_of(message, self._stream.wrapping)
        targets = await resolve_targets(self._call, requested, subscription.record_filter)
        new = [topic for topic in targets.topics if topic.name not in self._stream.positions]
        topics_max = self._call.parts.settings.limits.watch_topics_max
        if len(self._stream.positions) + len(new) > topics_max:
            raise Invalid(f"a connection watches at most {topics_max} topics: open another")
        self._patterns |= dict.fromkeys(targets.patterns, subscription)
        watched = {topic.name: _to_wire(topic) for topic in targets.topics}
        self._respond("subscribed", message.request_id, {"topics": watched})
        for target in targets.topics:
            self._hub.detach(self._stream, target.name)
            touch(self._call.parts, target.name)
            self._hub.attach(
                self._stream, target.topic, subscription, target.from_seq, target.start_epoch
            )

    def _unsubscribe(self, message: live.Unsubscribe) -> None:
        names = list(message.topics or ())
        if message.topic is not None:
            names.append(message.topic)
        if not names:
            names = [*self._stream.positions, *self._patterns]
        for name in names:
            self._patterns.pop(name, None)
            self._hub.detach(self._stream, name)
        self._respond("unsubscribed", message.request_id, {"topics": names})

    def _on_new_topic(self, topic: Topic) -> None:
        """Called for a created topic: attach it if a subscription includes it."""
        name = topic.name
        subscription = next(
            (each for pattern, each in self._patterns.items() if _matches(pattern, name)), None
        )
        position = self._stream.positions.get(name)
        if position is not None and not position.is_alive:
            subscription = self._stream.subscriptions.get(name, subscription)
        elif position is not None:
            return
        if subscription is None or not self._call.parts.auth.allows(self._call.who, "read", name):
            return
        if len(self._stream.positions) < self._call.parts.settings.limits.watch_topics_max:
            with contextlib.suppress(Invalid):  # without the fields of the filter
                self._hub.attach(self._stream, topic, subscription, 0)

    def _check(self) -> None:
        self._call.parts.auth.check_live(self._call.who)
        for name in self._stream.positions:
            self._call.allow("read", name)

    # Responses.

    def _respond(self, op: str, request_id: str | int | None, more: dict[str, Any]) -> None:
        self._write(msgspec.json.encode({"op": op, "request_id": request_id} | more))

    def refuse(self, error: BaseException, request_id: str | int | None) -> None:
        """Send an error."""
        self._write(error_message(error, request_id))

    def _write(self, *messages: bytes) -> None:
        if self._stream.wrapping == "frame":
            self._stream.send(b"".join([frames.text_frame(message) for message in messages]))
            return
        for message in messages:
            self._stream.send(message)

    async def finish(self, code: int) -> None:
        """Close; the connection of a client that does not read this is aborted."""
        self._acks.discard()
        try:
            async with asyncio.timeout(_LOGIN_S_MAX / 2):
                if isinstance(self._sink, QueueSink):
                    await self._sink.finish()
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # closed already
                    await self._socket.close(code)
        except TimeoutError:
            self._sink.abort()


_CODES = {
    "shutting_down": 1001,
    "unauthorized": 1008,
    "forbidden": 1008,
    "slow_consumer": 1013,
    "corrupt": 1011,
    "internal": 1011,
}
"""The close code by the reason why the stream ended; otherwise 1000."""


def _sink(socket: WebSocket) -> ByteSink:
    transport = transport_of(socket.scope)
    if transport is not None:
        return TransportSink(transport)

    async def text(data: bytes) -> None:
        await socket.send_text(data.decode())

    return QueueSink(text)


def _request_id(text: str | bytes) -> str | int | None:
    """The id in a message that is rejected; its other fields are skipped, however many."""
    try:
        return _IDENTIFIED.decode(text).request_id
    except (msgspec.MsgspecError, RecursionError):
        return None


def _requested_topics(message: live.Subscribe) -> dict[str, live.StartPosition]:
    default = live.StartPosition(from_seq=message.from_seq, tail=message.tail)
    requested: dict[str, live.StartPosition] = {}
    if isinstance(message.topics, dict):
        requested |= message.topics
    else:
        requested |= dict.fromkeys(message.topics or (), default)
    if message.topic is not None:
        requested[message.topic] = default
    return requested


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(prefix_of(pattern))


def _to_wire(target: WatchTarget) -> live.WatchedTopic:
    return live.WatchedTopic(
        from_seq=target.from_seq, head_seq=target.head_seq, earliest_seq=target.earliest_seq
    )


ROUTES = (
    Route(
        method="WEBSOCKET",
        path="/v0/ws",
        handler=websocket,
        needs=OPEN,
        is_public=True,  # the first message may authenticate
        summary="Subscribe, unsubscribe, publish and ping over one WebSocket.",
    ),
)
