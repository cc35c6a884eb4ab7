"""Cache of topic handles by name: creating a handle costs more than an append."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.server.app_state import Parts

_HANDLES_MAX = 16_384


def topic_of(parts: Parts, name: str) -> Topic:
    """The topic of this name; UnknownTopic when it does not exist."""
    topic = parts.handles.get(name)
    if topic is not None and not topic.is_gone:
        return topic
    return fresh_topic_of(parts, name)


def fresh_topic_of(parts: Parts, name: str) -> Topic:
    """As ``topic_of``, without the cached handle, whose topic was deleted."""
    parts.handles.pop(name, None)
    topic = parts.store.existing_topic(name)
    if len(parts.handles) >= _HANDLES_MAX:
        parts.handles.clear()
    parts.handles[name] = topic
    return topic


def touch(parts: Parts, name: str) -> None:
    """Note a read of the topic: it raises the topic's priority for a while."""
    parts.read_at_ms[name] = parts.clock.now_us() // 1000
