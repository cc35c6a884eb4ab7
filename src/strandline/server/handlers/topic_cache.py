"""Topics by name, kept at hand: making a handle costs more than an append."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.server.app_state import Parts

_HANDLES_MAX = 16_384


def topic_of(parts: Parts, name: str) -> Topic:
    """The topic of this name, UnknownTopic when there is none."""
    found = parts.handles.get(name)
    if found is not None and not found.is_gone:
        return found
    return fresh_topic_of(parts, name)


def fresh_topic_of(parts: Parts, name: str) -> Topic:
    """The same, when the one at hand turned out to be deleted."""
    parts.handles.pop(name, None)
    found = parts.store.existing_topic(name)
    if len(parts.handles) >= _HANDLES_MAX:
        parts.handles.clear()
    parts.handles[name] = found
    return found


def touch(parts: Parts, name: str) -> None:
    """Somebody reads the topic: it matters more for a while."""
    parts.read_at_ms[name] = parts.clock.now_us() // 1000
