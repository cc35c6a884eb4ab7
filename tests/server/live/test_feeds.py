"""Promise: those who stand at the same cursor with the same wish share one read and one frame, and
who comes between a page and the next record misses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strandline.api import live
from strandline.platform.clock import SystemClock
from strandline.security.principal import LOCAL
from strandline.server.live.hub import Hub
from strandline.server.live.streams import Stream
from strandline.server.live.subscriber import Channel, Subscriber
from strandline.server.live.subscriptions import subscription_of
from strandline.server.settings import LiveSettings, ServerSettings
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store

WISH = subscription_of(live.WatchRequest(topics={}), "event")


class Collected:
    """Where bytes for a watcher end in these tests."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.stuck = 0
        self.write: Callable[[bytes], None] = self.written.append
        self.waiting: Callable[[], int] = lambda: self.stuck

    def abort(self) -> None:
        self.stuck = 0

    @property
    def text(self) -> bytes:
        return b"".join(self.written)


def stream_to(outlet: Collected) -> Stream:
    return Stream(outlet, who=LOCAL, wrapping="event", settings=LiveSettings(queue_bytes_max=10))


@pytest.fixture
def store(data_dir: str) -> Iterator[Store]:
    with Store(data_dir) as found:
        yield found


def on_loop(work: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return work()

    return asyncio.run(run())


def test_feeds_at_one_cursor_are_written_the_very_same_bytes(store):
    topic = store.topic("same")

    def work() -> list[bytes]:
        channel = Channel(topic, WISH)
        outlets = [Collected() for _ in range(3)]
        for outlet in outlets:
            channel.join(Subscriber(stream_to(outlet), channel, 0, None))
        topic.append(b"1")
        channel.push()
        return [outlet.written[0] for outlet in outlets]

    first, *others = on_loop(work)
    assert all(other is first for other in others)


def test_cohorts_that_meet_become_one_and_may_be_left_again(store):
    topic = store.topic("meet")
    topic.append_many([b"1", b"2"])

    def work() -> tuple[int, list[int], bytes]:
        channel = Channel(topic, WISH)
        outlets = [Collected(), Collected()]
        feeds = [
            Subscriber(stream_to(outlet), channel, cursor, None)
            for cursor, outlet in enumerate(outlets)
        ]
        for feed in feeds:
            channel.join(feed)
        channel.push()
        cohorts = len(channel.cohorts)
        topic.append(b"3")
        channel.push()
        cursors = [feed.cursor for feed in feeds]
        for feed in feeds:
            feed.leave()
        outlets[1].written.clear()
        topic.append(b"4")
        channel.push()
        return cohorts, cursors, outlets[1].text

    assert on_loop(work) == (1, [3, 3], b"")


def test_a_feed_whose_stream_is_full_stays_where_it_was(store):
    topic = store.topic("full")

    def work() -> tuple[list[Subscriber], list[int], bytes]:
        channel = Channel(topic, WISH)
        outlets = [Collected(), Collected()]
        feeds = [Subscriber(stream_to(outlet), channel, 0, None) for outlet in outlets]
        for feed in feeds:
            channel.join(feed)
        outlets[0].stuck = 11
        topic.append(b"1")
        turned = channel.push()
        behind = [feeds.index(feed) for feed in turned.lagging]
        return behind, [feed.cursor for feed in feeds], outlets[0].text

    assert on_loop(work) == ([0], [0, 1], b"")


class Meddling(ThreadPools):
    """Lets something happen between a page that was read and what is done with it."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        super().__init__()
        self._meddle: Callable[[], object] | None = meddle

    async def run(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        found = await super().run(work, *args, **kwargs)
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
            await asyncio.sleep(0.01)  # the topic has had its turn, without this feed
        return found


def test_a_record_that_comes_between_the_last_page_and_joining_is_told(store):
    topic = store.topic("between")
    topic.append(b'"first"')

    async def work() -> bytes:
        bridge = Meddling(lambda: topic.append(b'"second"'))
        clock = SystemClock()
        hub = Hub(store=store, settings=ServerSettings(), clock=clock, bridge=bridge)
        outlet = Collected()
        stream = stream_to(outlet)
        hub.open(stream)
        hub.attach(stream, topic, WISH, 0)
        await until(lambda: b'"second"' in outlet.text)
        hub.close(stream)
        await hub.drain()
        bridge.close()
        return outlet.text

    text = asyncio.run(asyncio.wait_for(work(), 40))
    assert text.count(b'"first"') == text.count(b'"second"') == 1
    assert text.index(b'"first"') < text.index(b'"second"')


async def until(fulfilled: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if fulfilled():
            return
        await asyncio.sleep(0.002)
