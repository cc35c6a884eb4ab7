"""Promise: the count of shards may change between any two openings, clean or after a crash.

D11. Order within each topic is kept, nothing is lost, and topics that are deleted and made again on
another shard stay apart.
"""

from __future__ import annotations

import itertools

import pytest

from strandline.testing.crash_choices import Oldest
from tests.crash.sim.watch import Watch, power_losses
from tests.crash.sim.workload import WEIGHTS, step
from tests.crash.sim.world import World, seeds, settings

COUNTS = (1, 4, 2, 1, 3, 4, 1)
NAMES = [f"topic-{number}" for number in range(6)]


def _next_opening(world: World, watch: Watch, shards: int) -> None:
    """Change the count of shards by a clean close, a kill or a power loss."""
    watch.rest()
    manner = world.rng.choice(("close", "kill", "power loss", "power loss"))
    if manner == "close":
        world.reopen(settings(shards))
    else:
        world.settings = settings(shards)
        loss = manner == "power loss"
        after = next(power_losses(world.disk, world.rng, 1)) if loss else world.disk.kill()
        world.go_on(after, power_loss=loss)
    watch.follow()


@pytest.mark.parametrize("seed", seeds(8, 150))
@pytest.mark.parametrize("durability", ["fsync", "disk"])
def test_topics_keep_their_records_and_order_when_shards_come_and_go(durability, seed):
    world = World(seed, options=settings(COUNTS[0]))
    watch = Watch(world, share=0.02, kills=0.3)
    for name in NAMES:
        world.create(name, durability=durability)
    for shards in COUNTS[1:]:
        for _ in range(12):
            step(world, WEIGHTS)

        _next_opening(world, watch, shards)

    assert world.states > len(COUNTS)


@pytest.mark.parametrize(("first", "then"), list(itertools.permutations((1, 2, 4), 2)))
def test_a_topic_made_again_on_another_shard_does_not_meet_its_namesake(first, then):
    world = World(1, options=settings(first))
    for name in NAMES:
        world.create(name, durability="fsync")
        world.append(name, [world.entry()])
    world.reopen(settings(then))

    for name in NAMES:
        world.drop(name)
        world.create(name, durability="fsync")
        world.append(name, [world.entry()])

    world.go_on(world.disk.crash(Oldest()), power_loss=True)
    world.reopen(settings(first))
    world.check(world.disk.crash(Oldest()), power_loss=True)
