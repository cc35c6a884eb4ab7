"""Which topics a request to watch means: by name, and by pattern as far as he may read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from strandline.api.live import From
from strandline.errors import Invalid, UnknownTopic
from strandline.log.state.statistics import TopicStatistics
from strandline.log.topic.topic import Topic
from strandline.schema import Schema
from strandline.server.auth.auth import INTERNAL
from strandline.server.handlers.topic_cache import topic_of
from strandline.server.http.request import Call
from strandline.server.live.subscriptions import Sieve, is_pattern, prefix_of, sifter


class Meant(NamedTuple):
    """A topic that is meant, and where it is to begin."""

    topic: Topic
    from_seq: int
    head_seq: int
    earliest_seq: int
    epoch: int | None = None
    """Of the life that the cursor is of, if he knows."""

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def life(self) -> int:
        """Of which life the cursor is: an earlier one, when the topic was made anew since."""
        now = life_of(self.topic)
        return now if self.epoch is None else min(now, self.epoch)


class Named(NamedTuple):
    """What a request means."""

    topics: list[Meant]
    patterns: dict[str, From]


async def named(
    call: Call, asked: Mapping[str, From], sieve: Sieve, *, lenient: bool = False
) -> Named:
    """The topics that are asked for; UnknownTopic, Forbidden or Invalid when that cannot be."""
    most = call.parts.settings.limits.watch_topics_max
    if not 1 <= len(asked) <= most:
        raise Invalid(f"name 1 to {most} topics, not {len(asked)}")
    call.parts.auth.check_live(call.who)
    call.parts.hub.read_at_ms = call.parts.read_at_ms
    patterns = {name: begin for name, begin in asked.items() if is_pattern(name)}
    wanted: dict[str, tuple[Topic, From]] = {}
    for name, begin in asked.items():
        if name in patterns:
            continue
        call.allow("read", name)
        try:
            wanted[name] = (topic_of(call.parts, name), begin)
        except UnknownTopic:
            if not lenient:
                raise
            continue
        check(wanted[name][0], sieve)
    for topic, begin in await of_patterns(call, patterns, sieve):
        wanted.setdefault(topic.name, (topic, begin))
    if len(wanted) > most:
        raise Invalid(f"these patterns mean {len(wanted)} topics; a stream has at most {most}")
    found = await call.parts.bridge.run(_statistics, [topic for topic, _ in wanted.values()])
    meant = []
    for (topic, begin), now in zip(wanted.values(), found, strict=True):
        if now is not None:
            from_seq = now.head_seq if begin.tail else begin.from_seq
            epoch = None if begin.tail else begin.epoch
            meant.append(Meant(topic, from_seq, now.head_seq, now.earliest_seq, epoch))
    return Named(meant, patterns)


async def of_patterns(
    call: Call, patterns: Mapping[str, From], sieve: Sieve
) -> list[tuple[Topic, From]]:
    """The topics that patterns mean now, of those that he may read."""
    found: list[tuple[Topic, From]] = []
    if patterns:
        call.parts.hub.watch_newcomers()  # before looking at those there are
    for pattern, begin in patterns.items():
        prefix = prefix_of(pattern)
        names = await call.parts.bridge.run(call.parts.store.topics, prefix)
        for name in call.parts.auth.visible(call.who, names):
            if name.startswith(INTERNAL) and not prefix.startswith(INTERNAL):
                continue
            try:
                topic = topic_of(call.parts, name)
                check(topic, sieve)
            except (UnknownTopic, Invalid):
                continue  # gone meanwhile, or without the fields that are asked for
            found.append((topic, begin))
    return found


def check(topic: Topic, sieve: Sieve) -> None:
    """Invalid, when the topic has not the fields that the filter asks for."""
    config = topic.config
    sifter(sieve, Schema(config.schema_version, config.schema))


def life_of(topic: Topic) -> int:
    """Which life of its name a topic is: when it was made."""
    return topic.identity[1]


def _statistics(topics: list[Topic]) -> list[TopicStatistics | None]:
    found: list[TopicStatistics | None] = []
    for topic in topics:
        try:
            found.append(topic.estimate())
        except UnknownTopic:
            found.append(None)  # deleted a moment ago
    return found
