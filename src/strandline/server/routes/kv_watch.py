"""Routes of key-value maps that wait: for a key, for a page of changes, for a stream of changes.

None of them holds a thread while it waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from msgspec import UNSET

from strandline.api import kv as wire
from strandline.api.bytes_fields import optional_key
from strandline.server.async_wait import RequestWait
from strandline.server.handlers.view_lookup import find_kv, find_view
from strandline.server.http.event_stream import EVENTS, RECHECK_S, EventStream, frame
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.serializers import kv as codec
from strandline.views.kv.kv import Kv
from strandline.views.kv.watch import Watcher

WAIT_MS_MAX = 30_000


async def wait(call: RequestContext) -> JsonResponse:
    body: wire.WaitRequest = call.body
    key, parts = codec.key_of(body), call.parts
    kv = await find_view(call, find_kv)
    topic = parts.store.existing_topic(kv.name)
    with RequestWait(call, min(body.wait_ms, WAIT_MS_MAX) / 1000) as request_wait:
        while True:
            head = topic.head_seq
            entry = await parts.bridge.run_view(kv.name, kv.entry, key)
            if entry is not None and entry.version > body.after:
                return JsonResponse(codec.found_entry(entry))
            if not request_wait.left_s:
                return JsonResponse(codec.found_entry(None))
            await request_wait.wait_for_record(topic, head)


async def changes(call: RequestContext) -> JsonResponse:
    """The next changes; waits for the first of them when the request says so."""
    body: wire.ChangesRequest = call.body
    parts = call.parts
    key = optional_key("key", body.key, body.key_base64)
    prefix = optional_key("prefix", body.prefix, body.prefix_base64)
    kv = await find_view(call, find_kv)
    topic = parts.store.existing_topic(kv.name)
    watcher = await parts.bridge.run_view(kv.name, kv.watcher, key, prefix=prefix, after=body.after)
    with RequestWait(call, min(body.wait_ms, WAIT_MS_MAX) / 1000) as request_wait:
        page = await parts.bridge.run_view(kv.name, watcher.read_changes)
        while not page and request_wait.left_s:
            if watcher.caught_up:
                await request_wait.wait_for_record(topic, watcher.position)
            page = await parts.bridge.run_view(kv.name, watcher.read_changes)
    listed = [codec.change(each) for each in page]
    return JsonResponse(wire.ChangesResponse(changes=listed, next_after=watcher.position))


async def watch(call: RequestContext) -> EventStream:
    query: wire.WatchChangesQuery = call.query
    key = optional_key("key", query.key or UNSET, query.key_base64 or UNSET)
    prefix = optional_key("prefix", query.prefix or UNSET, query.prefix_base64 or UNSET)
    after = _resume_after(call, query.after)
    kv = await find_view(call, find_kv)
    watcher = await call.parts.bridge.run_view(kv.name, kv.watcher, key, prefix=prefix, after=after)
    return EventStream(call, _changes(call, kv, watcher))


async def _changes(call: RequestContext, kv: Kv, watcher: Watcher) -> AsyncIterator[bytes | None]:
    topic = call.parts.store.existing_topic(kv.name)
    while True:
        changes = await call.parts.bridge.run_view(kv.name, watcher.read_changes)
        for each in changes:
            yield frame("change", codec.change(each), str(each.version))
        if not changes:
            yield None
        if watcher.caught_up:
            await call.parts.hub.wait_for(topic, watcher.position, RECHECK_S)


def _resume_after(call: RequestContext, after: int | None) -> int | None:
    """The version after which a watcher resumes: ``Last-Event-ID``, else its parameter."""
    last_id = call.connection.headers.get("last-event-id", "")
    return int(last_id) if last_id.isascii() and last_id.isdigit() and len(last_id) < 20 else after


_route = partial(
    Route,
    needs=(RoutePermission("read", "topic"),),
    errors=("topic_not_found", "not_found", "records_lost", "throttled"),
)

ROUTES: tuple[Route, ...] = (
    _route(
        method="POST",
        path="/v0/kv/{topic}/wait",
        handler=wait,
        summary="Wait until a key has a version after a given one.",
        body=wire.WaitRequest,
        answers={200: wire.EntryResponse},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/changes",
        handler=changes,
        summary="List changes after a version, page by page; can wait for one.",
        body=wire.ChangesRequest,
        answers={200: wire.ChangesResponse},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}/watch",
        handler=watch,
        summary="Stream changes of a key, a prefix or all keys as SSE.",
        query=wire.WatchChangesQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
)
