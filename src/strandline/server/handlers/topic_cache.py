"""Cache of topic handles by name: creating a handle costs more than an append."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.server.app_state import AppState

_HANDLES_MAX = 16_384


def topic_of(parts: AppState, name: str) -> Topic:
    """The topic of this name; UnknownTopic when it does not exist."""
    topic = parts.topic_handles.get(name)
    if topic is not None and not topic.is_gone:
        return topic
    return reload_topic(parts, name)


def reload_topic(parts: AppState, name: str) -> Topic:
    """As ``topic_of``, without the cached handle, whose topic was deleted."""
    parts.topic_handles.pop(name, None)
    topic = parts.store.existing_topic(name)
    if len(parts.topic_handles) >= _HANDLES_MAX:
        parts.topic_handles.clear()
    parts.topic_handles[name] = topic
    return topic


def touch(parts: AppState, name: str) -> None:
    """Note a read of the topic: it raises the topic's priority for a while."""
    parts.read_at_ms[name] = parts.clock.now_us() // 1000
