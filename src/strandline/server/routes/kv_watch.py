"""Routes of key-value maps that wait: for a key, for changes page by page, for changes as a stream.

None of them holds a thread while it waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from msgspec import UNSET

from strandline.api import kv as wire
from strandline.api.bytes_fields import found_key
from strandline.server.async_wait import Patience
from strandline.server.handlers.view_lookup import find_kv, find_view
from strandline.server.http.event_stream import EVENTS, RECHECK_S, EventStream, frame
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.server.serializers import kv as told
from strandline.views.kv.kv import Kv
from strandline.views.kv.watch import Watcher

WAIT_MS_MAX = 30_000


async def wait(call: Call) -> Answer:
    asked: wire.Wait = call.body
    key, parts = told.key_of(asked), call.parts
    kv = await find_view(call, find_kv)
    topic = parts.store.existing_topic(kv.name)
    with Patience(call, min(asked.wait_ms, WAIT_MS_MAX) / 1000) as patience:
        while True:
            head = topic.head_seq
            entry = await parts.bridge.run_view(kv.name, kv.entry, key)
            if entry is not None and entry.version > asked.after:
                return Answer(told.found(entry))
            if not patience.left_s:
                return Answer(told.found(None))
            await patience.something_new(topic, head)


async def changes(call: Call) -> Answer:
    """The changes that come next; waits for the first of them if asked to."""
    asked: wire.Changes = call.body
    parts = call.parts
    key = found_key("key", asked.key, asked.key_base64)
    prefix = found_key("prefix", asked.prefix, asked.prefix_base64)
    kv = await find_view(call, find_kv)
    topic = parts.store.existing_topic(kv.name)
    watcher = await parts.bridge.run_view(
        kv.name, kv.watcher, key, prefix=prefix, after=asked.after
    )
    with Patience(call, min(asked.wait_ms, WAIT_MS_MAX) / 1000) as patience:
        found = await parts.bridge.run_view(kv.name, watcher.look)
        while not found and patience.left_s:
            if watcher.caught_up:
                await patience.something_new(topic, watcher.position)
            found = await parts.bridge.run_view(kv.name, watcher.look)
    listed = [told.change(each) for each in found]
    return Answer(wire.Changed(changes=listed, next_after=watcher.position))


async def watch(call: Call) -> EventStream:
    asked: wire.WatchQuery = call.query
    key = found_key("key", asked.key or UNSET, asked.key_base64 or UNSET)
    prefix = found_key("prefix", asked.prefix or UNSET, asked.prefix_base64 or UNSET)
    after = _resumed(call, asked.after)
    kv = await find_view(call, find_kv)
    watcher = await call.parts.bridge.run_view(kv.name, kv.watcher, key, prefix=prefix, after=after)
    return EventStream(call, _changes(call, kv, watcher))


async def _changes(call: Call, kv: Kv, watcher: Watcher) -> AsyncIterator[bytes | None]:
    topic = call.parts.store.existing_topic(kv.name)
    while True:
        changes = await call.parts.bridge.run_view(kv.name, watcher.look)
        for each in changes:
            yield frame("change", told.change(each), str(each.version))
        if not changes:
            yield None
        if watcher.caught_up:
            await call.parts.hub.wait_for(topic, watcher.position, RECHECK_S)


def _resumed(call: Call, after: int | None) -> int | None:
    """Where a watcher goes on: what its browser has seen last, else what it says."""
    seen = call.connection.headers.get("last-event-id", "")
    return int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 20 else after


_route = partial(
    Route,
    needs=(Need("read", "topic"),),
    errors=("topic_not_found", "not_found", "records_lost", "throttled"),
)

ROUTES: tuple[Route, ...] = (
    _route(
        method="POST",
        path="/v0/kv/{topic}/wait",
        handler=wait,
        summary="Wait until a key is there, with a version behind another.",
        body=wire.Wait,
        answers={200: wire.Found},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/changes",
        handler=changes,
        summary="Changes behind a version, a page at a time; waits for one if asked to.",
        body=wire.Changes,
        answers={200: wire.Changed},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}/watch",
        handler=watch,
        summary="Changes of a key, a prefix or all, as an SSE stream.",
        query=wire.WatchQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
)
