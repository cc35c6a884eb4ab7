"""Routes of views of any kind: create with options, list, alter, rebuild, compare.

A view has the name and the rights of its topic. Lists contain the views that the client may read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from strandline.api import results as wire
from strandline.config.view_config import KINDS
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.server.auth.auth import INTERNAL
from strandline.server.handlers.topic_options import authorise_dead_letter_topic
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.store import Store


async def make(call: RequestContext) -> JsonResponse:
    """Return the view, created with these options if it does not exist."""
    body: wire.OpenView = call.body
    topic, kind = call.path["topic"], _kind(call)
    authorise_dead_letter_topic(call.parts, call.who, topic, body.options.get("dead_letter"))
    if _config(call.parts.store, topic, kind) is None and _is_there(call.parts.store, topic):
        call.allow("config", topic)

    def work(store: Store) -> wire.OpenViewResponse:
        before = _config(store, topic, kind)
        store.views.open(kind, topic, dict(body.options))
        options = _config(store, topic, kind) or {}
        return wire.OpenViewResponse(
            topic=topic, kind=kind, created=before is None, options=options
        )

    response = await call.parts.bridge.run_view(topic, work, call.parts.store)
    return JsonResponse(response, status=201 if response.created else 200)


async def describe(call: RequestContext) -> JsonResponse:
    topic, kind = call.path["topic"], _kind(call)
    call.parts.store.existing_topic(topic)
    options = _config(call.parts.store, topic, kind)
    if options is None:
        raise NotFound(f"topic {topic!r} has no {kind} view")
    return JsonResponse(wire.ViewInfo(topic=topic, kind=kind, options=options))


async def alter(call: RequestContext) -> JsonResponse:
    body: wire.AlterView = call.body
    topic, kind = call.path["topic"], _kind(call)
    change = partial(call.parts.store.views.alter, kind, topic, **body.options)
    await call.parts.bridge.slow_view(topic, change)
    options = _config(call.parts.store, topic, kind) or {}
    return JsonResponse(wire.ViewInfo(topic=topic, kind=kind, options=options))


async def rebuild(call: RequestContext) -> JsonResponse:
    topic, kind = call.path["topic"], _kind(call)
    await call.parts.bridge.slow_view(topic, call.parts.store.rebuild, kind, topic)
    return JsonResponse(wire.RebuildResponse(topic=topic, kind=kind))


async def digest(call: RequestContext) -> JsonResponse:
    topic, kind = call.path["topic"], _kind(call)
    checksum = await call.parts.bridge.slow_view(topic, call.parts.store.views.digest, kind, topic)
    return JsonResponse(wire.DigestResponse(topic=topic, kind=kind, digest=checksum))


async def listed(call: RequestContext) -> JsonResponse:
    """List readable views; those of internal topics only when the prefix names them."""
    query: wire.ViewsQuery = call.query
    store, auth = call.parts.store, call.parts.auth
    all_views = await call.parts.bridge.run(store.views.names)
    hidden = not query.prefix.startswith(INTERNAL)
    names = {name for _, name in all_views if name.startswith(query.prefix)}
    names -= {name for name in names if hidden and name.startswith(INTERNAL)}
    readable = set(auth.readable(call.who, names))
    views = [
        wire.ViewInfo(topic=name, kind=kind, options=_config(store, name, kind) or {})
        for kind, name in all_views
        if name in readable
    ]
    return JsonResponse(wire.ViewsResponse(views=views))


async def memory(call: RequestContext) -> JsonResponse:
    usage = await call.parts.bridge.run(call.parts.store.views.memory)
    shares = msgspec.convert(usage, dict[str, wire.MemoryShareInfo], from_attributes=True)
    return JsonResponse(wire.MemoryResponse(shares=shares))


def _kind(call: RequestContext) -> str:
    kind = call.path["kind"]
    if kind not in KINDS:
        raise Invalid(f"no view kind {kind[:80]!r}: use one of {', '.join(KINDS)}")
    return kind


def _config(store: Store, topic: str, kind: str) -> dict[str, Any] | None:
    """The options of a view, None when there is none."""
    try:
        config = getattr(store.existing_topic(topic).config.views, kind)
    except UnknownTopic:
        return None
    return None if config is None else msgspec.structs.asdict(config)


def _is_there(store: Store, topic: str) -> bool:
    try:
        store.existing_topic(topic)
    except UnknownTopic:
        return False
    return True


_route = partial(Route, errors=("topic_not_found", "not_found"))
_PATH = "/v0/views/{topic}/{kind}"
_CONFIG = (RoutePermission("config", "topic"),)
_READ = (RoutePermission("read", "topic"),)

ROUTES: tuple[Route, ...] = (
    _route(
        method="PUT",
        path=_PATH,
        handler=make,
        needs=(RoutePermission("create", "topic"),),
        summary="Create a view, and its topic, if it does not exist.",
        body=wire.OpenView,
        answers={200: wire.OpenViewResponse, 201: wire.OpenViewResponse},
    ),
    _route(
        method="GET",
        path=_PATH,
        handler=describe,
        needs=_READ,
        summary="Get the options of a view.",
        answers={200: wire.ViewInfo},
    ),
    _route(
        method="PATCH",
        path=_PATH,
        handler=alter,
        needs=_CONFIG,
        summary="Change options of a view.",
        body=wire.AlterView,
        answers={200: wire.ViewInfo},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/rebuild",
        handler=rebuild,
        needs=_CONFIG,
        summary="Discard the state of a view and rebuild it from the log.",
        answers={200: wire.RebuildResponse},
    ),
    _route(
        method="GET",
        path=f"{_PATH}/digest",
        handler=digest,
        needs=_READ,
        summary="Compute a checksum of the contents of a view.",
        answers={200: wire.DigestResponse},
    ),
    _route(
        method="GET",
        path="/v0/views",
        handler=listed,
        needs=(),
        summary="List the views that the client may read.",
        query=wire.ViewsQuery,
        answers={200: wire.ViewsResponse},
    ),
    _route(
        method="GET",
        path="/v0/memory",
        handler=memory,
        needs=(RoutePermission("metrics"),),
        summary="Get the used and available memory of each share of the budget.",
        answers={200: wire.MemoryResponse},
    ),
)
