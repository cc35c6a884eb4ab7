"""Sends a subscriber the records it has missed, page by page, until it is live.

Pages are read and put into frames on threads, so history does not delay live subscribers. The next
page is read when most of the one before was sent; a client that does not read pauses its
subscriber, and no further pages are read.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.errors import UnknownTopic
from strandline.log.read.page import Page
from strandline.records import Tombstone
from strandline.server.live import frames
from strandline.server.live.frames import Frame
from strandline.server.live.subscriber import Channel, Subscriber
from strandline.server.thread_pool import ThreadPools

_TOO_OLD = ("cap", "ttl", "mixed")


class CatchUpPage(NamedTuple):
    """A page as frames."""

    frames: list[Frame]
    following: int
    head_seq: int
    is_all: bool
    """Whether there were no more records when it was read."""


async def read(feed: Subscriber, bridge: ThreadPools) -> CatchUpPage:
    """The next page of a feed; UnknownTopic when the topic was deleted."""
    channel = feed.channel
    if channel.subscription.is_strong:
        await sync_records(channel, bridge)
    topic, after = channel.topic, feed.cursor
    run = bridge.run if topic.is_local(after) else bridge.lake
    return await run(_read, channel, after, feed.epoch, channel.reach, is_new=feed.is_new)


async def sync_records(channel: Channel, bridge: ThreadPools) -> None:
    """Make present records durable, for subscriptions with strong consistency."""
    head_seq = channel.topic.head_seq
    if head_seq > channel.reach:
        await bridge.run(channel.topic.sync)
        channel.secured = max(channel.secured, head_seq)


def _read(
    channel: Channel, after: int, epoch: int | None, reach: int, *, is_new: bool
) -> CatchUpPage:
    spec = channel.subscription
    page = channel.topic.read(
        after, spec.limit, node=spec.node, size_max=spec.size_max, epoch=epoch
    )
    if is_new and page.tombstone is not None and page.tombstone.reason in _TOO_OLD:
        page = _with_start_reason(page)
    page_frames, following = channel.frames_of(page, after, reach)
    return CatchUpPage(page_frames, following, page.head_seq, following >= reach)


def _with_start_reason(page: Page) -> Page:
    """Report the start position of a new subscriber as the reason of a gap."""
    gap = page.tombstone
    assert gap is not None
    page.tombstone = Tombstone(gap_from=gap.gap_from, gap_to=gap.gap_to, reason="from_seq_too_old")
    return page


async def catch_up(feed: Subscriber, bridge: ThreadPools) -> bool:
    """Send missed records; False when the stream has no room, or the topic was deleted."""
    stream, channel = feed.stream, feed.channel
    while stream.has_room_for_history:
        try:
            page = await read(feed, bridge)
        except UnknownTopic:
            return False
        stream.send_frames(page.frames)
        feed.move(page.following)
        feed.is_new = False
        feed.epoch = channel.topic.identity[1]
        if page.is_all:
            name = channel.topic.name
            stream.send_frames([frames.caught_up(name, page.following, page.head_seq)])
            return True
    return False
