"""What crashes leave of a store with queues, on a simulated machine."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from strandline.testing.sim_disk import SimDisk
from tests.unit.store.world import SMALL_WAL
from tests.unit.views.queue.world import World

FOUR_SHARDS = msgspec.structs.replace(SMALL_WAL, shards=4)
"""So that a power loss may take the end of one topic and leave that of another."""


def left_by_crashes(world: World, work: Callable[[], object]) -> list[SimDisk]:
    """The disks that a kill or a power loss before each call of the work, or after it, leaves."""
    chance = random.Random(7)
    left: list[SimDisk] = []

    def imagine(*_: str) -> None:
        world.disk.on_call = None
        left.extend((world.disk.kill(), world.disk.crash(chance), world.disk.crash(chance)))
        world.disk.on_call = imagine

    world.disk.on_call = imagine
    work()
    imagine()
    world.disk.on_call = None
    return left


def restarted(world: World, disk: SimDisk) -> World:
    again = World(wal=FOUR_SHARDS)
    again.store.close()
    again.disk, again.clock = disk, world.clock
    again.store = again.open()
    return again
