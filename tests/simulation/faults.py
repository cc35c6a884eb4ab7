"""What goes wrong in a simulation: one list of kinds, each armed at a moment and gone by itself.

A new kind is a function that takes the world and a source of chance, and an entry in ``KINDS`` with
its weight. What it breaks it heals itself, or ``World.heal`` does at the end of the run.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.world import World

CALLS_MAX = 60
"""Disk calls until an armed death strikes."""


class Kind(NamedTuple):
    """A kind of fault."""

    arm: Callable[[World, random.Random], None]
    weight: int


def _kill(world: World, rng: random.Random) -> None:
    world.die_after(rng.randrange(1, CALLS_MAX), power_loss=False)


def _lose_power(world: World, rng: random.Random) -> None:
    world.die_after(rng.randrange(1, CALLS_MAX), power_loss=True)


def _restart(world: World, rng: random.Random) -> None:
    del rng
    world.restart_wanted = True


def _slow_syncs(world: World, rng: random.Random) -> None:
    world.slow_calls = rng.randrange(1, 20)
    world.slow_s = rng.choice((0.01, 0.2, 3.0))


def _fail_sync(world: World, rng: random.Random) -> None:
    world.disk.fail("sync", rng.randrange(1, 4), errno=errno.EIO)
    world.note_sync_failure()


def _fail_call(world: World, rng: random.Random) -> None:
    operations = ("create", "rename", "pread", "read", "open_read", "remove", "prepare", "list_dir")
    code = rng.choice((errno.EIO, errno.ENOSPC, errno.EMFILE))
    world.disk.fail(rng.choice(operations), rng.randrange(1, 6), errno=code)


def _fill_disk(world: World, rng: random.Random) -> None:
    world.fill_disk(room=rng.choice((0, 512, 20_000)), seconds=rng.uniform(0.2, 3.0))


def _fail_objects(world: World, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 6)):
        how = rng.choice(("before", "after", "after", "flipped", "truncated", "denied"))
        world.objects.fail(nth=rng.randrange(1, 8), how=how)


def _cut_objects(world: World, rng: random.Random) -> None:
    world.objects.cut(rng)
    world.later(rng.uniform(0.5, 10.0), world.objects.heal)


def _slow_objects(world: World, rng: random.Random) -> None:
    world.slow_object_calls = rng.randrange(1, 20)
    world.slow_object_s = rng.choice((0.05, 1.0))


def _hang_up(world: World, rng: random.Random) -> None:
    rng.choice(world.clients).hang_up()


def _set_clock(world: World, rng: random.Random) -> None:
    world.set_clock(rng.choice((-3600.0, -1.0, 1.0, 7200.0)))


KINDS = {
    "kill": Kind(_kill, 4),
    "power loss": Kind(_lose_power, 4),
    "clean restart": Kind(_restart, 2),
    "slow syncs": Kind(_slow_syncs, 2),
    "failing sync": Kind(_fail_sync, 2),
    "failing call": Kind(_fail_call, 3),
    "full disk": Kind(_fill_disk, 2),
    "failing objects": Kind(_fail_objects, 2),
    "objects cut off": Kind(_cut_objects, 2),
    "slow objects": Kind(_slow_objects, 1),
    "client hangs up": Kind(_hang_up, 3),
    "clock set": Kind(_set_clock, 1),
}


def draw(rng: random.Random) -> str:
    """The name of one kind."""
    return rng.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]
