"""Makes and changes topics as the wire says, and tells what they are set to.

The wire's words for a queue are options of the topic's queue view: ``type: queue`` gives the topic
one. A type never changes. ``durable`` is another word for ``durability: fsync``; out of range
numbers are brought into their range, as the contract says.
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
from strandline.server.app_state import Parts
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
"""What a queue is set to when the wire makes it and does not say."""


def check_open(topic: Topic) -> None:
    """Raise for a topic in which a view keeps its own records."""
    if topic.config.views.owner:
        raise Invalid(
            f"topic {topic.name!r} belongs to a view of {topic.config.views.owner!r}, and only "
            "that writes to it"
        )


async def make(
    parts: Parts, who: Principal, name: str, options: TopicOptions | None
) -> tuple[Topic, bool]:
    """A topic that an append needs, and whether it is new; an existing one stays as it is."""
    parts.auth.authorise(who, "create", name)
    authorise_letters(parts, who, name, options or _NO_OPTIONS)
    return await parts.bridge.run(found_or_made, parts, name, options or _NO_OPTIONS)


def authorise_letters(parts: Parts, who: Principal, queue: str, options: TopicOptions) -> None:
    """Forbidden, unless he may append to where a queue's dead letters are to go."""
    config = options.views.queue if isinstance(options.views, ViewConfigs) else None
    for name in (options.dead_letter, None if config is None else config.dead_letter):
        authorise_letter_topic(parts, who, queue, name)


def authorise_letter_topic(parts: Parts, who: Principal, queue: str, name: object) -> None:
    """The same for one name, if it is one."""
    if not isinstance(name, str) or name == f"{queue}:dead":
        return
    if name.startswith(INTERNAL):
        raise Invalid(f"dead letters cannot go to {name!r}: it is the server's own")
    parts.auth.authorise(who, "create", name)
    parts.auth.authorise(who, "write", name)


def found_or_made(parts: Parts, name: str, options: TopicOptions) -> tuple[Topic, bool]:
    """The topic of this name, and whether it was made now."""
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
    """Raise when clients have made as many topics or routers as they may."""
    if count >= count_max:
        limit = f"{things}_max"
        raise Refused(
            429,
            "throttled",
            f"the server has its {count_max} {things}: delete some ({limit})",
            detail={"limit": limit, "max": count_max},
            retry_after_s=60.0,
        )


def change(parts: Parts, topic: Topic, options: TopicOptions) -> None:
    """Give an existing topic these options."""
    check_open(topic)
    _check_type(topic, options)
    config = topic.config
    changed = _plain(options)
    if options.views is not UNSET:
        changed["views"] = _views(options)
    if any(getattr(config, option) != value for option, value in changed.items()):
        topic.alter(**changed)
    told = _queue(topic.name, options, config.views.queue or _WIRE_QUEUE)
    if config.views.queue is not None and told != config.views.queue:
        parts.store.views.alter("queue", topic.name, **msgspec.structs.asdict(told))


def check_same(topic: Topic, options: TopicOptions) -> None:
    """Raise when a topic is not as the options say."""
    _check_type(topic, options)
    config = topic.config
    given = _plain(options)
    if options.views is not UNSET:
        given["views"] = options.views
    others = [option for option, value in given.items() if getattr(config, option) != value]
    if config.views.queue is not None:
        told = _queue(topic.name, options, config.views.queue)
        others += [] if told == config.views.queue else ["views"]
    if others:
        raise Invalid(
            f"topic {topic.name!r} has other options than given ({', '.join(others)}): change "
            "them with PATCH"
        )


def settings_of(topic: Topic) -> TopicSettings:
    """All that a topic is set to."""
    config = topic.config
    queue = config.views.queue
    shown = queue or _WIRE_QUEUE
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
        lease_ms=shown.lease_ms,
        claim_jitter_ms=shown.claim_jitter_ms,
        max_deliveries=shown.deliveries_max,
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
        _refuse_queue_words(name, options)
    store.views.check_letters(name, views.queue)
    topic = store.create_topic(name, views=views, **plain)
    if options.type == "queue":
        store.queue(name)  # its topics are there from the beginning
    return topic


def _views(options: TopicOptions) -> ViewConfigs:
    """The views that are said. Whose records a topic keeps is said by that view alone."""
    views = ViewConfigs() if options.views is UNSET else options.views
    if views.owner:
        raise Invalid("views.owner is not for callers: a view makes its own topics, leave it out")
    return views


def _plain(options: TopicOptions) -> dict[str, Any]:
    """The options of the topic itself that are said."""
    said: dict[str, Any] = {
        name: getattr(options, name) for name in _PLAIN if getattr(options, name) is not UNSET
    }
    if options.durability is not UNSET:
        said["durability"] = options.durability
    elif options.durable is not UNSET:
        said["durability"] = "fsync" if options.durable else "disk"
    if options.priority is not UNSET:
        given = options.priority
        said["priority"] = None if given is None else _within(given, -PRIORITY_MAX, PRIORITY_MAX)
    return said


def _queue(name: str, options: TopicOptions, base: QueueConfig) -> QueueConfig:
    """The options of a queue, with what is said of them."""
    said: dict[str, Any] = {}
    if options.dead_letter is not UNSET:
        own = options.dead_letter == f"{name}:dead"
        said["dead_letter"] = None if own else options.dead_letter
    if options.lease_ms is not UNSET:
        said["lease_ms"] = _within(options.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)
    if options.claim_jitter_ms is not UNSET:
        said["claim_jitter_ms"] = _within(options.claim_jitter_ms, 0, JITTER_MS_MAX)
    if options.max_deliveries is not UNSET:
        said["deliveries_max"] = _within(options.max_deliveries, 0, DELIVERIES_MAX)
    return msgspec.structs.replace(base, **said)


def _check_type(topic: Topic, options: TopicOptions) -> None:
    now = "log" if topic.config.views.queue is None else "queue"
    if options.type not in (UNSET, now):
        raise Refused(
            409,
            "topic_exists_incompatible",
            f"topic {topic.name!r} is a {now}: make a {options.type} of another name",
            detail={"kind": "topic_exists", "type": now},
        )
    if now == "log":
        _refuse_queue_words(topic.name, options)


def _refuse_queue_words(name: str, options: TopicOptions) -> None:
    """Say so when words of a queue are said to a log; those that say nothing new are fine."""
    if _queue(name, options, _WIRE_QUEUE) != _WIRE_QUEUE or options.dead_letter:
        raise Invalid(f"topic {name!r} is a log: lease_ms and its like are for type queue")


def _dead_letter(name: str, queue: QueueConfig | None) -> str | None:
    if queue is None:
        return None
    return queue.dead_letter or (f"{name}:dead" if queue.deliveries_max else None)


def _within(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
