"""``/v0/routers``: make, show, list and delete what forwards records from topic to topic.

A router reads its source and writes to its dest for whoever made it, so he needs both rights, and
``config`` on the dest, which is no longer his alone to write to; ``create`` as well when the dest
has to be made. A router is shown to whoever may read both of its topics; to others there is none.
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
from strandline.server.http.request import Call
from strandline.server.http.route import OPEN, Answer, Route

PAGE_MAX = 1000


async def put(call: Call) -> Answer:
    """Make a router, or change one."""
    options: RouterOptions = call.body
    name = call.path["router"]
    call.allow("read", options.source)
    call.allow("write", options.dest)
    call.allow("config", options.dest)
    store = call.parts.store
    limits = call.parts.settings.limits
    makes_dest = options.create_dest and options.dest not in store.topics(options.dest)
    if makes_dest:
        call.allow("create", options.dest)
    known = _find(call, name)
    if known is None:
        check_count("routers", store.routers.count, limits.routers_max)
    else:  # it is taken from its dest
        call.allow("config", known.router.dest)
    if makes_dest:
        check_count("topics", store.topic_count(internal=False), limits.topics_max)
    given = {field: getattr(options, field) for field in RouterOptions.__struct_fields__}
    router, created = await call.parts.bridge.run(store.routers.put, name, **given)
    told = RouterPut(router=name, created=created, **_definition(router))
    return Answer(told, 201 if created else 200)


async def get(call: Call) -> Answer:
    """A router and its numbers."""
    name = call.path["router"]
    call.parts.auth.check_live(call.who)
    found = _find(call, name)
    if found is None or not _may_see(call, found.router):
        raise UnknownRouter(name)
    told = RouterState(
        router=name,
        cursor=found.cursor,
        lag=found.lag,
        forwarded_total=found.forwarded_total,
        held=found.held or None,
        **_definition(found.router),
    )
    return Answer(told)


async def list_all(call: Call) -> Answer:
    """Routers in order of their names."""
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
    found = list(
        itertools.islice((each for each in listed if _may_see(call, each.router)), size + 1)
    )
    page = found[:size]
    told = RouterList(
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
    if len(found) > size:
        told.next_cursor = _cursor_of(page[-1].router.name)
    return Answer(told)


async def delete(call: Call) -> Answer:
    """Stop forwarding; what was forwarded stays."""
    name = call.path["router"]
    call.parts.auth.check_live(call.who)
    found = _find(call, name)
    if found is None or not _may_see(call, found.router):
        return Answer(RouterDeleted(router=name, deleted=False))
    call.allow("config", found.router.dest)
    deleted = await call.parts.bridge.run(call.parts.store.routers.delete, name)
    return Answer(RouterDeleted(router=name, deleted=deleted))


def _find(call: Call, name: str) -> RouterStatistics | None:
    try:
        return call.parts.store.routers.get(name)
    except UnknownRouter:
        return None


def _may_see(call: Call, router: Router) -> bool:
    may = call.parts.auth.may
    return may(call.who, "read", router.source) and may(call.who, "read", router.dest)


def _definition(router: Router) -> dict[str, Any]:
    told = {name: getattr(router, name) for name in Router.__struct_fields__ if name != "name"}
    return told | {"filter": msgspec.to_builtins(router.filter)}


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _name_of(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise Refused(400, "invalid_request", "cursor is not one that a list has told") from error


ROUTES: tuple[Route, ...] = (
    Route(
        method="PUT",
        path="/v0/routers/{router}",
        handler=put,
        needs=OPEN,  # its topics are in the body
        summary="Forward the records of a topic into another.",
        body=RouterOptions,
        body_bytes_max=MIB,
        answers={200: RouterPut, 201: RouterPut},
        errors=("topic_not_found", "router_cycle", "conflict", "topic_exists_incompatible"),
    ),
    Route(
        method="GET",
        path="/v0/routers/{router}",
        handler=get,
        needs=OPEN,  # it is shown to who may read both of its topics
        summary="Show a router and how far it has come.",
        answers={200: RouterState},
        errors=("router_not_found",),
    ),
    Route(
        method="GET",
        path="/v0/routers",
        handler=list_all,
        needs=OPEN,  # only what he may read is listed
        summary="List routers.",
        query=RoutersQuery,
        answers={200: RouterList},
    ),
    Route(
        method="DELETE",
        path="/v0/routers/{router}",
        handler=delete,
        needs=OPEN,  # its topics are known only once it is found
        summary="Delete a router; what it has forwarded stays.",
        answers={200: RouterDeleted},
    ),
)
