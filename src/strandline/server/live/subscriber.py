"""A watcher's place in a topic, and those who stand at the same place and want the same.

    Stream   one connection; has a Feed for each topic that it watches
    Feed     where it stands in the topic
    Channel  all feeds of one topic with the same wish
    Cohort   those of them that stand at the same cursor: one read, one frame, many writes

A feed is *live* while it is in a cohort. One that has something to catch up with, or whose stream
has no room, is not, and nobody waits for it: the topic itself is its queue (``catch_up.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from strandline.log.read.page import Page
from strandline.log.topic.topic import Topic
from strandline.schema import Schema
from strandline.server.live import frames
from strandline.server.live.frames import Frame
from strandline.server.live.streams import Stream
from strandline.server.live.subscriptions import Wish, sifter

_PAGES_MAX = 16
"""Pages that a cohort is told in one turn, before other topics have theirs."""


class Feed:
    """One stream's place in one topic. Owned by the loop's thread."""

    __slots__ = ("_cursor", "channel", "cohort", "epoch", "is_held", "is_new", "stream", "task")

    def __init__(self, stream: Stream, channel: Channel, cursor: int, epoch: int | None) -> None:
        self.stream = stream
        self.channel = channel
        self.cohort: Cohort | None = None
        self.epoch = epoch
        """Of the topic in which the cursor was a cursor, None when nobody knows."""
        self.is_held = False
        """Whether it waits for its stream to have room."""
        self.is_new = True
        """Whether it was told nothing yet."""
        self.task: asyncio.Task[None] | None = None
        """What tells it of what it has missed."""
        self._cursor = cursor

    @property
    def cursor(self) -> int:
        return self._cursor if self.cohort is None else self.cohort.cursor

    @property
    def is_alive(self) -> bool:
        return not self.channel.topic.is_gone

    def move(self, cursor: int) -> None:
        """Stand somewhere else; not while it is live."""
        assert self.cohort is None
        self._cursor = cursor

    def leave(self) -> None:
        """Be no longer live, and stand where the cohort stood."""
        if self.cohort is not None:
            cohort, self._cursor = self.cohort, self.cohort.cursor
            self.cohort = None
            cohort.members.pop(self, None)


class Cohort:
    """Feeds that stand at the same cursor. Owned by the loop's thread."""

    __slots__ = ("cursor", "members")

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self.members: dict[Feed, None] = {}

    def tell(self, told: Sequence[Frame], wish: Wish, following: int) -> list[Feed]:
        """Write to all who have room; the others stay behind and are returned."""
        if not told:
            self.cursor = following
            return []
        wrapping = wish.wrapping
        shared = b"".join([frame.wrapped(wrapping) for frame in told])
        behind: list[Feed] = []
        for feed in self.members:
            stream = feed.stream
            waiting = stream.waiting()
            if not waiting:
                stream.frames = 0
            elif stream.is_full_with(waiting):
                behind.append(feed)
                continue
            if stream.is_apart:
                stream.tell(told)
            else:
                stream.has_told = True
                try:
                    stream.write(shared)
                except RuntimeError:  # closed a moment ago: its own task will hear of it
                    stream.end("gone")
        for feed in behind:
            feed.leave()
        self.cursor = following
        return behind


class Turned(NamedTuple):
    """What a turn of a channel left to do."""

    behind: list[Feed]
    """Who is no longer live."""
    has_more: bool
    """Whether there is more to tell: another turn."""


class Channel:
    """Feeds of one topic with one wish. Owned by the loop's thread."""

    def __init__(self, topic: Topic, wish: Wish) -> None:
        self.topic = topic
        self.wish = wish
        self.feeds: dict[Feed, None] = {}
        self.cohorts: dict[int, Cohort] = {}
        config = topic.config
        self.sift = sifter(wish.sieve, Schema(config.schema_version, config.schema))
        self.secured = 0
        """Up to where records are known to be durable, for those who want only such."""
        self.securing: asyncio.Task[None] | None = None
        """What makes more of them durable."""

    @property
    def reach(self) -> int:
        """Up to where may be told."""
        head_seq = self.topic.head_seq
        if not self.wish.is_strong or self.topic.config.durability in ("fsync", "ephemeral"):
            return head_seq
        return min(head_seq, self.secured)

    def join(self, feed: Feed) -> None:
        """Tell it live from where it stands."""
        cohort = self.cohorts.get(feed.cursor)
        if cohort is None:
            cohort = self.cohorts[feed.cursor] = Cohort(feed.cursor)
        cohort.members[feed] = None
        feed.cohort = cohort

    def turn(self) -> Turned:
        """Tell all who are live what is new."""
        reach = self.reach
        behind: list[Feed] = []
        for cohort in self.cohorts.values():
            for _ in range(_PAGES_MAX):
                if cohort.cursor >= reach or not cohort.members:
                    break
                if not self.topic.is_near(cohort.cursor):
                    behind += cohort.members
                    break
                behind += self._tell(cohort, reach)
        for feed in behind:
            feed.leave()
        return Turned(behind, self._regroup() < reach)

    def _tell(self, cohort: Cohort, reach: int) -> list[Feed]:
        wish = self.wish
        page = self.topic.read_as_it_stands(
            cohort.cursor, wish.limit, node=wish.node, size_max=wish.size_max
        )
        told, following = self.told(page, cohort.cursor, reach)
        return cohort.tell(told, wish, following)

    def told(self, page: Page, after: int, reach: int) -> tuple[list[Frame], int]:
        """What is told of a page, and the cursor behind it."""
        name = self.topic.name
        made: list[Frame] = []
        if page.tombstone is not None:
            earliest_seq = self.topic.earliest_seq
            made.append(frames.tombstone(name, page.tombstone, earliest_seq, page.head_seq))
            if page.tombstone.reason == "recreated":
                after = 0
        rows = page.records
        following = min(page.next, reach)
        if page.next > reach:
            rows = [record for record in rows if record.seq <= reach]
        rows_wanted = self.sift(rows)
        if rows_wanted:
            told = frames.records(
                name,
                rows_wanted,
                self.wish.shown,
                after=after,
                following=following,
                head_seq=page.head_seq,
            )
            made.append(told)
        return made, following

    def _regroup(self) -> int:
        """Put cohorts together that have met; the lowest cursor of them."""
        lowest = 1 << 62
        if len(self.cohorts) == 1:  # as nearly always
            ((key, cohort),) = self.cohorts.items()
            if cohort.members:
                if key != cohort.cursor:
                    self.cohorts = {cohort.cursor: cohort}
                return cohort.cursor
        regrouped: dict[int, Cohort] = {}
        for cohort in self.cohorts.values():
            if not cohort.members:
                continue
            lowest = min(lowest, cohort.cursor)
            other = regrouped.setdefault(cohort.cursor, cohort)
            if other is not cohort:
                other.members |= cohort.members
                for feed in cohort.members:
                    feed.cohort = other
        self.cohorts = regrouped
        return lowest
