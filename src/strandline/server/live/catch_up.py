"""Tells a watcher what it has missed, page by page, until it stands where the live ones do.

Pages are read and put into frames on threads, so nobody who is live waits for history. Each page is
asked for when the one before has mostly gone out; a watcher that does not read is held, and its
pages with it.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.errors import UnknownTopic
from strandline.log.read.page import Page
from strandline.records import Tombstone
from strandline.server.live import frames
from strandline.server.live.frames import Frame
from strandline.server.live.subscriber import Channel, Feed
from strandline.server.thread_pool import Bridge

_TOO_OLD = ("cap", "ttl", "mixed")


class Told(NamedTuple):
    """A page as it is told."""

    frames: list[Frame]
    following: int
    head_seq: int
    is_all: bool
    """Whether there was no more when it was read."""


async def read(feed: Feed, bridge: Bridge) -> Told:
    """The next page of a feed; UnknownTopic when the topic has gone."""
    channel = feed.channel
    if channel.wish.is_strong:
        await secure(channel, bridge)
    topic, after = channel.topic, feed.cursor
    run = bridge.run if topic.is_local(after) else bridge.lake
    return await run(_read, channel, after, feed.epoch, channel.reach, is_new=feed.is_new)


async def secure(channel: Channel, bridge: Bridge) -> None:
    """Make what there is durable, for those who want only such records."""
    head_seq = channel.topic.head_seq
    if head_seq > channel.reach:
        await bridge.run(channel.topic.secure)
        channel.secured = max(channel.secured, head_seq)


def _read(channel: Channel, after: int, epoch: int | None, reach: int, *, is_new: bool) -> Told:
    wish = channel.wish
    page = channel.topic.read(
        after, wish.limit, node=wish.node, size_max=wish.size_max, epoch=epoch
    )
    if is_new and page.tombstone is not None and page.tombstone.reason in _TOO_OLD:
        page = _retold(page)
    told, following = channel.told(page, after, reach)
    return Told(told, following, page.head_seq, following >= reach)


def _retold(page: Page) -> Page:
    """To who has just come the reason is where it wanted to begin."""
    gap = page.tombstone
    assert gap is not None
    page.tombstone = Tombstone(gap_from=gap.gap_from, gap_to=gap.gap_to, reason="from_seq_too_old")
    return page


async def catch_up(feed: Feed, bridge: Bridge) -> bool:
    """Tell a feed what it has missed; False when its stream has no room, or the topic went."""
    stream, channel = feed.stream, feed.channel
    while stream.has_room_for_history:
        try:
            told = await read(feed, bridge)
        except UnknownTopic:
            return False
        stream.tell(told.frames)
        feed.move(told.following)
        feed.is_new = False
        feed.epoch = channel.topic.identity[1]
        if told.is_all:
            name = channel.topic.name
            stream.tell([frames.caught_up(name, told.following, told.head_seq)])
            return True
    return False
