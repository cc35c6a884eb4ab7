"""Promise: who waits is woken by whatever brings it a record, and many threads share one group.

Real threads on a simulated clock: it stands still unless a test moves it, so a thread that comes
back was woken, and one that should wait is seen waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from strandline.errors import Closed, UnknownTopic
from strandline.views.groups.member import Delivery, Member
from tests.unit.views.groups.world import LEASE_S, TOPIC, GroupWorld, seqs

DEADLINE_S = 30.0
PATIENT_S = 10_000.0


@pytest.fixture
def pool():
    with ThreadPoolExecutor(16) as made:
        yield made


@pytest.fixture
def world(pool):
    """Closed in the end, so that nobody goes on waiting in the pool when a test fails."""
    made = GroupWorld()
    yield made
    made.store.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


def waiting(world: GroupWorld, pool, member: Member) -> Future[list[Delivery]]:
    """A read that waits."""
    before = world.clock.waiting
    future = pool.submit(member.read, max=9, wait_s=PATIENT_S)
    until(lambda: world.clock.waiting > before)
    return future


def test_a_new_record_wakes(world, pool):
    member = world.group().join("ann")
    future = waiting(world, pool, member)

    world.append()

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_a_nack_wakes(world, pool):
    world.append()
    group = world.group()
    (delivery,) = group.join("ann").read()
    future = waiting(world, pool, group.join("bob"))

    delivery.nack()

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_a_member_that_leaves_wakes(world, pool):
    world.append()
    group = world.group()
    ann = group.join("ann")
    ann.read()
    future = waiting(world, pool, group.join("bob"))

    ann.leave()

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_a_member_that_is_started_anew_wakes(world, pool):
    world.append()
    group = world.group()
    group.join("ann").read()
    future = waiting(world, pool, group.join("bob"))

    group.join("ann")

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_an_ack_wakes_who_waits_for_the_key(world, pool):
    world.append(keys=[b"k", b"k"])
    group = world.group(mode="key_shared")
    member = group.join("ann")
    (delivery,) = member.read()
    future = waiting(world, pool, member)

    delivery.ack()

    assert seqs(future.result(DEADLINE_S)) == [2]


def test_a_seek_wakes(world, pool):
    world.append(2)
    group = world.group()
    member = group.join("ann")
    member.ack_many(member.read(max=2))
    future = waiting(world, pool, member)

    group.seek("earliest")

    assert seqs(future.result(DEADLINE_S)) == [1, 2]


@pytest.mark.parametrize("mode", ["shared", "exclusive", "key_shared"])
def test_the_end_of_a_lease_wakes(world, pool, mode):
    world.append()
    group = world.group(mode=mode)
    group.join("ann").read()
    future = waiting(world, pool, group.join("bob"))

    world.clock.advance(LEASE_S)

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_the_end_of_a_delay_wakes(world, pool):
    world.append()
    member = world.group().join("ann")
    member.read()[0].nack(delay_s=7)
    future = waiting(world, pool, member)

    world.clock.advance(7)

    assert seqs(future.result(DEADLINE_S)) == [1]


def test_a_close_ends_every_wait(world, pool):
    group = world.group()
    futures = [waiting(world, pool, group.join(name)) for name in ("ann", "bob")]

    world.groups.close()

    for future in futures:
        with pytest.raises(Closed):
            future.result(DEADLINE_S)


def test_a_wait_is_over_when_its_time_is(world, pool):
    member = world.group().join("ann")
    future = pool.submit(member.read, wait_s=2.0)
    until(lambda: world.clock.waiting > 0)

    until(lambda: world.clock.advance(0.5) or future.done())

    assert future.result() == []


def test_who_waits_is_not_taken_for_dead(world, pool):
    group = world.group()
    future = waiting(world, pool, group.join("ann"))

    for _ in range(5):
        world.clock.advance(LEASE_S * 0.4)
        until(lambda: group._state.members.next_end() == world.clock.monotonic() + LEASE_S)

    assert group.statistics().members == ("ann",)
    world.append()
    assert seqs(future.result(DEADLINE_S)) == [1]


def test_a_topic_that_is_deleted_ends_the_wait(world, pool):
    future = waiting(world, pool, world.group().join("ann"))

    world.store.delete_topic(TOPIC)

    with pytest.raises(UnknownTopic):
        future.result(DEADLINE_S)


def test_no_bell_stays_behind(world, pool):
    member = world.group().join("ann")

    for _ in range(3):
        future = waiting(world, pool, member)
        world.append()
        member.ack_many(future.result(DEADLINE_S))
    member.read(wait_s=0.0)

    assert len(world.topic._state.waiters) == 0
    assert not world.group()._waiters._waiters


def test_acks_that_come_together_share_their_writes(world, pool):
    world.append(40)
    deliveries = world.group().join("ann").read(max=40)
    offsets = world.store.topic(TOPIC + ":groups")
    before = offsets.head_seq
    group = world.group()

    with group._acks._writing:  # a write that takes its time
        futures = [pool.submit(delivery.ack) for delivery in deliveries[:16]]
        until(lambda: len(group._acks._pending) == 16)

    assert all(future.result(DEADLINE_S) for future in futures)
    assert offsets.head_seq == before + 1
    assert world.stored().floor == 16


@pytest.mark.parametrize("mode", ["shared", "exclusive", "key_shared"])
def test_threads_that_read_and_ack_do_every_record_once_and_keys_in_order(world, pool, mode):
    keys = [b"k%d" % (number % 7) for number in range(600)]
    group = world.group(mode=mode, window=100)
    done: dict[int, int] = {}
    by_key: dict[bytes, list[int]] = {key: [] for key in keys}
    busy: dict[bytes, int] = dict.fromkeys(keys, 0)
    faults: list[str] = []
    lock = threading.Lock()

    def work(name: str, seed: int) -> None:
        member = group.join(name)
        while len(done) < len(keys):
            for delivery in member.read(max=1 + seed % 5):
                with lock:
                    busy[delivery.key] += 1
                    if mode == "key_shared" and busy[delivery.key] > 1:
                        faults.append(f"{delivery.key} is in flight twice")
                    by_key[delivery.key].append(delivery.seq)
                if (delivery.seq + delivery.deliveries + seed) % 11 == 0:
                    with lock:
                        busy[delivery.key] -= 1
                        by_key[delivery.key].remove(delivery.seq)
                    delivery.nack()
                    continue
                with lock:
                    busy[delivery.key] -= 1
                    done[delivery.seq] = done.get(delivery.seq, 0) + 1
                if not delivery.ack():
                    faults.append(f"{delivery.seq} was another's")
        member.leave()

    futures = [pool.submit(work, f"w{seed}", seed) for seed in range(4)]
    for place in range(0, len(keys), 50):
        world.append(keys=keys[place : place + 50])
    for future in futures:
        future.result(120)

    assert faults == []
    assert done == dict.fromkeys(range(1, len(keys) + 1), 1)
    if mode == "key_shared":
        assert all(order == sorted(order) for order in by_key.values())
