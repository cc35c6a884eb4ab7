"""Promise: a power loss at any call of the disk around a SHOW takes nothing from what is remembered
that its table still has, and shows nothing twice.

Of every disk that is left: each query that is there says what it would say if it were asked afresh
(of a `disk` table the end may be lost, and the stored state may have seen it, also on another
shard); a query that was acknowledged on an `fsync` table is there; and life goes on.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from strandline.config.settings import SegmentSettings
from strandline.errors import Invalid, NotFound
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.world import seeds
from tests.unit.query.materialized.world import Machine, World, alike
from tests.unit.store.world import SMALL_WAL

QUERIES = {
    "rows": "QUERY pay RETURN [n, user] WHERE n != 5",
    "best": "QUERY pay RETURN [n] ORDER BY amount DESC LIMIT 3",
    "groups": "QUERY pay COUNT, TOTAL n, COUNT UNIQUE user BY cur",
}


class Life:
    """A store that remembers, and the disks that a crash before each call would have left."""

    def __init__(self, seed: int, alias: str, *, durability: str, shards: int) -> None:
        self.alias = alias
        self.text = QUERIES[alias]
        self.chance = random.Random(seed)
        wal = msgspec.structs.replace(SMALL_WAL, shards=shards)
        surroundings = World(wal=wal, segment=SegmentSettings(block_records=16))
        surroundings.store.table("pay", durability=durability, flush_rows=16, zone_rows=256)
        self.machine = Machine(surroundings, frame_bytes=1500)
        self.durability = durability
        self.number = 0
        self.is_remembered = False
        self.left: list[tuple[SimDisk, bool]] = []

    def work(self) -> None:
        drawn = self.chance.random()
        if drawn < 0.6:
            for _ in range(self.chance.choice((1, 3, 12))):
                self.number += 1
                self.machine.pay(self.number)
        elif drawn < 0.7:
            self.machine.delete(f"DELETE pay WHERE n < {self.chance.randrange(self.number + 2)}")
        elif drawn < 0.8:
            self.machine.store.checkpoint()
        elif drawn < 0.9:
            self.machine.store.sync()
        self.machine.world.clock.advance(1.0)

    def look(self) -> None:
        """SHOW or REMEMBER, with a power loss imagined before each of the disk's calls, and once
        it has been answered."""
        disk = self.machine.world.disk
        disk.on_call = self._imagine
        if self.is_remembered:
            self.machine.show(self.alias)
        else:
            self.machine.remember(self.alias, self.text)
            self.is_remembered = True
        disk.on_call = None
        self._imagine("", "")

    def _imagine(self, operation: str, path: str) -> None:
        del operation, path
        disk = self.machine.world.disk
        hook, disk.on_call = disk.on_call, None
        kill = self.chance.random() < 0.2
        crashed = disk.kill() if kill else disk.crash(self.chance)
        self.left.append((crashed, self.is_remembered))
        disk.on_call = hook

    def check(self, disk: SimDisk, *, was_remembered: bool) -> bool:
        """Whether the query was found on a disk; if so, it was right."""
        machine = Machine.__new__(Machine)
        machine.world = World.__new__(World)
        vars(machine.world).update(vars(self.machine.world))
        machine.frame_bytes = self.machine.frame_bytes
        machine.calendar = self.machine.calendar
        machine.world.disk = disk
        machine.world.store = machine.world.open()
        try:
            return self._checked(machine, was_remembered=was_remembered)
        finally:
            machine.world.store.close()

    def _checked(self, machine: Machine, *, was_remembered: bool) -> bool:
        try:
            if self.chance.random() < 0.5:
                machine.pay(800)  # the table may be as long again as it was before it lost its end
            shown = machine.show(self.alias)
        except NotFound:
            assert self.durability != "fsync" or not was_remembered
            return False
        except Invalid:
            assert self.durability != "fsync"  # the crash took the table
            return False
        asked = machine.fresh(self.text)
        assert alike(shown, asked), (shown.rows(), asked.rows())
        machine.pay(900, 901)
        assert alike(machine.show(self.alias), machine.fresh(self.text))
        assert alike(machine.show(self.alias), machine.fresh(self.text))
        return True


@pytest.mark.parametrize("alias", QUERIES)
@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_power_loss_around_a_show_loses_nothing_and_doubles_nothing(alias, durability):
    _live(1, alias, durability, shards=1 if durability == "fsync" else 3)


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_many_power_losses_around_shows_lose_nothing_and_double_nothing(seed):
    chance = random.Random(seed)
    durability = chance.choice(("memory", "disk", "fsync"))
    _live(100 + seed, chance.choice(list(QUERIES)), durability, shards=chance.choice((1, 2, 3)))


def _live(seed: int, alias: str, durability: str, *, shards: int) -> None:
    life = Life(seed, alias, durability=durability, shards=shards)

    for _ in range(5):
        life.work()
        life.look()
    found = [life.check(disk, was_remembered=there) for disk, there in life.left]

    life.machine.store.close()
    assert len(found) > 20
    assert any(found)
