"""Positions of streams in topics, grouped so that equal ones share their bytes.

    Stream   one connection; has a Feed for each topic that it watches
    Feed     its position in the topic
    Channel  all feeds of one topic with equal subscriptions
    Cohort   those of them at the same cursor: one read, one frame, many writes

A feed is *live* while it is in a cohort. One that has to catch up, or whose stream has no room, is
not, and delays no other: the topic itself is its queue (``catch_up.py``).
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
from strandline.server.live.subscriptions import Subscription, selector_of

_PAGES_MAX = 16
"""Pages that a cohort is sent in one push, before other topics are pushed."""


class Subscriber:
    """One stream's position in one topic. Owned by the loop's thread."""

    __slots__ = ("_cursor", "channel", "cohort", "epoch", "is_new", "is_paused", "stream", "task")

    def __init__(self, stream: Stream, channel: Channel, cursor: int, epoch: int | None) -> None:
        self.stream = stream
        self.channel = channel
        self.cohort: _Cohort | None = None
        self.epoch = epoch
        """The epoch of the topic that the cursor belongs to; None when unknown."""
        self.is_paused = False
        """Whether it is paused until its stream has room."""
        self.is_new = True
        """Whether nothing was sent to it yet."""
        self.task: asyncio.Task[None] | None = None
        """The task of its catch-up."""
        self._cursor = cursor

    @property
    def cursor(self) -> int:
        return self._cursor if self.cohort is None else self.cohort.cursor

    @property
    def is_alive(self) -> bool:
        return not self.channel.topic.is_gone

    def move(self, cursor: int) -> None:
        """Set the cursor; not while it is live."""
        assert self.cohort is None
        self._cursor = cursor

    def leave(self) -> None:
        """Leave the cohort, at the cohort's cursor: the feed is no longer live."""
        if self.cohort is not None:
            cohort, self._cursor = self.cohort, self.cohort.cursor
            self.cohort = None
            cohort.members.pop(self, None)


class _Cohort:
    """Feeds at the same cursor. Owned by the loop's thread."""

    __slots__ = ("cursor", "members")

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self.members: dict[Subscriber, None] = {}

    def send(
        self, page_frames: Sequence[Frame], subscription: Subscription, following: int
    ) -> list[Subscriber]:
        """Write to all feeds that have room; the others leave and are returned."""
        if not page_frames:
            self.cursor = following
            return []
        wrapping = subscription.wrapping
        shared = b"".join([frame.wrapped(wrapping) for frame in page_frames])
        lagging: list[Subscriber] = []
        for feed in self.members:
            stream = feed.stream
            waiting = stream.waiting()
            if not waiting:
                stream.frames = 0
            elif stream.is_full_with(waiting):
                lagging.append(feed)
                continue
            if stream.is_unshared:
                stream.send_frames(page_frames)
            else:
                stream.has_sent = True
                try:
                    stream.write(shared)
                except RuntimeError:  # closed in the meantime: its own task notices
                    stream.end("gone")
        for feed in lagging:
            feed.leave()
        self.cursor = following
        return lagging


class _PushResult(NamedTuple):
    """The work that remains after a push of a channel."""

    lagging: list[Subscriber]
    """Feeds that are no longer live."""
    has_more: bool
    """Whether there are more records: another push is needed."""


class Channel:
    """Feeds of one topic with equal subscriptions. Owned by the loop's thread."""

    def __init__(self, topic: Topic, subscription: Subscription) -> None:
        self.topic = topic
        self.subscription = subscription
        self.feeds: dict[Subscriber, None] = {}
        self.cohorts: dict[int, _Cohort] = {}
        config = topic.config
        self.select = selector_of(
            subscription.record_filter, Schema(config.schema_version, config.schema)
        )
        self.secured = 0
        """Records up to this seq are durable, for strong consistency."""
        self.securing: asyncio.Task[None] | None = None
        """The task that makes more records durable."""

    @property
    def reach(self) -> int:
        """Records up to this seq may be sent."""
        head_seq = self.topic.head_seq
        if not self.subscription.is_strong or self.topic.config.durability in (
            "fsync",
            "ephemeral",
        ):
            return head_seq
        return min(head_seq, self.secured)

    def join(self, feed: Subscriber) -> None:
        """Make a feed live at its cursor."""
        cohort = self.cohorts.get(feed.cursor)
        if cohort is None:
            cohort = self.cohorts[feed.cursor] = _Cohort(feed.cursor)
        cohort.members[feed] = None
        feed.cohort = cohort

    def push(self) -> _PushResult:
        """Send the new records to all live feeds."""
        reach = self.reach
        lagging: list[Subscriber] = []
        for cohort in self.cohorts.values():
            for _ in range(_PAGES_MAX):
                if cohort.cursor >= reach or not cohort.members:
                    break
                if not self.topic.is_in_tail(cohort.cursor):
                    lagging += cohort.members
                    break
                lagging += self._push(cohort, reach)
        for feed in lagging:
            feed.leave()
        return _PushResult(lagging, self._regroup() < reach)

    def _push(self, cohort: _Cohort, reach: int) -> list[Subscriber]:
        spec = self.subscription
        page = self.topic.read_unlocked(
            cohort.cursor, spec.limit, node=spec.node, size_max=spec.size_max
        )
        page_frames, following = self.frames_of(page, cohort.cursor, reach)
        return cohort.send(page_frames, spec, following)

    def frames_of(self, page: Page, after: int, reach: int) -> tuple[list[Frame], int]:
        """The frames of a page, and the cursor after it."""
        name = self.topic.name
        page_frames: list[Frame] = []
        if page.tombstone is not None:
            earliest_seq = self.topic.earliest_seq
            page_frames.append(frames.tombstone(name, page.tombstone, earliest_seq, page.head_seq))
            if page.tombstone.reason == "recreated":
                after = 0
        rows = page.records
        following = min(page.next, reach)
        if page.next > reach:
            rows = [record for record in rows if record.seq <= reach]
        selected = self.select(rows)
        if selected:
            record_frame = frames.records(
                name,
                selected,
                self.subscription.shown,
                after=after,
                following=following,
                head_seq=page.head_seq,
            )
            page_frames.append(record_frame)
        return page_frames, following

    def _regroup(self) -> int:
        """Merge cohorts at the same cursor; returns the lowest cursor."""
        lowest = 1 << 62
        if len(self.cohorts) == 1:  # as nearly always
            ((key, cohort),) = self.cohorts.items()
            if cohort.members:
                if key != cohort.cursor:
                    self.cohorts = {cohort.cursor: cohort}
                return cohort.cursor
        regrouped: dict[int, _Cohort] = {}
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
