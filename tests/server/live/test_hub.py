"""Promise: a long poll ends when its topic has news, ends when the topic goes, and else in time;
and throttling changes when watchers are told, never what a reader gets."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.platform.clock import SystemClock
from strandline.server.live.hub import Hub
from strandline.server.live.load_shedding import INGEST_FULL, LATENCY_S_FULL, READY_FULL, LoadSample
from strandline.server.settings import ServerSettings
from strandline.store import Store
from tests.server.live.test_feeds import WISH, Collected, stream_to
from tests.server.live.watching import Reader, post, seqs, watch
from tests.server.running import running

FULL = LoadSample(ready=READY_FULL, latency_s=LATENCY_S_FULL, busy=1.0, ingest=INGEST_FULL)


@pytest.fixture
def store(data_dir: str) -> Iterator[Store]:
    with Store(data_dir) as found:
        yield found


def hub_of(store: Store) -> Hub:
    return Hub(store=store, settings=ServerSettings(), clock=SystemClock())


def test_polls_end_when_another_thread_appends(store):
    topic = store.topic("polled")

    async def poll() -> list[bool]:
        hub = hub_of(store)
        polls = [asyncio.ensure_future(hub.wait_for(topic, 0, 30.0)) for _ in range(50)]
        await asyncio.sleep(0)
        appending = threading.Thread(target=topic.append, args=(b"x",))
        appending.start()
        found = await asyncio.gather(*polls)
        appending.join()
        return found

    assert asyncio.run(poll()) == [True] * 50


def test_a_poll_ends_at_once_when_the_head_is_past_its_cursor(store):
    topic = store.topic("past")
    topic.append(b"x")

    async def poll() -> bool:
        return await hub_of(store).wait_for(topic, 0, 30.0)

    assert asyncio.run(poll())


def test_a_poll_ends_without_news_when_its_time_is_over_or_the_topic_goes(store):
    topic = store.topic("goes")

    async def poll() -> tuple[bool, bool]:
        hub = hub_of(store)
        timed_out = await hub.wait_for(topic, 0, 0.01)
        poll = asyncio.ensure_future(hub.wait_for(topic, 0, 30.0))
        await asyncio.sleep(0)
        await asyncio.to_thread(store.delete_topic, "goes")
        return timed_out, await poll

    assert asyncio.run(poll()) == (False, False)


def test_every_one_of_many_appends_wakes_a_poll_that_waits_for_it(store):
    topic = store.topic("each")

    async def poll() -> int:
        hub = hub_of(store)
        appending = threading.Thread(target=lambda: [topic.append(b"x") for _ in range(2000)])
        appending.start()
        seen = 0
        while seen < 2000:
            assert await hub.wait_for(topic, seen, 30.0)
            seen = topic.head_seq
        appending.join()
        return seen

    assert asyncio.run(poll()) == 2000


def test_nobody_who_waits_leaves_nothing_behind(store):
    topic = store.topic("nothing")

    async def poll() -> None:
        hub = hub_of(store)
        await hub.wait_for(topic, 0, 0.001)
        topic.append(b"x")
        await asyncio.sleep(0.01)
        assert hub._watchers == {}

    asyncio.run(poll())
    assert len(topic._state.waiters) == 0


def test_throttling_changes_no_answer_of_diff_and_no_record_of_a_watcher(tmp_path: Path):
    with running(tmp_path) as server:
        topic = server.store.topic("pressed", priority=-1000)
        topic.append_many([b"%d" % number for number in range(20)])
        body = {"from_seq": 3, "limit": 5}
        _, calm = post(server, "/v0/topics/pressed/diff", body)
        session = watch(server, {"pressed": {}})
        governor = server.parts.hub.load_shedder

        def press() -> None:
            for _ in range(50):
                governor.sample(FULL)

        with Reader(server, session["stream_url"]) as reader:
            events = reader.until("caught-up")
            server.on_loop(press)
            _, pressed = post(server, "/v0/topics/pressed/diff", body)
            refused, problem = post(server, "/v0/topics/pressed", {"records": [{"data": 1}]})
            head_seq = topic.head_seq
            topic.append(b"21")
            events += reader.records_to(21)

    assert refused == 429
    assert problem["error"]["code"] == "throttled"
    assert problem["error"]["detail"]["retry_after_ms"] > 0
    assert head_seq == 20
    del calm["performance"], pressed["performance"]
    assert pressed == calm
    assert seqs(events) == list(range(1, 22))


def test_pressure_widens_the_sync_and_holds_routers_until_it_is_over(tmp_path: Path):
    with running(tmp_path) as server:
        hub, store = server.parts.hub, server.store
        seen = []

        def look() -> None:
            windows = {committer.window_s for committer in store.committers}
            seen.append((windows == {hub.load_shedder.window_s}, hub.load_shedder.window_s > 0))
            seen.append(store.routers.deferred)

        def press() -> None:
            for _ in range(50):
                hub.load_shedder.sample(FULL)
            hub._load.sample()
            look()

        server.on_loop(press)
        pressed, seen = seen, []
        deadline = time.monotonic() + 60
        while seen != [(True, False), False]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
            seen = []
            server.on_loop(look)

    assert pressed == [(True, True), True]


def test_under_pressure_turns_wait_for_more_and_the_lowest_band_waits_for_calm(store):
    topic = store.topic("low")

    async def turns() -> list[int]:
        hub = hub_of(store)
        hub.start()
        left = []
        hub._schedule(topic)
        assert hub._coalesced_s == 0
        hub._serve()
        for _ in range(50):
            hub.load_shedder.sample(FULL)
        hub._schedule(topic)
        assert hub._coalesced_s == hub.load_shedder.coalesce_s > 0
        hub._serve()
        for is_deferring in (True, False):
            hub.load_shedder.is_deferring = is_deferring
            hub._scheduler.add(topic.identity, -500, hub._clock.monotonic())
            hub._serve()
            left.append(len(hub._scheduler))
        await hub.drain()
        return left

    assert asyncio.run(turns()) == [1, 0]


def test_watchers_of_a_deferred_topic_get_one_hint_each_time(store):
    topic = store.topic("low")

    async def hints() -> list[bytes]:
        hub = hub_of(store)
        hub.start()
        outlet = Collected()
        feed = hub.attach(stream_to(outlet), topic, WISH, 0)
        assert feed.task is not None
        await feed.task
        outlet.written.clear()
        for is_deferring in (True, True, False, True):
            hub.load_shedder.is_deferring = is_deferring
            hub._scheduler.add(topic.identity, -500, hub._clock.monotonic())
            hub._serve()
        await hub.drain()
        return outlet.written

    hint, another = asyncio.run(hints())
    told = json.loads(hint.decode().partition("data: ")[2].splitlines()[0])
    assert hint == another
    assert hint.startswith(b"event: error")
    assert (told["status"], told["code"], told["topics"]) == (429, "throttled", ["low"])
    assert told["retry_after_ms"] > 0
