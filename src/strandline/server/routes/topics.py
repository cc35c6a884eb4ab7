"""Routes of topics: create, change, get, list, delete. Records are in ``records.py``."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from strandline.api import topics as wire
from strandline.api.errors import Refused
from strandline.errors import Invalid, TopicExists, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.security.scopes import Action
from strandline.server.app_state import AppState
from strandline.server.auth.auth import INTERNAL
from strandline.server.handlers import topic_options
from strandline.server.handlers.topic_cache import topic_of, touch
from strandline.server.http.request import RequestContext
from strandline.server.http.request_decoder import invalid
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.priority import priority_of

PAGE_SIZE_MAX = 1000


async def put(call: RequestContext) -> JsonResponse:
    """Create a topic, or change an existing one."""
    name, options = call.path["topic"], call.body
    condition = call.query.given
    topic_options.authorise_dead_letters(call.parts, call.who, name, options)
    if condition == "present":
        return await alter(call)
    topic, created = await call.parts.bridge.run(
        topic_options.get_or_create, call.parts, name, options
    )
    if not created:
        if condition == "absent":
            raise TopicExists(f"topic {name!r} exists: alter it, or delete it first")
        if condition == "same":
            topic_options.check_same(topic, options)
        else:
            await _change(call, topic, options)
    return _put_answer(topic, created=created)


async def alter(call: RequestContext) -> JsonResponse:
    """Change an existing topic."""
    topic_options.authorise_dead_letters(call.parts, call.who, call.path["topic"], call.body)
    topic = topic_of(call.parts, call.path["topic"])
    await _change(call, topic, call.body)
    return _put_answer(topic, created=False)


async def state(call: RequestContext) -> JsonResponse:
    """Return a topic's state."""
    parts, name = call.parts, call.path["topic"]
    topic = topic_of(parts, name)
    if call.query.touch:
        touch(parts, name)
    return JsonResponse(await parts.bridge.run(_state, parts, topic))


async def list_topics(call: RequestContext) -> JsonResponse:
    """List topics, page by page; internal topics only when the prefix names them."""
    names, more = await call.parts.bridge.run(_names, call.parts.store.topics, call.query)
    visible = call.parts.auth.readable(call.who, names)
    if call.query.touch:
        for name in visible:
            touch(call.parts, name)
    lines = await call.parts.bridge.run(lambda: list(_lines(call.parts, visible)))
    cursor = _cursor_of(names[-1]) if more else UNSET
    return JsonResponse(wire.TopicList(topics=lines, next_cursor=cursor))


async def delete_topic(call: RequestContext) -> JsonResponse:
    """Delete a topic with all its records."""
    parts, name = call.parts, call.path["topic"]
    try:
        topic = topic_of(parts, name)
    except UnknownTopic:
        return JsonResponse(wire.DeleteTopicResponse(topic=name, deleted=False, routers_removed=[]))
    removed = await parts.bridge.run(_delete_topic, parts, topic, call.query)
    parts.topic_handles.pop(name, None)
    parts.read_at_ms.pop(name, None)
    return JsonResponse(removed)


async def _change(call: RequestContext, topic: Topic, options: wire.TopicOptions) -> None:
    call.allow("config", topic.name)
    await call.parts.bridge.run(topic_options.change, call.parts, topic, options)


def _put_answer(topic: Topic, *, created: bool) -> JsonResponse:
    response = wire.PutTopicResponse(
        topic=topic.name, created=created, config=topic_options.settings_of(topic)
    )
    return JsonResponse(response, 201 if created else 200)


def _state(parts: AppState, topic: Topic) -> wire.TopicInfo:
    numbers = topic.statistics()
    config = topic_options.settings_of(topic)
    read_at_ms = parts.read_at_ms.get(topic.name)
    queue = _queue_counts(parts, topic.name) if config.type == "queue" else UNSET
    return wire.TopicInfo(
        topic=topic.name,
        type=config.type,
        head_seq=numbers.head_seq,
        earliest_seq=numbers.earliest_seq,
        next_seq=numbers.head_seq + 1,
        count=numbers.count,
        bytes=numbers.payload_bytes,
        config=config,
        effective_priority=_priority(parts, topic),
        last_write_ts=numbers.last_ts // 1000 if numbers.last_ts else None,
        last_read_ts=read_at_ms,
        epoch=numbers.epoch,
        evict_floor=numbers.evict_floor,
        last_ts_us=numbers.last_ts,
        identity=topic.identity,
        settings=msgspec.to_builtins(numbers.config),
        gaps=topic.gaps_below(numbers.head_seq + 1),
        cold=None if numbers.cold is None else msgspec.to_builtins(numbers.cold),
        queue=queue,
    )


def _queue_counts(parts: AppState, name: str) -> wire.QueueCounts:
    numbers = parts.store.queue(name).statistics()
    return wire.QueueCounts(
        ready=numbers.ready, in_flight=numbers.in_flight, dead_lettered=numbers.dead
    )


def _priority(parts: AppState, topic: Topic) -> int:
    now_ms = parts.clock.now_us() // 1000
    return priority_of(topic.config, parts.read_at_ms.get(topic.name), now_ms)


def _names(topics: object, query: wire.ListQuery) -> tuple[list[str], bool]:
    assert callable(topics)
    after = _after(query.cursor)
    internal = query.prefix.startswith(INTERNAL)
    names = [
        name
        for name in topics(query.prefix)
        if name > after and (internal or not name.startswith(INTERNAL))
    ]
    size = min(query.page_size, PAGE_SIZE_MAX)
    return names[:size], len(names) > size


def _lines(parts: AppState, names: list[str]) -> Iterator[wire.TopicLine]:
    for name in names:
        try:
            topic = topic_of(parts, name)
            numbers = topic.statistics()
        except UnknownTopic:
            continue  # deleted in the meantime
        yield wire.TopicLine(
            topic=name,
            head_seq=numbers.head_seq,
            earliest_seq=numbers.earliest_seq,
            count=numbers.count,
            bytes=numbers.payload_bytes,
            durable=numbers.config.durability == "fsync",
            effective_priority=_priority(parts, topic),
        )


def _cursor_of(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _after(cursor: str) -> str:
    try:
        name = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        if _cursor_of(name) == cursor:
            return name
    except ValueError:
        pass
    raise invalid("invalid cursor: start again without one")


def _delete_topic(
    parts: AppState, topic: Topic, query: wire.DeleteTopicQuery
) -> wire.DeleteTopicResponse:
    name = topic.name
    if query.if_empty and topic.statistics().count:
        raise _not_empty(name)
    routers = parts.store.routers.of_topic(name)
    try:
        deleted = parts.store.delete_topic(name, if_empty=query.if_empty)
    except Invalid as error:
        if query.if_empty and "records" in str(error):
            raise _not_empty(name) from error
        raise
    return wire.DeleteTopicResponse(topic=name, deleted=deleted, routers_removed=list(routers))


def _not_empty(name: str) -> Refused:
    return Refused(
        409,
        "topic_not_empty",
        f"topic {name!r} has records: delete them, or omit if_empty",
        detail={"kind": "invalid"},
    )


def _needs(action: Action) -> tuple[RoutePermission, ...]:
    return (RoutePermission(action, "topic"),)


_PATH = "/v0/topics/{topic}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v0/topics",
        handler=list_topics,
        needs=(),
        summary="List topics.",
        query=wire.ListQuery,
        answers={200: wire.TopicList},
    ),
    Route(
        method="PUT",
        path=_PATH,
        handler=put,
        needs=_needs("create"),
        summary="Create a topic, or change it.",
        query=wire.PutQuery,
        body=wire.TopicOptions,
        answers={200: wire.PutTopicResponse, 201: wire.PutTopicResponse},
        errors=("topic_not_found", "topic_exists_incompatible"),
    ),
    Route(
        method="PATCH",
        path=_PATH,
        handler=alter,
        needs=_needs("config"),
        summary="Change a topic.",
        body=wire.TopicOptions,
        answers={200: wire.PutTopicResponse},
        errors=("topic_not_found", "topic_exists_incompatible"),
    ),
    Route(
        method="GET",
        path=_PATH,
        handler=state,
        needs=_needs("read"),
        summary="Get a topic's state.",
        query=wire.TouchQuery,
        answers={200: wire.TopicInfo},
        errors=("topic_not_found",),
    ),
    Route(
        method="DELETE",
        path=_PATH,
        handler=delete_topic,
        needs=_needs("delete"),
        summary="Delete a topic with all its records.",
        query=wire.DeleteTopicQuery,
        answers={200: wire.DeleteTopicResponse},
        errors=("topic_not_empty",),
    ),
)
