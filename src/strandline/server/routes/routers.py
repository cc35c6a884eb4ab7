"""``/v0/routers``: create, show, list and delete routers.

A router reads its source and writes to its dest with the rights of the client that creates it. That
needs ``read`` and ``write``, ``config`` on the dest, because it gets another writer, and ``create``
when the dest does not exist. A router is visible to clients that may read both of its topics; for
others it does not exist.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from typing import Any

import msgspec

from strandline.api.errors import Refused
from strandline.api.routers import (
    RouterDeleted,
    RouterLine,
    RouterList,
    RouterOptions,
    RouterPut,
    RoutersQuery,
    RouterState,
)
from strandline.config.settings import MIB
from strandline.errors import UnknownRouter
from strandline.routers.definition import Router
from strandline.routers.routers import RouterStatistics
from strandline.server.handlers.topic_options import check_count
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route

PAGE_MAX = 1000


async def put(call: RequestContext) -> JsonResponse:
    """Create a router, or change one."""
    options: RouterOptions = call.body
    name = call.path["router"]
    call.allow("read", options.source)
    call.allow("write", options.dest)
    call.allow("config", options.dest)
    store = call.parts.store
    limits = call.parts.settings.limits
    creates_dest = options.create_dest and options.dest not in store.topics(options.dest)
    if creates_dest:
        call.allow("create", options.dest)
    current = _find(call, name)
    if current is None:
        check_count("routers", store.routers.count, limits.routers_max)
    else:  # the router leaves its present dest
        call.allow("config", current.router.dest)
    if creates_dest:
        check_count("topics", store.topic_count(internal=False), limits.topics_max)
    fields = {field: getattr(options, field) for field in RouterOptions.__struct_fields__}
    router, created = await call.parts.bridge.run(store.routers.put, name, **fields)
    response = RouterPut(router=name, created=created, **_definition(router))
    return JsonResponse(response, 201 if created else 200)


async def get(call: RequestContext) -> JsonResponse:
    """Return a router and its statistics."""
    name = call.path["router"]
    call.parts.auth.check_live(call.who)
    statistics = _find(call, name)
    if statistics is None or not _may_see(call, statistics.router):
        raise UnknownRouter(name)
    response = RouterState(
        router=name,
        cursor=statistics.cursor,
        lag=statistics.lag,
        forwarded_total=statistics.forwarded_total,
        held=statistics.held or None,
        **_definition(statistics.router),
    )
    return JsonResponse(response)


async def list_all(call: RequestContext) -> JsonResponse:
    """List visible routers in order of their names."""
    query: RoutersQuery = call.query
    size = min(query.page_size, PAGE_MAX)
    routers = call.parts.store.routers
    call.parts.auth.check_live(call.who)
    listed = await call.parts.bridge.run(
        routers.list,
        query.prefix,
        source=query.source,
        dest=query.dest,
        after=_name_of(query.cursor),
    )
    visible = list(
        itertools.islice((each for each in listed if _may_see(call, each.router)), size + 1)
    )
    page = visible[:size]
    response = RouterList(
        routers=[
            RouterLine(
                router=each.router.name,
                source=each.router.source,
                dest=each.router.dest,
                guarantee=each.router.guarantee,
                forwarded_total=each.forwarded_total,
                lag=each.lag,
            )
            for each in page
        ]
    )
    if len(visible) > size:
        response.next_cursor = _cursor_of(page[-1].router.name)
    return JsonResponse(response)


async def delete(call: RequestContext) -> JsonResponse:
    """Stop forwarding; forwarded records stay."""
    name = call.path["router"]
    call.parts.auth.check_live(call.who)
    current = _find(call, name)
    if current is None or not _may_see(call, current.router):
        return JsonResponse(RouterDeleted(router=name, deleted=False))
    call.allow("config", current.router.dest)
    deleted = await call.parts.bridge.run(call.parts.store.routers.delete, name)
    return JsonResponse(RouterDeleted(router=name, deleted=deleted))


def _find(call: RequestContext, name: str) -> RouterStatistics | None:
    try:
        return call.parts.store.routers.get(name)
    except UnknownRouter:
        return None


def _may_see(call: RequestContext, router: Router) -> bool:
    may = call.parts.auth.allows
    return may(call.who, "read", router.source) and may(call.who, "read", router.dest)


def _definition(router: Router) -> dict[str, Any]:
    fields = {name: getattr(router, name) for name in Router.__struct_fields__ if name != "name"}
    return fields | {"filter": msgspec.to_builtins(router.filter)}


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _name_of(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise Refused(400, "invalid_request", "cursor is not one that a list returned") from error


ROUTES: tuple[Route, ...] = (
    Route(
        method="PUT",
        path="/v0/routers/{router}",
        handler=put,
        needs=OPEN,  # the topics are in the body
        summary="Create or change a router from one topic into another.",
        body=RouterOptions,
        body_bytes_max=MIB,
        answers={200: RouterPut, 201: RouterPut},
        errors=("topic_not_found", "router_cycle", "conflict", "topic_exists_incompatible"),
    ),
    Route(
        method="GET",
        path="/v0/routers/{router}",
        handler=get,
        needs=OPEN,  # the handler checks read on both topics
        summary="Get a router with its cursor and lag.",
        answers={200: RouterState},
        errors=("router_not_found",),
    ),
    Route(
        method="GET",
        path="/v0/routers",
        handler=list_all,
        needs=OPEN,  # only routers between readable topics are listed
        summary="List routers between topics that the client may read.",
        query=RoutersQuery,
        answers={200: RouterList},
    ),
    Route(
        method="DELETE",
        path="/v0/routers/{router}",
        handler=delete,
        needs=OPEN,  # the topics are known only after the lookup
        summary="Delete a router; forwarded records stay.",
        answers={200: RouterDeleted},
    ),
)
