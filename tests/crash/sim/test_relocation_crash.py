"""Promise (D12, O1 to O5): a crash or a failing store inside a relocation loses no record.

Both copies, the local one or the lake's can be read at every moment, and no record comes twice. The
relocation is cut before every call of the disk, with the lake on that disk and elsewhere, and every
call to the object store fails before it happened and after it did.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from strandline.config.settings import LakeSettings, Settings
from strandline.errors import StrandlineError, Unavailable
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.watch import crash_before_every_call, power_losses
from tests.crash.sim.world import LONG, World, settings

LAKE = LakeSettings(hot_segments=1, file_bytes=8_000, zone_rows=16, cache_bytes=20_000)


def _settings() -> Settings:
    return msgspec.structs.replace(settings(seal_records=20, own_bytes_min=1), lake=LAKE)


def _world(objects: SimObjects | None = None) -> World:
    """A topic with five sealed segments, some of it deleted, and one that stays small."""
    world = World(11, options=_settings(), objects=objects)
    world.create("large", durability="fsync")
    world.create("small", durability="fsync")
    for number in range(5):
        world.append("large", [world.entry(size=60) for _ in range(25)])
        world.append("small", [world.entry(size=10)])
        if number == 2:
            world.delete("large", match="us")
            world.delete("large", before=7)
        world.checkpoint()
    return world


def _check(world: World) -> None:
    world.check(world.disk.crash(Oldest()), power_loss=True)
    world.check(world.disk.crash(Newest()), power_loss=True)


def test_a_relocation_moves_all_but_the_newest_segments():
    world = _world()

    world.relocate()

    state = world.topic("large")._state
    assert state.cold is not None
    assert state.cold.last_seq == 100
    assert [run.first_seq for run in state.runs] == [101]
    _check(world)


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "remote"])
@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
def test_a_crash_at_any_step_of_a_relocation_loses_nothing(remote, kill):
    world = _world(SimObjects() if remote else None)
    crash_before_every_call(world, kill=kill, samples=2 if LONG else 1)

    world.relocate()

    assert world.states > 40


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "remote"])
def test_a_store_goes_on_from_a_crash_at_any_step_of_a_relocation(remote):
    objects = SimObjects() if remote else None
    world = _world(objects)
    rng = random.Random(5)
    crashed: list[tuple[World, SimDisk, object]] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        kept = objects.snapshot() if objects is not None else None
        crashed.extend((world.branch(), after, kept) for after in power_losses(world.disk, rng, 1))

    world.disk.on_call = crash
    world.relocate()

    assert crashed
    for branch, after, kept in crashed if LONG else crashed[::4]:
        if kept is not None:
            branch.objects = SimObjects()
            branch.objects.restore(kept)
        branch.go_on(after, power_loss=True)
        branch.append("large", [branch.entry(size=30)])
        branch.delete("large", match="eu")
        branch.relocate()
        assert branch.topic("large")._state.cold.last_seq == 100
        _check(branch)


@pytest.mark.parametrize("how", ["before", "after", "denied", "flipped", "truncated"])
def test_any_call_to_the_object_store_may_fail(how):
    world = _world(SimObjects())
    failed = number = 0
    struck = True
    while struck:
        number += 1
        branch = world.branch()
        branch.objects = SimObjects()
        branch.go_on(world.disk.kill(), power_loss=False)
        fault = branch.objects.fail_at(number, how)
        try:
            branch.relocate()
        except StrandlineError:
            failed += 1
        struck = fault.fired > 0
        branch.objects.heal()
        branch.check(branch.disk.crash(Oldest()), power_loss=True)
        branch.relocate()
        assert branch.topic("large")._state.cold.last_seq == 100
        branch.check(branch.disk.crash(Newest()), power_loss=True)

    assert number > 20
    assert failed or how == "after"  # a lost reply is recognised or asked again


def test_a_store_that_is_gone_stops_no_append_and_no_hot_read():
    objects = SimObjects()
    world = _world(objects)
    world.relocate()
    objects.cut(random.Random(1))

    for _ in range(30):
        world.append("large", [world.entry(size=60)])
    world.checkpoint()
    head = world.topic("large").head_seq
    assert len(world.topic("large").read(100, limit=1000).records) == head - 100

    with pytest.raises(Unavailable):
        world.relocate()
    with pytest.raises(Unavailable):
        world.topic("large").read(0)
    objects.heal()
    _check(world)
