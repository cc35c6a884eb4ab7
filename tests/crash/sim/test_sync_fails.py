"""Promise: a failed sync is final: who waited fails, nothing is synced or acknowledged after it.

E1. Linux forgets the page that it could not write and reports it once: the next sync would succeed
without the bytes, and a reader would still see them. The simulated disk does the same.
"""

from __future__ import annotations

import errno
import threading

import pytest

from strandline.errors import StoreFailed
from strandline.testing.crash_choices import Newest, Oldest
from tests.crash.sim.lineage import Entry
from tests.crash.sim.world import World, read_all

DEADLINE_S = 30


def _world() -> World:
    world = World(1)
    world.create("orders", durability="fsync")
    world.append("orders", [world.entry(size=100)])
    return world


def _place(world: World, data: bytes):
    """An append that is on its way."""
    world.propose("orders", [Entry(data)])
    return world.topic("orders").append_nowait(data)


def _syncs(world: World) -> int:
    return sum(count for call, count in world.disk.calls.items() if call in ("sync", "sync_dir"))


def test_everybody_who_waited_for_a_failed_sync_is_told():
    world = _world()
    world.disk.fail("sync", errno=errno.EIO)
    waiting = [_place(world, b"%d" % number) for number in range(3)]

    for pending in waiting:
        with pytest.raises(StoreFailed):
            pending.wait()

    assert world.topic("orders").head_seq == 1


def test_threads_that_share_a_failed_sync_all_fail():
    world = _world()
    world.disk.fail("sync", errno=errno.EIO, once=False)
    topic = world.topic("orders")
    outcomes: list[object] = []

    def append() -> None:
        try:
            outcomes.append(topic.append(b"never acknowledged", tag="x"))
        except StoreFailed as error:
            outcomes.append(error)

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert [type(outcome) for outcome in outcomes] == [StoreFailed] * 8
    assert topic.head_seq == 1


def test_after_a_failed_sync_nothing_is_synced_or_acknowledged_again():
    world = _world()
    world.disk.fail("sync", errno=errno.EIO)
    pending = _place(world, b"lost")
    with pytest.raises(StoreFailed):
        pending.wait()
    syncs = _syncs(world)

    topic = world.topic("orders")
    for act in (
        pending.wait,
        lambda: topic.append(b"later"),
        lambda: topic.delete(before=2),
        world.store.sync,
        world.store.checkpoint,
        lambda: world.store.create_topic("other", durability="fsync"),
    ):
        with pytest.raises(StoreFailed):
            act()
    world.store.close()

    assert _syncs(world) == syncs


def test_reads_go_on_after_a_failed_sync():
    world = _world()
    acknowledged = read_all(world.topic("orders")).live
    world.disk.fail("sync", errno=errno.EIO)
    with pytest.raises(StoreFailed):
        _place(world, b"lost").wait()

    found = read_all(world.topic("orders"))

    assert found.live == acknowledged
    assert world.store.health().status == "red"


@pytest.mark.parametrize("choices", [Oldest(), Newest()])
def test_a_power_loss_after_a_failed_sync_takes_nothing_that_was_acknowledged(choices):
    world = _world()
    world.disk.fail("sync", errno=errno.EIO)
    with pytest.raises(StoreFailed):
        _place(world, b"lost").wait()

    world.check(world.disk.crash(choices), power_loss=True)


def test_what_the_next_opening_shows_after_a_failed_sync_is_made_durable_before():
    world = _world()
    world.disk.fail("sync", errno=errno.EIO)
    with pytest.raises(StoreFailed):
        _place(world, b"only in the page cache").wait()

    world.go_on(world.disk.kill(), power_loss=False)

    world.check(world.disk.crash(Oldest()), power_loss=True)


@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_every_sync_of_a_rotation_may_fail(operation):
    for nth in range(1, 100):
        world = _world()
        fault = world.disk.fail(operation, nth, errno=errno.EIO)
        waiting = [_place(world, bytes([number]) * 3000) for number in range(1, 9)]
        failures = 0
        for pending in waiting:
            try:
                pending.wait()
            except StoreFailed:
                failures += 1
        if not fault.fired:
            break

        assert failures == len(waiting)
        world.check(world.disk.crash(Oldest()), power_loss=True)
        world.check(world.disk.crash(Newest()), power_loss=True)
    assert nth > 1
