"""Promise: a sync gets the writer's lock at once, however hard other threads append.

The interpreter changes threads every few milliseconds, so whatever takes several changes takes
thousands of appends: they are counted here, and no time is measured.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import strandline
from strandline.log.wal.shard import Shard
from strandline.log.wal.spin_lock import SpinLock
from tests.unit.store.world import World, payloads

ROUNDS = 12
APPENDS_MAX = 20
"""Between the wish for the lock and having it; without an announcement they are thousands."""


@contextmanager
def _flood(topics: list[strandline.Topic], **options: object) -> Iterator[None]:
    """Append to each topic without pause, each by a thread of its own."""
    stop = threading.Event()

    def append(topic: strandline.Topic) -> None:
        while not stop.is_set():
            for _ in range(100):
                topic.append(b"x", **options)

    threads = [threading.Thread(target=append, args=(topic,)) for topic in topics]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _appends_before_the_lock(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames others place while some rounds of syncs wait for the lock, each time."""
    writer, committer = shard.writer, shard.committer
    take_dirty, advance = writer.take_dirty, committer._advance
    syncing = threading.get_ident()
    counts: list[int] = []
    began = [0]

    def take() -> object:
        if threading.get_ident() == syncing:
            counts.append(writer.frames - began[0])
        return take_dirty()

    def publish(target: int) -> None:
        before = writer.frames
        advance(target)
        if threading.get_ident() == syncing:
            counts.append(writer.frames - before)

    monkeypatch.setattr(writer, "take_dirty", take)
    monkeypatch.setattr(committer, "_advance", publish)
    for _ in range(ROUNDS):
        while committer.synced == writer.end_lsn:
            threading.Event().wait(0.001)
        began[0] = writer.frames
        committer.run_once()
    return counts


@pytest.mark.parametrize(
    ("floods", "options"),
    [(1, {}), (3, {}), (1, {"tag": "a"})],
    ids=["the fast lane", "three threads", "the slow lane"],
)
def test_a_sync_does_not_wait_for_a_flood_of_appends(floods, options, monkeypatch):
    world = World()
    topics = [world.store.topic(f"t{number}", durability="disk") for number in range(floods)]
    for topic in topics:
        topic.append(b"first")

    with _flood(topics, **options):
        counts = _appends_before_the_lock(world.store._shards[0], monkeypatch)

    assert len(counts) >= ROUNDS
    assert sorted(counts)[-3] <= APPENDS_MAX  # two may be those of a change of threads
    for topic in topics:
        assert payloads(topic)[:2] == [b"first", b"x"]
        assert topic.statistics().count == topic.head_seq


def test_who_lets_go_of_a_baton_and_takes_it_again_lets_the_announced_first():
    baton = SpinLock()
    order: list[str] = []

    def take() -> None:
        baton.acquire_first()
        order.append("announced")
        baton.release()

    baton.acquire()
    thread = threading.Thread(target=take)
    thread.start()
    while not baton.urgent:
        threading.Event().wait(0.001)

    baton.release()
    baton.acquire()
    order.append("other")
    baton.release()
    thread.join()

    assert order == ["announced", "other"]
    assert not baton.urgent


def test_an_announcement_that_is_never_taken_back_stops_nobody():
    """As below a signal handler, which the announced thread waits for."""
    world = World()
    topic = world.store.topic("t")
    topic.append(b"one")
    writer = world.store._shards[0].writer

    writer.lock.urgent.append([0])
    writer.lock.on_urgent()
    topic.append(b"two")
    topic.append_many([b"three"])
    writer.lock.urgent.clear()
    writer.lock.on_urgent()
    topic.append(b"four")

    assert payloads(topic) == [b"one", b"two", b"three", b"four"]
    assert payloads(world.kill().topic("t")) == [b"one", b"two", b"three", b"four"]


def test_an_interrupt_takes_an_announcement_back(monkeypatch):
    baton = SpinLock()
    baton.acquire()

    def interrupt(_seconds: float = 0.0) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("strandline.log.wal.spin_lock.yield_to_other_threads", interrupt)

    with pytest.raises(KeyboardInterrupt):
        baton.acquire_first()

    assert not baton.urgent
    assert baton.claims  # of the one that holds it


def test_the_fast_lane_is_open_again_after_a_sync():
    world = World()
    topic = world.store.topic("t")
    topic.append(b"one")
    writer = world.store._shards[0].writer
    writer.acquire()
    syncing = threading.Thread(target=world.store._shards[0].committer.run_once)
    syncing.start()
    while not writer.lock.urgent:
        threading.Event().wait(0.001)
    assert writer._limit < 0

    writer.release()
    syncing.join()

    assert writer._limit > 0
    assert topic.append(b"two").last_seq == 2
