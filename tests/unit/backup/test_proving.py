"""Promise (R5, C1): verifying finds whatever is wrong with a backup, and no restore uses it."""

from __future__ import annotations

import pytest

from strandline.backup.backups import Backups
from strandline.backup.catalog import read_backup
from strandline.errors import Corrupt, Invalid, StrandlineError
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import StoredObject
from tests.unit.backup.world import BackupWorld


@pytest.fixture(scope="module")
def world() -> BackupWorld:
    """Three backups of a small store with every kind of object."""
    made = BackupWorld(lake=True)
    topic = made.store.topic("t", durability="fsync")
    for _ in range(3):
        for _ in range(2):
            topic.append([b"x"] * 20, tag="red")
            made.clock.advance(0.001)
            made.store.checkpoint()
        made.store.relocate()
        made.backup()
    kinds = {key.partition("/")[0] for key in made.place.snapshot()}
    assert kinds == {"backups", "roots", "segments", "wal", "lake", "manifests"}
    return made


def _with(world: BackupWorld, key: str, data: bytes | None) -> BackupWorld:
    """The same backups, with one object changed or gone."""
    twin = BackupWorld()
    twin.clock = world.clock
    twin.place = world.place.fork()
    objects = world.place.snapshot()
    if data is None:
        del objects[key]
    else:
        objects[key] = StoredObject(data, objects[key].number, objects[key].modified_us)
    twin.place.restore(objects)
    return twin


def test_good_backups_have_no_problems(world):
    report = world.backups.verify()

    assert report.ok
    assert report.backups == 3
    assert report.bytes_read == sum(
        len(stored.data) for key, stored in world.place.snapshot().items() if key[:7] != "backups"
    )


def test_a_quick_look_reads_no_object(world):
    before = world.place.calls["get_ranges"]

    report = world.backups.verify(quick=True)

    assert report.ok
    assert world.place.calls["get_ranges"] == before


@pytest.mark.parametrize("quick", [False, True], ids=["all", "quick"])
def test_every_missing_object_is_found(world, quick):
    ends = ("backups/00000000000000000001.json", "backups/00000000000000000003.json")
    for key in set(world.place.snapshot()) - set(ends):  # without one of those there are two
        report = _with(world, key, None).backups.verify(quick=quick)

        assert [problem.key for problem in report.problems] == [key]


@pytest.mark.parametrize("quick", [False, True], ids=["all", "quick"])
def test_every_object_that_is_cut_off_is_found(world, quick):
    for key, stored in world.place.snapshot().items():
        report = _with(world, key, stored.data[:-1]).backups.verify(quick=quick)

        assert key in [problem.key for problem in report.problems]


def test_every_flipped_byte_is_found_and_never_restored(world):
    needed = {
        number: {
            f"backups/{number:020d}.json",
            *(each.key for each in read_backup(world.place, number).objects()),
        }
        for number in (1, 2, 3)
    }
    for key, stored in world.place.snapshot().items():
        step = max(1, len(stored.data) // 15)
        for place in {*range(0, len(stored.data), step), len(stored.data) - 1}:
            flipped = bytearray(stored.data)
            flipped[place] ^= 1 << place % 8
            twin = _with(world, key, bytes(flipped))

            report = twin.backups.verify()

            assert key in [problem.key for problem in report.problems], (key, place)
            number = next(each for each in (3, 2, 1) if key in needed[each])
            with pytest.raises(Corrupt):
                Backups(twin.place, disk=SimDisk(), clock=world.clock).restore("/r", backup=number)


def test_a_backup_with_a_missing_object_is_never_restored_silently(world):
    good = {number: world.restored("/r", backup=number) for number in (1, 2, 3)}
    refused = 0
    for key in world.place.snapshot():
        twin = _with(world, key, None)
        for number, expected in good.items():
            try:
                found = twin.restored("/r", backup=number)
            except StrandlineError:
                refused += 1
            else:
                assert found == expected, key

    assert refused > 5


def test_one_backup_is_verified_by_its_number(world):
    only_new = set(world.place.snapshot())
    first = world.backups.verify(backup=1)
    second = world.backups.verify(backup=2)

    assert first.backups == second.backups == 1
    assert first.objects < len(only_new)
    with pytest.raises(Invalid, match="there is no backup 9"):
        world.backups.verify(backup=9)


def test_a_bit_that_flips_on_the_way_is_no_damage(world):
    world.place.fail("get_ranges", nth=2, how="flipped")

    report = world.backups.verify()

    world.place.heal()
    assert report.ok


def test_a_damaged_newest_descriptor_is_told_and_the_older_backup_can_be_had(world):
    key = "backups/00000000000000000003.json"
    twin = _with(world, key, world.place.get(key)[:-20])

    with pytest.raises(Corrupt):
        twin.restored("/r")
    with pytest.raises(Corrupt):
        twin.backups.list()

    assert twin.restored("/r", backup=1) == world.restored("/r", backup=1)
