"""Resolves the topics of a watch request: names, and patterns limited to readable topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from strandline.api.live import StartPosition
from strandline.errors import Invalid, UnknownTopic
from strandline.log.state.statistics import TopicStatistics
from strandline.log.topic.topic import Topic
from strandline.schema import Schema
from strandline.server.auth.auth import INTERNAL
from strandline.server.handlers.topic_cache import topic_of
from strandline.server.http.request import RequestContext
from strandline.server.live.subscriptions import RecordFilter, is_pattern, prefix_of, selector_of


class WatchTarget(NamedTuple):
    """A topic to watch, and the seq to start after."""

    topic: Topic
    from_seq: int
    head_seq: int
    earliest_seq: int
    epoch: int | None = None
    """The topic's epoch when the cursor was returned, if the client sent it."""

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def start_epoch(self) -> int:
        """The epoch of the cursor: an earlier one if the topic was created again since."""
        current_epoch = epoch_of(self.topic)
        return current_epoch if self.epoch is None else min(current_epoch, self.epoch)


class WatchTargets(NamedTuple):
    """The resolved targets of a request."""

    topics: list[WatchTarget]
    patterns: dict[str, StartPosition]


async def resolve_targets(
    call: RequestContext,
    requested: Mapping[str, StartPosition],
    record_filter: RecordFilter,
    *,
    lenient: bool = False,
) -> WatchTargets:
    """The topics of a request; UnknownTopic, Forbidden or Invalid if one cannot be watched."""
    topics_max = call.parts.settings.limits.watch_topics_max
    if not 1 <= len(requested) <= topics_max:
        raise Invalid(f"name 1 to {topics_max} topics, not {len(requested)}")
    call.parts.auth.check_live(call.who)
    call.parts.hub.read_at_ms = call.parts.read_at_ms
    patterns = {name: start for name, start in requested.items() if is_pattern(name)}
    topics: dict[str, tuple[Topic, StartPosition]] = {}
    for name, start in requested.items():
        if name in patterns:
            continue
        call.allow("read", name)
        try:
            topics[name] = (topic_of(call.parts, name), start)
        except UnknownTopic:
            if not lenient:
                raise
            continue
        check_filter_fields(topics[name][0], record_filter)
    for topic, start in await topics_of_patterns(call, patterns, record_filter):
        topics.setdefault(topic.name, (topic, start))
    if len(topics) > topics_max:
        raise Invalid(f"the patterns match {len(topics)} topics; a stream has at most {topics_max}")
    statistics = await call.parts.bridge.run(_statistics, [topic for topic, _ in topics.values()])
    targets = []
    for (topic, start), state in zip(topics.values(), statistics, strict=True):
        if state is not None:
            from_seq = state.head_seq if start.tail else start.from_seq
            epoch = None if start.tail else start.epoch
            targets.append(WatchTarget(topic, from_seq, state.head_seq, state.earliest_seq, epoch))
    return WatchTargets(targets, patterns)


async def topics_of_patterns(
    call: RequestContext, patterns: Mapping[str, StartPosition], record_filter: RecordFilter
) -> list[tuple[Topic, StartPosition]]:
    """The topics that match the patterns now and that the client may read."""
    found: list[tuple[Topic, StartPosition]] = []
    if patterns:
        call.parts.hub.watch_new_topics()  # before the existing ones are listed
    for pattern, start in patterns.items():
        prefix = prefix_of(pattern)
        names = await call.parts.bridge.run(call.parts.store.topics, prefix)
        for name in call.parts.auth.readable(call.who, names):
            if name.startswith(INTERNAL) and not prefix.startswith(INTERNAL):
                continue
            try:
                topic = topic_of(call.parts, name)
                check_filter_fields(topic, record_filter)
            except (UnknownTopic, Invalid):
                continue  # deleted in the meantime, or without the fields of the filter
            found.append((topic, start))
    return found


def check_filter_fields(topic: Topic, record_filter: RecordFilter) -> None:
    """Invalid, when the topic lacks a field of the filter."""
    config = topic.config
    selector_of(record_filter, Schema(config.schema_version, config.schema))


def epoch_of(topic: Topic) -> int:
    """The epoch of a topic, which distinguishes it from others of its name."""
    return topic.identity[1]


def _statistics(topics: list[Topic]) -> list[TopicStatistics | None]:
    found: list[TopicStatistics | None] = []
    for topic in topics:
        try:
            found.append(topic.estimate())
        except UnknownTopic:
            found.append(None)  # deleted in the meantime
    return found
