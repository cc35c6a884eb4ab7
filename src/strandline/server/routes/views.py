"""Routes of views in general: made with options, listed, altered, rebuilt, compared.

A view has the name of its topic, and its rights. Lists show what one may read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from strandline.api import results as wire
from strandline.config.view_config import KINDS
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.server.auth.auth import INTERNAL
from strandline.server.handlers.topic_options import authorise_letter_topic
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.store import Store


async def make(call: Call) -> Answer:
    """The view of this name, made with these options if there is none."""
    asked: wire.OpenView = call.body
    topic, kind = call.path["topic"], _kind(call)
    authorise_letter_topic(call.parts, call.who, topic, asked.options.get("dead_letter"))
    if _config(call.parts.store, topic, kind) is None and _is_there(call.parts.store, topic):
        call.allow("config", topic)

    def work(store: Store) -> wire.Opened:
        before = _config(store, topic, kind)
        store.views.open(kind, topic, dict(asked.options))
        options = _config(store, topic, kind) or {}
        return wire.Opened(topic=topic, kind=kind, created=before is None, options=options)

    made = await call.parts.bridge.run_view(topic, work, call.parts.store)
    return Answer(made, status=201 if made.created else 200)


async def describe(call: Call) -> Answer:
    topic, kind = call.path["topic"], _kind(call)
    call.parts.store.existing_topic(topic)
    options = _config(call.parts.store, topic, kind)
    if options is None:
        raise NotFound(f"topic {topic!r} has no {kind} view")
    return Answer(wire.View(topic=topic, kind=kind, options=options))


async def alter(call: Call) -> Answer:
    asked: wire.AlterView = call.body
    topic, kind = call.path["topic"], _kind(call)
    change = partial(call.parts.store.views.alter, kind, topic, **asked.options)
    await call.parts.bridge.slow_view(topic, change)
    options = _config(call.parts.store, topic, kind) or {}
    return Answer(wire.View(topic=topic, kind=kind, options=options))


async def rebuild(call: Call) -> Answer:
    topic, kind = call.path["topic"], _kind(call)
    await call.parts.bridge.slow_view(topic, call.parts.store.rebuild, kind, topic)
    return Answer(wire.Rebuilt(topic=topic, kind=kind))


async def digest(call: Call) -> Answer:
    topic, kind = call.path["topic"], _kind(call)
    found = await call.parts.bridge.slow_view(topic, call.parts.store.views.digest, kind, topic)
    return Answer(wire.Digest(topic=topic, kind=kind, digest=found))


async def listed(call: Call) -> Answer:
    """All that one may read; the server's own when their prefix is asked for."""
    asked: wire.ViewsQuery = call.query
    store, auth = call.parts.store, call.parts.auth
    every = await call.parts.bridge.run(store.views.names)
    hidden = not asked.prefix.startswith(INTERNAL)
    names = {name for _, name in every if name.startswith(asked.prefix)}
    names -= {name for name in names if hidden and name.startswith(INTERNAL)}
    seen = set(auth.visible(call.who, names))
    found = [
        wire.View(topic=name, kind=kind, options=_config(store, name, kind) or {})
        for kind, name in every
        if name in seen
    ]
    return Answer(wire.Views(views=found))


async def memory(call: Call) -> Answer:
    found = await call.parts.bridge.run(call.parts.store.views.memory)
    shares = msgspec.convert(found, dict[str, wire.Share], from_attributes=True)
    return Answer(wire.Memory(shares=shares))


def _kind(call: Call) -> str:
    kind = call.path["kind"]
    if kind not in KINDS:
        raise Invalid(f"there is no view {kind[:80]!r}: known are {', '.join(KINDS)}")
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
_CONFIG = (Need("config", "topic"),)
_READ = (Need("read", "topic"),)

ROUTES: tuple[Route, ...] = (
    _route(
        method="PUT",
        path=_PATH,
        handler=make,
        needs=(Need("create", "topic"),),
        summary="The view of a topic, both made with these options if there is none.",
        body=wire.OpenView,
        answers={200: wire.Opened, 201: wire.Opened},
    ),
    _route(
        method="GET",
        path=_PATH,
        handler=describe,
        needs=_READ,
        summary="The options of a view.",
        answers={200: wire.View},
    ),
    _route(
        method="PATCH",
        path=_PATH,
        handler=alter,
        needs=_CONFIG,
        summary="Change options of a view.",
        body=wire.AlterView,
        answers={200: wire.View},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/rebuild",
        handler=rebuild,
        needs=_CONFIG,
        summary="Throw the state of a view away and fold the log again.",
        answers={200: wire.Rebuilt},
    ),
    _route(
        method="GET",
        path=f"{_PATH}/digest",
        handler=digest,
        needs=_READ,
        summary="A checksum of all that can be seen of a view.",
        answers={200: wire.Digest},
    ),
    _route(
        method="GET",
        path="/v0/views",
        handler=listed,
        needs=(),
        summary="All views that one may read.",
        query=wire.ViewsQuery,
        answers={200: wire.Views},
    ),
    _route(
        method="GET",
        path="/v0/memory",
        handler=memory,
        needs=(Need("metrics"),),
        summary="How much of each share of the memory budget is used.",
        answers={200: wire.Memory},
    ),
)
