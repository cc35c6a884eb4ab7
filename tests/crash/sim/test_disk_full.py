"""Promise: a full disk stops appends and nothing else, even when it is full during recovery.

E4. The store opens, every record can be read, appends say DiskFull; when there is room again they
go on, and nothing was lost.
"""

from __future__ import annotations

import random

import pytest

from strandline.errors import DiskFull
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.watch import power_losses
from tests.crash.sim.world import PATH, World, read_all

CLASSES = ("fsync", "disk", "memory", "ephemeral")


def _world(durability: str) -> World:
    world = World(1)
    for name in ("orders", "audit"):
        world.create(name, durability=durability)
        world.append(name, [world.entry(size=100) for _ in range(3)])
    world.checkpoint()
    for _ in range(4):
        world.append("orders", [world.entry(size=1500)])
    world.sync()
    world.append("audit", [world.entry(size=10)])
    return world


def _fill(disk: SimDisk) -> None:
    """Leave not one byte free."""
    disk.capacity = 1 << 40
    disk.capacity -= disk.free_bytes(PATH)


def _refused(world: World, name: str) -> bool:
    """Append until there is no room left in the file at hand."""
    for _ in range(200):
        world.propose(name, [entry := world.entry(size=1000)])
        try:
            world.topic(name).append(entry.data, key=entry.key, tag=entry.tag)
        except DiskFull:
            world.withdraw(name)
            return True
        world.lineages[name].settle(kept=True, durable=world.durability(name) == "fsync")
    return False


@pytest.mark.parametrize("durability", CLASSES)
def test_a_store_opens_and_reads_on_a_full_disk_after_a_power_loss(durability):
    world = _world(durability)

    for after in power_losses(world.disk, random.Random(1), 40):
        _fill(after)
        world.check(after, power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_appends_are_refused_on_a_full_disk_and_go_on_when_there_is_room(durability):
    world = _world(durability)
    after = world.disk.crash(Newest())
    _fill(after)
    world.go_on(after, power_loss=True)
    refused = [_refused(world, name) for name in ("orders", "audit")]

    world.disk.capacity = None

    for name in ("orders", "audit"):
        world.append(name, [world.entry(size=1000)])
    world.sync()
    assert durability == "ephemeral" or all(refused)
    for choices in (Oldest(), Newest()):
        world.check(world.disk.crash(choices), power_loss=True)


@pytest.mark.parametrize("durability", CLASSES)
def test_a_store_that_could_not_note_a_loss_notes_it_at_the_next_opening(durability):
    world = _world(durability)
    after = world.disk.crash(Oldest())
    _fill(after)
    world.go_on(after, power_loss=True)
    world.store.close()

    again = world.disk.crash(Oldest())
    _fill(again)

    world.check(again, power_loss=True)


def test_a_checkpoint_on_a_full_disk_fails_and_changes_nothing():
    world = _world("fsync")
    before = read_all(world.topic("orders"))
    _fill(world.disk)

    for _ in range(3):
        with pytest.raises((DiskFull, OSError)):
            world.store.checkpoint()

    assert read_all(world.topic("orders")) == before
    names = [name for name in world.disk.list_dir(f"{PATH}/segments/shared") if ".tmp" in name]
    assert names == []
    world.disk.capacity = None
    world.checkpoint()
    world.check(world.disk.crash(Oldest()), power_loss=True)


def test_a_close_on_a_full_disk_loses_nothing():
    world = _world("memory")
    _fill(world.disk)
    for _ in range(30):
        world.propose("audit", [entry := world.entry(size=500)])
        world.topic("audit").append(entry.data, key=entry.key, tag=entry.tag)
        world.lineages["audit"].settle(kept=False, durable=False)

    world.store.close()

    again = world.disk.kill()
    again.capacity = None
    world.check(again, power_loss=False)
