"""Server-sent events: POST /v0/watch creates a session, GET /v0/watch/{wid} streams its records.

    retry: 2000
    id: <cursors at the start of the stream>

    event: record
    data: {"topic": "orders", "records": [...], "from_seq": 0, "to_seq": 2, "head_seq": 2}
    id: <the reader's cursors in all topics after this event>

Events: ``record``, ``tombstone``, ``caught-up``, ``topic-deleted``, ``error``. A comment is sent
when there was no event for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strandline.api import live
from strandline.config.settings import MIB
from strandline.errors import Invalid, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.server.handlers.topic_cache import topic_of, touch
from strandline.server.handlers.watch_targets import epoch_of, resolve_targets, topics_of_patterns
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route
from strandline.server.live import frames
from strandline.server.live.sessions import SavedPosition, WatchSession
from strandline.server.live.sinks import ByteSink, QueueSink, TransportSink
from strandline.server.live.streams import Stream
from strandline.server.live.subscriptions import Subscription, prefix_of, subscription_of
from strandline.server.transports import transport_of

_FINISH_S_MAX = 5.0
"""Maximum time for sending the last bytes of a stream."""

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


async def watch(call: RequestContext) -> JsonResponse:
    """POST /v0/watch."""
    body: live.WatchRequest = call.body
    record_filter = subscription_of(body, "event").record_filter
    targets = await resolve_targets(call, body.topics, record_filter, lenient=call.query.lenient)
    session = call.parts.hub.sessions.make(call.who.id, body)
    session.patterns = targets.patterns
    watched: dict[str, live.WatchedTopic] = {}
    for topic in targets.topics:
        session.positions[topic.name] = SavedPosition(topic.from_seq, topic.start_epoch)
        session.first_epochs[topic.name] = topic.start_epoch
        watched[topic.name] = live.WatchedTopic(
            from_seq=topic.from_seq, head_seq=topic.head_seq, earliest_seq=topic.earliest_seq
        )
        touch(call.parts, topic.name)
    marks = {name: mark.cursor for name, mark in session.positions.items()}
    return JsonResponse(
        live.WatchResponse(
            wid=session.wid,
            stream_url=f"/v0/watch/{session.wid}",
            session_ttl_ms=round(call.parts.settings.live.session_s * 1000),
            topics=watched,
            last_event_id=frames.encode_marks(marks).decode(),
        )
    )


async def stream(call: RequestContext) -> Response:
    """GET /v0/watch/{wid}."""
    call.parts.auth.check_live(call.who)
    session = call.parts.hub.sessions.find(call.path["wid"], call.who.id)
    record_filter = subscription_of(session.request, "event").record_filter
    for topic, _ in await topics_of_patterns(call, session.patterns, record_filter):
        session.positions.setdefault(topic.name, SavedPosition(0))
    session.save()
    last_event_id = call.connection.headers.get("last-event-id")
    marks = session.resume(frames.decode_marks(last_event_id) if last_event_id else {})
    for name in marks:
        call.allow("read", name)
    return _WatchResponse(call, session, marks)


async def forget(call: RequestContext) -> JsonResponse:
    """DELETE /v0/watch/{wid}."""
    call.parts.auth.check_live(call.who)
    hub = call.parts.hub
    session = hub.sessions.drop(call.path["wid"], call.who.id)
    if session.stream is not None:
        hub.close(session.stream)
    return JsonResponse(live.DeleteWatchResponse(wid=session.wid, forgotten=True))


class _WatchResponse(Response):
    """The stream of a session. Owned by the loop's thread."""

    def __init__(
        self, call: RequestContext, session: WatchSession, marks: dict[str, SavedPosition]
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._call = call
        self._session = session
        self._marks = marks
        self._hub = call.parts.hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body"})
            return
        quotas = self._call.parts.auth.quotas
        quotas.open_stream(self._call.who)
        try:
            self._replace_previous()
            await send(start)
            await self._stream(_sink(scope, send), receive, send)
        finally:
            quotas.close_stream(self._call.who)

    def _replace_previous(self) -> None:
        previous = self._session.stream
        if previous is not None and not previous.ended.done():
            previous.send_frames(
                [frames.error(410, "replaced", "another stream uses this session now")]
            )
            self._hub.close(previous)

    async def _stream(self, sink: ByteSink, receive: Receive, send: Send) -> None:
        is_direct = isinstance(sink, TransportSink)
        wrapping: frames.Wrapping = "chunk" if is_direct else "event"
        settings = self._call.parts.settings.live
        stream = Stream(sink, who=self._call.who, wrapping=wrapping, settings=settings)
        disconnect = asyncio.ensure_future(_end_on_disconnect(receive, stream))
        self._session.stream = stream
        try:
            self._hub.open(stream)
            self._begin(stream)
            with self._heartbeats(stream):
                await stream.ended
        finally:
            self._hub.sessions.detach(self._session, stream)
            self._hub.close(stream)
            await _finish(sink, send, disconnect)

    def _begin(self, stream: Stream) -> None:
        """Send the start cursors, and attach the stream to its topics."""
        subscription = subscription_of(self._session.request, stream.wrapping)
        stream.check = lambda: _check(stream, self._call)
        stream.on_new_topic = lambda topic: self._on_new_topic(stream, subscription, topic)
        self._call.parts.auth.check_live(self._call.who)
        self._hub.watch_new_topics()
        marks = {name: mark.cursor for name, mark in self._marks.items()}
        stream.send(_wrap(frames.stream_start(marks), stream))
        for name, mark in self._marks.items():
            stream.set_position(name, mark)  # all of them first, so that the first id has them
        for name, mark in self._marks.items():
            self._attach(stream, name, subscription, mark)

    def _attach(
        self, stream: Stream, name: str, subscription: Subscription, mark: SavedPosition
    ) -> None:
        try:
            topic = topic_of(self._call.parts, name)
        except UnknownTopic:
            stream.set_position(name, SavedPosition(0, mark.epoch))
            stream.send_frames([frames.topic_deleted(name, mark.cursor, "deleted")])
            return
        touch(self._call.parts, name)
        stream.id_epochs |= self._session.id_epochs(name, epoch_of(topic))
        self._hub.attach(stream, topic, subscription, mark.cursor, mark.epoch)

    def _on_new_topic(self, stream: Stream, subscription: Subscription, topic: Topic) -> None:
        """Called for a created topic: attach it if the session includes it."""
        call, name = self._call, topic.name
        if name in self._session.positions:
            if stream.is_attached(name) or not call.parts.auth.allows(call.who, "read", name):
                return
        elif not self._includes(stream, name):
            return
        stream.id_epochs |= self._session.id_epochs(name, epoch_of(topic))
        self._session.positions[name] = SavedPosition(0, epoch_of(topic))
        with contextlib.suppress(Invalid):  # without the fields of the filter
            self._hub.attach(stream, topic, subscription, 0, epoch_of(topic))

    def _includes(self, stream: Stream, name: str) -> bool:
        call, limits = self._call, self._call.parts.settings.limits
        if not any(name.startswith(prefix_of(pattern)) for pattern in self._session.patterns):
            return False
        if not call.parts.auth.allows(call.who, "read", name):
            return False
        if len(stream.positions) < limits.watch_topics_max:
            return True
        text = f"the stream has {limits.watch_topics_max} topics, the limit: open another stream"
        stream.send_frames([frames.error(429, "throttled", text, topics=[name])])
        return False

    @contextmanager
    def _heartbeats(self, stream: Stream) -> Iterator[None]:
        low, high = live.HEARTBEAT_MS_RANGE
        pause_s = max(low, min(self._session.request.heartbeat_ms, high)) / 1000
        heartbeat = _Heartbeat(stream, pause_s, self._call.parts.clock)
        try:
            yield
        finally:
            heartbeat.stop()


class _Heartbeat:
    """Sends a comment when nothing was sent for a while. Owned by the loop's thread."""

    def __init__(self, stream: Stream, pause_s: float, clock: Clock) -> None:
        self._stream = stream
        self._pause_s = pause_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(pause_s, self._beat)

    def stop(self) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        stream = self._stream
        if not stream.has_sent and stream.full_since is None:
            stream.send(_wrap(frames.heartbeat(self._clock.now_us() // 1000), stream))
        stream.has_sent = False
        self._timer = self._loop.call_later(self._pause_s, self._beat)


def _check(stream: Stream, call: RequestContext) -> None:
    """Raise when the client may no longer watch."""
    call.parts.auth.check_live(call.who)
    for name in stream.positions:
        call.allow("read", name)


def _sink(scope: Scope, send: Send) -> ByteSink:
    transport = transport_of(scope)
    if transport is not None:
        return TransportSink(transport)

    async def body(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    return QueueSink(body)


def _wrap(data: bytes, stream: Stream) -> bytes:
    return frames.chunk(data) if stream.wrapping == "chunk" else data


async def _end_on_disconnect(receive: Receive, stream: Stream) -> None:
    """Return once the client has disconnected, and end the stream."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end("gone")


async def _finish(sink: ByteSink, send: Send, disconnect: asyncio.Future[None]) -> None:
    """End the response; the connection of a client that does not read it is aborted."""
    try:
        async with asyncio.timeout(_FINISH_S_MAX):
            if isinstance(sink, QueueSink):
                await sink.finish()
            await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        sink.abort()
    if isinstance(sink, TransportSink):
        await asyncio.wait([disconnect], timeout=_FINISH_S_MAX)
    disconnect.cancel()


ROUTES = (
    Route(
        method="POST",
        path="/v0/watch",
        handler=watch,
        needs=OPEN,
        summary="Create a watch session of topics, patterns and filters.",
        query=live.WatchQuery,
        body=live.WatchRequest,
        body_bytes_max=MIB,
        answers={200: live.WatchResponse},
        errors=("topic_not_found", "forbidden", "throttled"),
    ),
    Route(
        method="GET",
        path="/v0/watch/{wid}",
        handler=stream,
        needs=OPEN,
        summary="Stream the records of a watch session as server-sent events.",
        answers={200: None},
        gives=("text/event-stream",),
        errors=("not_found", "not_acceptable", "throttled"),
    ),
    Route(
        method="DELETE",
        path="/v0/watch/{wid}",
        handler=forget,
        needs=OPEN,
        summary="Delete a watch session; its stream ends.",
        answers={200: live.DeleteWatchResponse},
        errors=("not_found",),
    ),
)
