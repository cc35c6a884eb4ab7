"""The groups of one store: one object for each, so that all users of a group share its leases.

The offsets of the groups of a topic are in one kv map, ``<topic>:groups``, which is as durable as
the topic, and so are their options (`views/groups/options.py`). Dead letters of a group are in the
topic ``<topic>:<group>:dead``, which is created with the first one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.records import check_topic_name
from strandline.views.groups.consumer_group import Group
from strandline.views.groups.group_state import GroupOptions
from strandline.views.groups.offset_store import PREFIX
from strandline.views.groups.options import PREFIX as OPTIONS_PREFIX
from strandline.views.groups.options import OptionsStore, options_of
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Delete

OFFSETS = ":groups"
DEAD = ":dead"
DEAD_WINDOW_MS = 24 * 3600 * 1000
"""How long after a crash a dead letter is recognised and not written twice."""


class _GroupTopics(Protocol):
    """The topics of a store."""

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...


class GroupRegistry:
    """The groups of one store. Safe to use from many threads."""

    def __init__(self, topics: _GroupTopics, kv: Callable[..., Kv], clock: Clock) -> None:
        self._topics = topics
        self._kv = kv
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: dict[tuple[int, str], Group] = {}

    def open(self, topic: str, name: str, options: dict[str, object]) -> Group:
        """The group of this name on a topic, created with these options if it does not exist."""
        source = self._topics.topic(topic)
        options_of(options)
        self._check(source, name)
        with self._lock:
            key = (source.identity[0], name)
            effective = self._stored_options(source, name).resolve(options)
            group = self._groups.get(key)
            if group is None or group.is_finished:
                group = self._groups[key] = self._create(source, name, effective)
            return group

    def alter(self, topic: str, name: str, **options: object) -> GroupOptions:
        """Change the options of a group. Its members get an error and must join again."""
        source = self._topics.existing_topic(topic)
        with self._lock:
            has_groups = self._exists(source.name + OFFSETS)  # must not create the kv map
            stored = self._stored_options(source, name) if has_groups else None
            before = None if stored is None else stored.load()
            if stored is None or before is None:
                raise NotFound(f"topic {topic!r} has no group {name!r}")
            changed = options_of(msgspec.structs.asdict(before) | options)
            stored.save(changed)
            group = self._groups.pop((source.identity[0], name), None)
        if group is not None:
            group.close()
        return changed

    def find(self, topic: str, name: str) -> Group | None:
        """The group of this name if it is open, else None."""
        source = self._topics.existing_topic(topic)
        with self._lock:
            group = self._groups.get((source.identity[0], name))
        return None if group is None or group.is_finished else group

    def find_stored(self, topic: str, name: str) -> Group | None:
        """The group of this name to read its position; also one that is not open, if it has
        offsets."""
        group = self.find(topic, name)
        if group is None and name in self.names(topic):
            source = self._topics.existing_topic(topic)
            return self._create(
                source, name, self._stored_options(source, name).load() or GroupOptions()
            )
        return group

    def names(self, topic: str) -> list[str]:
        """The names of the groups of a topic."""
        offsets = self._offsets(self._topics.existing_topic(topic))
        return [entry.key.decode()[len(PREFIX) :] for entry in offsets.scan(PREFIX)]

    def delete(self, topic: str, name: str) -> bool:
        """Delete the offsets and options of a group; return whether it existed. Its members get an
        error."""
        source = self._topics.existing_topic(topic)
        with self._lock:
            group = self._groups.pop((source.identity[0], name), None)
        if group is not None:
            group.close()
        # In one batch: offsets without options would be a group with other options.
        entries = [Delete(OPTIONS_PREFIX + name), Delete(PREFIX + name)]
        return bool(self._offsets(source).batch(entries)[1])

    def close(self) -> None:
        """Close every group, when the store is closed."""
        with self._lock:
            groups = list(self._groups.values())
            self._groups.clear()
        for group in groups:
            group.close()

    def _create(self, topic: Topic, name: str, options: GroupOptions) -> Group:
        return Group(
            topic,
            self._offsets(topic),
            name,
            options,
            clock=self._clock,
            dead_letters=partial(self._dead, topic, name),
        )

    def _stored_options(self, topic: Topic, name: str) -> OptionsStore:
        return OptionsStore(self._offsets(topic), topic, name)

    def _offsets(self, topic: Topic) -> Kv:
        name = topic.name + OFFSETS
        if self._exists(name):
            return self._kv(name)
        return self._kv(name, history=1, durability=_durability(topic))

    def _dead(self, topic: Topic, name: str) -> Topic:
        dead = f"{topic.name}:{name}{DEAD}"
        if self._exists(dead):
            return self._topics.existing_topic(dead)
        return self._topics.topic(
            dead, durability=_durability(topic), idempotency_window_ms=DEAD_WINDOW_MS
        )

    def _exists(self, name: str) -> bool:
        try:
            self._topics.existing_topic(name)
        except UnknownTopic:
            return False
        return True

    def _check(self, topic: Topic, name: str) -> None:
        check_topic_name(topic.name + OFFSETS)
        check_topic_name(name)
        dead = check_topic_name(f"{topic.name}:{name}{DEAD}")
        if self._exists(dead) and self._topics.existing_topic(dead).config.views:
            raise Invalid(f"topic {dead!r} belongs to a view: give the group another name")


def _durability(topic: Topic) -> str:
    """The durability of offsets: that of the topic, but ``memory`` for an ephemeral topic."""
    durability = topic.config.durability
    return "memory" if durability == "ephemeral" else durability
