"""Creates and changes topics from options of the wire, and serializes their options.

Queue fields of the wire are options of the topic's queue view: ``type: queue`` creates the view.
A type never changes. ``durable`` is an alias of ``durability: fsync``; numbers out of range are
set to the nearest bound, as the wire contract requires.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from strandline.api.errors import Refused
from strandline.api.topics import TopicOptions, TopicSettings
from strandline.config.settings import PRIORITY_MAX
from strandline.config.view_config import QueueConfig, ViewConfigs
from strandline.errors import Invalid, TopicExists, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.security.principal import Principal
from strandline.server.app_state import AppState
from strandline.server.auth.auth import INTERNAL
from strandline.store import Store

LEASE_MS_MIN, LEASE_MS_MAX = 100, 86_400_000
JITTER_MS_MAX = 5_000
DELIVERIES_MAX = 65_535

_PLAIN = (
    "ttl_ms",
    "cap_records",
    "cap_bytes",
    "discard",
    "auto_priority",
    "auto_create",
    "idempotency_window_ms",
    "dedupe_node",
    "schema",
)
_NO_OPTIONS = TopicOptions()
_WIRE_QUEUE = QueueConfig(deliveries_max=0)
"""Default options of a queue that is created over the wire."""


def check_open(topic: Topic) -> None:
    """Raise for a topic that a view owns: only the view writes to it."""
    if topic.config.views.owner:
        raise Invalid(
            f"topic {topic.name!r} belongs to a view of {topic.config.views.owner!r}: only the "
            "view writes to it"
        )


async def ensure_topic(
    parts: AppState, who: Principal, name: str, options: TopicOptions | None
) -> tuple[Topic, bool]:
    """The topic of an append, and whether it was created; an existing one is not changed."""
    parts.auth.authorise(who, "create", name)
    authorise_dead_letters(parts, who, name, options or _NO_OPTIONS)
    return await parts.bridge.run(get_or_create, parts, name, options or _NO_OPTIONS)


def authorise_dead_letters(
    parts: AppState, who: Principal, queue: str, options: TopicOptions
) -> None:
    """Forbidden, unless the client may append to the topic of a queue's dead letters."""
    config = options.views.queue if isinstance(options.views, ViewConfigs) else None
    for name in (options.dead_letter, None if config is None else config.dead_letter):
        authorise_dead_letter_topic(parts, who, queue, name)


def authorise_dead_letter_topic(parts: AppState, who: Principal, queue: str, name: object) -> None:
    """As ``authorise_dead_letters``, for one name; other values are ignored."""
    if not isinstance(name, str) or name == f"{queue}:dead":
        return
    if name.startswith(INTERNAL):
        raise Invalid(f"dead letters cannot go to {name!r}: it is an internal topic")
    parts.auth.authorise(who, "create", name)
    parts.auth.authorise(who, "write", name)


def get_or_create(parts: AppState, name: str, options: TopicOptions) -> tuple[Topic, bool]:
    """The topic of this name, and whether this call created it."""
    try:
        return parts.store.existing_topic(name), False
    except UnknownTopic:
        pass
    count = parts.store.topic_count(internal=False)
    check_count("topics", count, parts.settings.limits.topics_max)
    try:
        return _create(parts.store, name, options), True
    except TopicExists:
        return parts.store.existing_topic(name), False


def check_count(things: str, count: int, count_max: int) -> None:
    """Raise when clients have created the maximum number of topics or routers."""
    if count >= count_max:
        limit = f"{things}_max"
        raise Refused(
            429,
            "throttled",
            f"the server has {count_max} {things}, the limit ({limit}): delete some",
            detail={"limit": limit, "max": count_max},
            retry_after_s=60.0,
        )


def change(parts: AppState, topic: Topic, options: TopicOptions) -> None:
    """Apply these options to an existing topic."""
    check_open(topic)
    _check_type(topic, options)
    config = topic.config
    changed = _plain(options)
    if options.views is not UNSET:
        changed["views"] = _views(options)
    if any(getattr(config, option) != value for option, value in changed.items()):
        topic.alter(**changed)
    queue_config = _queue(topic.name, options, config.views.queue or _WIRE_QUEUE)
    if config.views.queue is not None and queue_config != config.views.queue:
        parts.store.views.alter("queue", topic.name, **msgspec.structs.asdict(queue_config))


def check_same(topic: Topic, options: TopicOptions) -> None:
    """Raise when a topic has other options than these."""
    _check_type(topic, options)
    config = topic.config
    requested = _plain(options)
    if options.views is not UNSET:
        requested["views"] = options.views
    others = [option for option, value in requested.items() if getattr(config, option) != value]
    if config.views.queue is not None:
        queue_config = _queue(topic.name, options, config.views.queue)
        others += [] if queue_config == config.views.queue else ["views"]
    if others:
        raise Invalid(
            f"topic {topic.name!r} has other options than requested ({', '.join(others)}): change "
            "them with PATCH"
        )


def settings_of(topic: Topic) -> TopicSettings:
    """All options of a topic."""
    config = topic.config
    queue = config.views.queue
    shown_queue = queue or _WIRE_QUEUE
    return TopicSettings(
        type="log" if queue is None else "queue",
        ttl_ms=config.ttl_ms,
        cap_records=config.cap_records,
        cap_bytes=config.cap_bytes,
        discard=config.discard,
        durable=config.durability == "fsync",
        durability=config.durability,
        priority=config.priority,
        auto_priority=config.auto_priority,
        auto_create=config.auto_create,
        idempotency_window_ms=config.idempotency_window_ms,
        dedupe_node=config.dedupe_node,
        lease_ms=shown_queue.lease_ms,
        claim_jitter_ms=shown_queue.claim_jitter_ms,
        max_deliveries=shown_queue.deliveries_max,
        dead_letter=_dead_letter(topic.name, queue),
        leases_durable=queue is not None,
        schema=config.schema,
        views=config.views,
    )


def _create(store: Store, name: str, options: TopicOptions) -> Topic:
    plain = _plain(options)
    views = _views(options)
    if options.type == "queue":
        views = msgspec.structs.replace(views, queue=_queue(name, options, _WIRE_QUEUE))
    else:
        _reject_queue_options(name, options)
    store.views.check_dead_letter_topic(name, views.queue)
    topic = store.create_topic(name, views=views, **plain)
    if options.type == "queue":
        store.queue(name)  # creates the queue's own topics, too
    return topic


def _views(options: TopicOptions) -> ViewConfigs:
    """The requested views. Only a view itself sets ``owner``."""
    views = ViewConfigs() if options.views is UNSET else options.views
    if views.owner:
        raise Invalid("views.owner is not for callers: a view creates its own topics, omit it")
    return views


def _plain(options: TopicOptions) -> dict[str, Any]:
    """The requested options of the topic itself."""
    fields: dict[str, Any] = {
        name: getattr(options, name) for name in _PLAIN if getattr(options, name) is not UNSET
    }
    if options.durability is not UNSET:
        fields["durability"] = options.durability
    elif options.durable is not UNSET:
        fields["durability"] = "fsync" if options.durable else "disk"
    if options.priority is not UNSET:
        value = options.priority
        fields["priority"] = None if value is None else _within(value, -PRIORITY_MAX, PRIORITY_MAX)
    return fields


def _queue(name: str, options: TopicOptions, base: QueueConfig) -> QueueConfig:
    """The options of a queue, with the requested ones applied."""
    requested: dict[str, Any] = {}
    if options.dead_letter is not UNSET:
        own = options.dead_letter == f"{name}:dead"
        requested["dead_letter"] = None if own else options.dead_letter
    if options.lease_ms is not UNSET:
        requested["lease_ms"] = _within(options.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)
    if options.claim_jitter_ms is not UNSET:
        requested["claim_jitter_ms"] = _within(options.claim_jitter_ms, 0, JITTER_MS_MAX)
    if options.max_deliveries is not UNSET:
        requested["deliveries_max"] = _within(options.max_deliveries, 0, DELIVERIES_MAX)
    return msgspec.structs.replace(base, **requested)


def _check_type(topic: Topic, options: TopicOptions) -> None:
    current_type = "log" if topic.config.views.queue is None else "queue"
    if options.type not in (UNSET, current_type):
        raise Refused(
            409,
            "topic_exists_incompatible",
            f"topic {topic.name!r} is a {current_type}: create a {options.type} with another name",
            detail={"kind": "topic_exists", "type": current_type},
        )
    if current_type == "log":
        _reject_queue_options(topic.name, options)


def _reject_queue_options(name: str, options: TopicOptions) -> None:
    """Raise when a log is given queue options other than the defaults."""
    if _queue(name, options, _WIRE_QUEUE) != _WIRE_QUEUE or options.dead_letter:
        raise Invalid(f"topic {name!r} is a log: lease_ms and other queue options need type queue")


def _dead_letter(name: str, queue: QueueConfig | None) -> str | None:
    if queue is None:
        return None
    return queue.dead_letter or (f"{name}:dead" if queue.deliveries_max else None)


def _within(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
