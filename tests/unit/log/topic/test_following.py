"""Promise (B2, V1): who waits for records is woken by them, by the end of the topic, or by time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

import pytest

import strandline
from strandline.errors import Closed, RecordsLost, StoreFailed
from strandline.testing.sim_disk import SimDisk
from tests.unit.store.world import World

DEADLINE_S = 30


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_follow_gives_what_is_there_and_ends_when_nothing_comes():
    world = World()
    topic = world.store.topic("t")
    topic.append_many([b"1", b"2"])
    topic.append(b"3")

    found = [record.data for record in topic.follow(after=1, timeout_s=0)]

    assert found == [b"2", b"3"]


def test_follow_gives_live_records_as_they_come(threads):
    topic = World().store.topic("t")
    got = threading.Semaphore(0)
    found = []

    def consume() -> None:
        for record in topic.follow():
            found.append(record.data)
            got.release()
            if record.data == b"last":
                return

    consumer = threads.submit(consume)
    for number in range(5):
        topic.append(b"%d" % number)
        assert got.acquire(timeout=DEADLINE_S)
    topic.append(b"last")
    consumer.result(DEADLINE_S)

    assert found == [b"0", b"1", b"2", b"3", b"4", b"last"]


def test_follow_spares_a_node_its_own_records():
    topic = World().store.topic("t")
    topic.append(b"mine", node="n1")
    topic.append(b"yours", node="n2")

    found = list(topic.follow(node="n1", timeout_s=0))

    assert [record.data for record in found] == [b"yours"]


def test_follow_never_hides_a_loss():
    topic = World().store.topic("t", cap_records=2)
    topic.append_many([b"%d" % number for number in range(5)])

    with pytest.raises(RecordsLost) as caught:
        next(topic.follow())

    error = caught.value
    assert (error.gap_from, error.gap_to, error.reason) == (1, 3, "cap")
    assert next(topic.follow(after=error.gap_to)).data == b"3"
    assert next(topic.follow(lossy=True)).data == b"3"


def test_waiting_ends_at_once_when_there_is_something():
    topic = World().store.topic("t")
    topic.append(b"x")

    assert topic.wait_for(0)
    assert not topic.wait_for(1, timeout_s=0)


def test_waiting_ends_when_the_time_is_over(threads):
    world = World()
    topic = world.store.topic("t")

    waiting = threads.submit(topic.wait_for, 0, 5.0)
    with pytest.raises(NotYet):
        waiting.result(0.05)
    world.clock.advance(6)

    assert waiting.result(DEADLINE_S) is False


def test_every_waiter_is_woken(threads):
    topic = World().store.topic("t")
    waiting = [threads.submit(topic.wait_for, 0) for _ in range(4)]

    topic.append(b"x")

    assert [future.result(DEADLINE_S) for future in waiting] == [True] * 4


def test_an_unsynced_record_wakes_nobody(threads):
    topic = World().store.topic("t", durability="fsync")
    waiting: Future[bool] = threads.submit(topic.wait_for, 0)

    pending = topic.append_nowait(b"x")
    with pytest.raises(NotYet):
        waiting.result(0.05)
    pending.wait()

    assert waiting.result(DEADLINE_S)


def test_waiting_ends_when_the_topic_is_deleted(threads):
    world = World()
    topic = world.store.topic("t")
    waiting = threads.submit(topic.wait_for, 0)

    world.store.delete_topic("t")

    assert waiting.result(DEADLINE_S) is False


def test_waiting_ends_when_the_store_is_closed(threads):
    world = World()
    topic = world.store.topic("t")
    waiting = threads.submit(topic.wait_for, 0)

    world.store.close()

    with pytest.raises(Closed):
        waiting.result(DEADLINE_S)


def test_waiting_ends_when_the_shard_is_poisoned(threads):
    world = World()
    topic = world.store.topic("t", durability="fsync")
    waiting = threads.submit(topic.wait_for, 0)
    world.disk.fail("sync")

    with pytest.raises(StoreFailed):
        topic.append(b"x")

    with pytest.raises(StoreFailed):
        waiting.result(DEADLINE_S)


def test_looking_again_and_again_at_a_quiet_topic_leaves_nothing_behind():
    with strandline.open("/data", disk=SimDisk(), start_jobs=False) as store:
        topic = store.topic("t")

        for _ in range(20):
            assert not topic.wait_for(0, timeout_s=0.001)

        assert len(topic._state.waiters) == 0
