"""Promise (R3, R4, O1, D12): a failure or a crash inside a backup or a restore harms nothing.

Every call to the place of the backups fails, before it happened and after it did, refused, with a
flipped bit and cut short; the machine stops before every call of the disk. Older backups stay
whole, the store loses nothing and is not hindered by what a dead one held, and the next attempt
succeeds. What a restore leaves behind is the whole store, or no store.
"""

from __future__ import annotations

import random

import pytest

import strandline
from strandline.backup.backups import Backups
from strandline.errors import NotAStore, StrandlineError
from strandline.platform.objectstore.local import FolderObjects
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.backup.world import PATH, BackupWorld, Topic, look

TARGET = "/restored"
HOWS = ["before", "after", "denied", "flipped", "truncated"]


def _world(*, lake: bool = True) -> BackupWorld:
    """A store with one backup, and news since."""
    world = BackupWorld(lake=lake)
    topic = world.store.topic("t", durability="fsync")
    for number in range(5):
        topic.append([b"x" * 20] * 25, tag="red")
        world.clock.advance(0.001)
        world.store.checkpoint()
        if number == 2:
            world.store.relocate()
            world.backup()
    topic.delete(before=10)
    topic.append(b"last")
    world.store.relocate()
    world.clock.advance(0.001)
    return world


@pytest.mark.parametrize("how", HOWS)
def test_any_call_to_the_place_may_fail_and_the_next_attempt_completes(how):
    world = _world()
    older, newer = world.restored("/one", backup=1), look(world.store)
    before = world.place.snapshot()
    number, failed, struck = 0, 0, True
    while struck:
        number += 1
        world.place = world.place.fork()
        world.place.restore(before)
        fault = world.place.fail_at(number, how)
        try:
            world.store.backup(world.place)
        except StrandlineError:
            failed += 1
        struck = fault.fired > 0
        world.place.heal()

        assert world.backups.verify().problems == []
        assert world.restored("/one", backup=1) == older
        made = world.backup()
        assert world.restored("/two", backup=made.number) == newer
        assert world.backups.verify().problems == []

    assert number > 20
    assert failed > 5 or how in ("flipped", "truncated", "after")


def test_an_attempt_uses_what_the_one_before_it_had_copied():
    world = _world()
    fault = world.place.fail("create", how="before", key_contains="backups/")
    with pytest.raises(StrandlineError):
        world.store.backup(world.place)
    stored = world.place.bytes_in["put_stream"]

    made = world.backup()

    assert fault.fired == 1
    assert made.number == 2
    assert world.place.bytes_in["put_stream"] - stored < 5_000
    assert world.backups.verify().problems == []


def test_what_a_failed_attempt_left_is_read_before_it_is_used():
    world = _world()
    world.place.fail("create", how="before", key_contains="backups/")
    with pytest.raises(StrandlineError):
        world.store.backup(world.place)
    key = max(info.key for info in world.place.list("segments"))
    world.place.put(key, bytes(len(world.place.get(key))))

    world.backup()

    assert world.backups.verify().problems == []


@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
def test_a_crash_of_the_store_at_any_step_of_a_backup_loses_nothing(kill):
    world = _world()
    expected = look(world.store)
    states: list[tuple[SimDisk, SimObjects]] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        disk = world.disk.kill() if kill else world.disk.crash(Oldest())
        states.append((disk, world.place.fork()))

    world.disk.on_call = crash
    world.store.backup(world.place)
    world.disk.on_call = None

    assert len(states) > 40
    for disk, place in states[::3]:
        with world.open(disk=disk) as store:
            assert look(store) == expected
            made = store.backup(place)
            for _ in range(3):  # nobody holds files back for the dead
                store.checkpoint()
            assert disk.list_dir(f"{PATH}/pins") == []
            assert len(disk.list_dir(f"{PATH}/meta")) == 2
        world.place = place
        assert world.restored("/r", backup=made.number) == expected
        assert world.backups.verify().problems == []


def test_a_power_loss_at_any_step_of_a_backup_into_a_folder_leaves_whole_backups():
    world = _world(lake=False)
    expected = look(world.store)
    rng = random.Random(7)
    states: list[SimDisk] = []

    def crash(operation: str, path: str) -> None:
        if path.startswith("/backups"):
            states.append(world.disk.crash(rng.choice([Oldest(), Newest()])))

    world.disk.on_call = crash
    world.store.backup(FolderObjects("/backups", world.disk))
    world.disk.on_call = None
    states.append(world.disk.crash(Oldest()))

    assert len(states) > 40
    for disk in [*states[::4], states[-1]]:
        backups = Backups(FolderObjects("/backups", disk), disk=disk, clock=world.clock)
        for made in backups.list():
            assert backups.verify(backup=made.number).problems == []
    assert len(backups.list()) == 1
    with world.open(disk=disk) as store:
        assert look(store) == expected


def _opened(world: BackupWorld, disk: SimDisk) -> dict[str, Topic] | None:
    """What is in the restored store, None when there is no store."""
    try:
        store = world.open(TARGET, disk=disk)
    except NotAStore:
        return None
    with store:
        return look(store)


@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
def test_a_crash_at_any_step_of_a_restore_leaves_the_whole_store_or_none(kill):
    world = _world()
    made = world.backup()
    expected = look(world.store)
    fresh = SimDisk(seed=3)
    states: list[SimDisk] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        states.append(fresh.kill() if kill else fresh.crash(Oldest()))
        if not kill:
            states.append(fresh.crash(Newest()))

    fresh.on_call = crash
    Backups(world.place, disk=fresh, clock=world.clock).restore(TARGET, backup=made.number)
    fresh.on_call = None
    states.append(fresh.crash(Oldest()))

    found = [_opened(world, disk) for disk in states]
    assert len(states) > 40
    assert found[-1] == expected
    nothing = {}  # an empty directory becomes a new store, as any would
    assert all(each in (None, nothing, expected) for each in found)
    assert found.count(None) > 20


@pytest.mark.parametrize("how", HOWS)
def test_any_call_to_the_place_may_fail_in_a_restore(how):
    world = _world()
    world.backup()
    expected = look(world.store)
    number, struck = 0, True
    while struck:
        number += 1
        disk = SimDisk(seed=number)
        backups = Backups(world.place, disk=disk, clock=world.clock)
        fault = world.place.fail_at(number, how)
        try:
            backups.restore(TARGET)
        except StrandlineError:
            with pytest.raises(NotAStore):
                strandline.open(TARGET, readonly=True, disk=disk, clock=world.clock)
        else:
            assert _opened(world, disk) == expected
        struck = fault.fired > 0
        world.place.heal()

    assert number > 10
