"""Cuts the power of a world's disk at random moments, and looks at what is left."""

from __future__ import annotations

import random
from collections.abc import Iterator

from strandline.testing.crash_choices import Biased, Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.world import World


class Watch:
    """Cuts the power, or kills, at random calls of a world's disk, and looks at what is left.

    The world itself goes on: it never learns of it.
    """

    def __init__(self, world: World, *, share: float, kills: float = 0.0) -> None:
        self._world = world
        self._share = share
        self._kills = kills
        self._rng = random.Random(world.seed + 1_000_003)
        self._disk = world.disk
        self.follow()

    def rest(self) -> None:
        """Look away until ``follow``."""
        self._disk.on_call = None

    def follow(self) -> None:
        """Watch the disk that the world is on now."""
        self._disk = self._world.disk
        self._disk.on_call = self._on_call

    def _on_call(self, operation: str, path: str) -> None:
        del path
        # What is unsynced is most just before a sync, and what was promised newest just after.
        share = self._share * (4 if "sync" in operation else 1)
        if self._rng.random() >= share:
            return
        self._disk.on_call = None
        try:
            self._look()
        finally:
            self._disk.on_call = self._on_call

    def _look(self) -> None:
        world, rng = self._world, self._rng
        if rng.random() < self._kills:
            world.check(self._disk.kill(), power_loss=False)
            return
        for after in power_losses(self._disk, rng, 2):
            if rng.random() < 0.1:
                world.check_again(after, rng)
            else:
                world.check(after, power_loss=True)


def crash_before_every_call(world: World, *, kill: bool = False, samples: int = 0) -> None:
    """From here on, look at what a crash before each call of the disk would leave.

    A power loss is looked at with everything unsynced lost, with all of it kept, and ``samples``
    times in between.
    """
    rng = random.Random(world.seed)

    def look(operation: str, path: str) -> None:
        del operation, path
        world.disk.on_call = None
        if kill:
            world.check(world.disk.kill(), power_loss=False)
        else:
            for choices in (Oldest(), Newest()):
                world.check(world.disk.crash(choices), power_loss=True)
            for after in power_losses(world.disk, rng, samples):
                world.check(after, power_loss=True)
        world.disk.on_call = look

    world.disk.on_call = look


def power_losses(disk: SimDisk, rng: random.Random, count: int) -> Iterator[SimDisk]:
    """Some of the states that a power loss at this moment may leave, torn in every manner."""
    for _ in range(count):
        shape = rng.random()
        lean = Biased(rng, picks=rng.choice((2, 8, 64)))
        choices = Oldest() if shape < 0.15 else Newest() if shape < 0.25 else lean
        sector = rng.choice((512, 512, 4096))
        yield disk.crash(choices, sector=sector, reorder_names=rng.random() < 0.25)
