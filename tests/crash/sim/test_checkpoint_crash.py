"""Promise: a crash inside a checkpoint leaves the old state or the new one, never a mix.

D8, D9. Checkpoint, seal and merge are cut before every call of the disk; so is the recovery that
follows, and the files that were being removed may come back.
"""

from __future__ import annotations

import random

import pytest

from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.lineage import Entry
from tests.crash.sim.watch import crash_before_every_call, power_losses
from tests.crash.sim.world import PATH, World, settings

STEPS = {
    "commit.sync",  # segments
    "commit.rename",
    "commit.sync_dir",
    "durable_replace.sync",  # roots
    "durable_replace.rename",
    "durable_replace.sync_dir",
    "remove",  # what no root needs any more
}


def _world(*, shards: int = 1) -> World:
    """Three checkpoints behind it; the next one seals a topic and merges shared segments."""
    world = World(7, options=settings(shards))
    for name in ("large", "small", "tiny"):
        world.create(name, durability="fsync")
    for _ in range(3):
        world.append("large", [world.entry(size=50) for _ in range(15)])
        world.append("small", [world.entry(), world.entry()])
        world.append("tiny", [world.entry(size=5)])
        world.delete("small", match="eu*")
        world.checkpoint()
    world.append("large", [world.entry(size=700) for _ in range(20)])
    world.append("small", [world.entry()])
    world.delete("large", before=9)
    return world


def _newest_root(disk: SimDisk) -> str:
    return f"{PATH}/meta/{disk.list_dir(f'{PATH}/meta')[-1]}"


def _damage(disk: SimDisk, path: str) -> None:
    content = bytearray(disk.read(path))
    content[len(content) // 2] ^= 0x10
    disk.durable_replace(path, content)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_power_loss_at_any_step_of_a_checkpoint_loses_nothing(shards):
    world = _world(shards=shards)
    before = world.disk.calls.copy()
    crash_before_every_call(world, samples=2)

    world.checkpoint()

    made = world.disk.calls - before
    assert set(made) >= STEPS
    assert made["create"] >= 3  # one for the news, one sealed, one merged


def test_a_kill_at_any_step_of_a_checkpoint_loses_nothing():
    world = _world()
    crash_before_every_call(world, kill=True)

    world.checkpoint()

    assert world.states > 30


def test_a_store_goes_on_from_a_crash_at_any_step_of_a_checkpoint():
    world = _world()
    rng = random.Random(7)
    crashed: list[tuple[World, SimDisk]] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        crashed.extend((world.branch(), after) for after in power_losses(world.disk, rng, 1))

    world.disk.on_call = crash
    world.checkpoint()

    for branch, after in crashed:
        branch.go_on(after, power_loss=True)
        branch.append("large", [branch.entry(size=30)])
        branch.checkpoint()
        branch.append("small", [branch.entry(size=30)])
        branch.checkpoint()
        branch.check(branch.disk.crash(Oldest()), power_loss=True)
        branch.check(branch.disk.crash(Newest()), power_loss=True)


def test_removed_files_that_come_back_are_harmless():
    world = _world()
    world.store.checkpoint()
    world.append("tiny", [world.entry()])

    for after in world.disk.crash_states(200, random.Random(3), reorder_names=True):
        world.check_again(after, random.Random(4))


@pytest.mark.parametrize("power_loss", [True, False])
def test_a_crash_at_any_step_of_a_recovery_is_recovered_from(power_loss):
    world = _world()
    world.propose("large", [Entry(b"on its way")])
    world.topic("large").append_nowait(b"on its way")
    crashed = world.disk.crash(Newest())
    again: list[SimDisk] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        if power_loss:
            again.extend(crashed.crash(choices) for choices in (Oldest(), Newest()))
        else:
            again.append(crashed.kill())

    crashed.on_call = crash
    world.opened(crashed)

    for after in again:
        world.check(after, power_loss=True)


def test_a_file_that_was_begun_twice_at_the_same_place_is_not_removed_with_the_first_one():
    world = World(1)
    world.create("orders", durability="fsync")
    world.append("orders", [world.entry()])
    world.reopen()
    begun: list[tuple[World, SimDisk]] = []

    def kill(operation: str, path: str) -> None:
        del path
        if operation == "store":
            begun.append((world.branch(), world.disk.kill()))

    world.disk.on_call = kill
    world.append("orders", [world.entry()])

    branch, after = begun[0]
    branch.go_on(after, power_loss=False)
    for _ in range(3):
        branch.append("orders", [branch.entry()])
        branch.checkpoint()
    branch.append("orders", [branch.entry()])
    branch.check(branch.disk.crash(Oldest()), power_loss=True)
    branch.check(branch.disk.crash(Newest()), power_loss=True)


def test_a_kill_before_the_last_word_of_a_close_is_synced_loses_nothing_later():
    world = World(1)
    world.create("orders", durability="fsync")
    world.append("orders", [world.entry()])
    killed: list[tuple[World, SimDisk]] = []

    def kill(operation: str, path: str) -> None:
        del operation, path
        killed.append((world.branch(), world.disk.kill()))

    world.disk.on_call = kill
    world.store.close()

    for branch, after in killed:
        branch.go_on(after, power_loss=False)
        branch.append("orders", [branch.entry()])
        branch.check(branch.disk.crash(Oldest()), power_loss=True)
        branch.check(branch.disk.crash(Newest()), power_loss=True)


def test_a_damaged_newest_root_costs_nothing():
    world = _world()
    world.checkpoint()
    for _ in range(8):
        world.append("large", [world.entry(size=5000)])  # the older root replays several files
    world.checkpoint()
    world.append("large", [world.entry()])
    after = world.disk.crash(Newest())

    _damage(after, _newest_root(after))

    world.check(after, power_loss=True)


def test_a_damaged_newest_root_costs_nothing_after_a_session_that_wrote_nothing():
    world = _world()
    world.checkpoint()
    world.append("large", [world.entry()])
    world.reopen()
    world.checkpoint()
    world.reopen()
    world.append("large", [world.entry()])
    after = world.disk.crash(Newest())

    _damage(after, _newest_root(after))

    world.check(after, power_loss=True)


def test_a_damaged_newest_root_costs_nothing_after_shards_were_given_up():
    world = _world(shards=4)
    world.checkpoint()
    for name in world.lineages:
        world.append(name, [world.entry()])
    world.reopen(settings(1))
    world.checkpoint()
    after = world.disk.crash(Newest())

    _damage(after, _newest_root(after))

    world.check(after, power_loss=True)
