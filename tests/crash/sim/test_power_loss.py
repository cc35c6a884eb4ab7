"""Promise: an fsync topic keeps what it acknowledged, whatever a power loss does to the rest.

D3, D9. Random work with the power cut before random calls and syncs, sectors and pages lost, torn
and reordered, names lost: acknowledged is a subset of recovered, recovered of intended; seqs are
dense; nothing is called damaged; recovering again gives the same. Every failure names its seed:
``live(*_world(SEED))`` repeats it.
"""

from __future__ import annotations

import pytest

from strandline.testing.crash_choices import Oldest
from tests.campaigns import POWER_LOSSES
from tests.crash.sim.watch import Watch, crash_before_every_call
from tests.crash.sim.workload import live
from tests.crash.sim.world import World, seeds

LOSSES_OF_GROUP = 2000


def _world(seed: int) -> tuple[World, Watch]:
    world = World(seed)
    watch = Watch(world, share=0.05, kills=0.1)
    for name in ("orders", "audit", "small"):
        world.create(name, durability="fsync")
    return world, watch


def _states_of_lives(first_seed: int, states: int) -> int:
    """Live one life after another until so many crash states were looked at."""
    seen = 0
    seed = first_seed
    while seen < states:
        seen += live(*_world(seed))
        seed += 1
    return seen


@pytest.mark.parametrize("group", range(8))
def test_acknowledged_records_survive_any_power_loss(group):
    seen = _states_of_lives(1000 * group, states=260)

    assert seen >= 260


@pytest.mark.parametrize("group", seeds(0, POWER_LOSSES // LOSSES_OF_GROUP))
def test_acknowledged_records_survive_many_thousands_of_power_losses(group):
    seen = _states_of_lives(1000 * (100 + group), states=LOSSES_OF_GROUP)

    assert seen >= LOSSES_OF_GROUP


def test_every_way_in_which_one_append_can_be_torn_leaves_all_of_it_or_nothing():
    world = World(1)
    world.create("orders", durability="fsync")
    world.append("orders", [world.entry(size=600)])
    seen = []

    def look(operation: str, path: str) -> None:
        del operation, path
        world.disk.on_call = None
        for sector in (512, 4096):
            for after in world.disk.crash_states(1 << 10, sector=sector, reorder_names=True):
                found, _ = world.check(after, power_loss=True)
                seen.append(found["orders"].head)
        world.disk.on_call = look

    world.disk.on_call = look
    world.append("orders", [world.entry(size=1200), world.entry(size=700)])
    world.append("orders", [world.entry(size=20)])

    assert set(seen) == {1, 3, 4}


def test_records_behind_a_rotation_are_durable_when_they_are_acknowledged():
    world = World(1)
    world.create("orders", durability="fsync")

    for _ in range(12):
        world.append("orders", [world.entry(size=3000)])
        for reorder in (False, True):
            after = world.disk.crash(Oldest(), reorder_names=reorder)
            world.check(after, power_loss=True)

    assert world.disk.calls["rename"] > 2


def test_records_placed_over_several_files_become_durable_together():
    world = World(1)
    world.create("orders", durability="fsync")

    world.append_pipelined(["orders"] * 60)

    world.check(world.disk.crash(Oldest()), power_loss=True)
    assert world.disk.calls["rename"] > 2


@pytest.mark.parametrize("size", [10, 400, 3000, 20_000, 40_000])
def test_a_kill_between_any_two_stores_of_a_frame_leaves_no_half_frame(size):
    world = World(1)
    world.create("orders", durability="fsync")
    crash_before_every_call(world, kill=True)

    world.append("orders", [world.entry(size=size)])
    world.append("orders", [world.entry(size=size), world.entry(size=size)])

    assert world.states > 4
