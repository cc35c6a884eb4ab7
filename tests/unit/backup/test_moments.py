"""Promise (R1, R2): a restore gives the store exactly as it was at the moment that was asked for.

A small workload of appends, deletes, evictions, alterations, topics that come and go, checkpoints,
relocations, restarts and backups is written down after every step. Every step behind the first
backup is then restored, by time, by lsn and by record, and must look as it did.
"""

from __future__ import annotations

import random

import pytest

from strandline.errors import Invalid
from tests.unit.backup.world import BackupWorld


def _workload(world: BackupWorld, steps: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(steps):
        store = world.store
        name = rng.choice(["orders", "payments", "audit"])
        options = {"durability": "disk" if name == "audit" else "fsync"}
        topic = store.existing_topic(name) if name in store.topics() else None
        if topic is None:
            topic = store.create_topic(name, **options)
        what = rng.randrange(20)
        if what == 0:
            topic.delete(before=max(1, topic.head_seq - 3))
        elif what == 1:
            topic.delete(match="r*")
        elif what == 2:
            topic.alter(cap_records=rng.choice([0, 15, 30]))
        elif what == 3 and name == "payments":
            store.delete_topic(name)
        elif what == 4:
            store.checkpoint()
        elif what == 5:
            store.checkpoint()
            store.relocate()
        else:
            many = rng.randrange(1, 6)
            topic.append([b"%d of %d" % (each, number) for each in range(many)], tag="red")
            topic.append(b"last of %d" % number, tag=rng.choice(["red", "blue"]))
            topic.enforce_retention()
        world.tick()


def _filled(shards: int, lake: bool, steps: int = 25) -> tuple[BackupWorld, int]:
    """A store with three backups, and the number of the first step behind the first of them."""
    world = BackupWorld(shards=shards, lake=lake)
    _workload(world, steps, seed=shards)
    world.backup()
    first = len(world.seen)
    _workload(world, steps, seed=10 + shards)
    world.backup()
    world.store.close()
    world.use_shards(shards + 1)  # topics change their shards
    world.store = world.open()
    _workload(world, steps, seed=20 + shards)
    world.backup()
    return world, first


@pytest.mark.parametrize("lake", [False, True], ids=["local lake", "remote lake"])
@pytest.mark.parametrize("shards", [1, 3])
def test_every_moment_behind_the_first_backup_is_restored_as_it_was(shards, lake):
    world, first = _filled(shards, lake)

    for seen in world.seen[first:]:
        by_time = world.restored("/restored", at=seen.at_us)

        assert by_time == seen.topics


@pytest.mark.parametrize("shards", [1, 3])
def test_every_position_is_restored_as_it_was(shards):
    world, first = _filled(shards, lake=True)

    for seen in world.seen[first:]:
        by_lsn = world.restored("/restored", at=seen.position)

        assert by_lsn == seen.topics


def test_a_record_names_the_moment_of_its_commit():
    world, first = _filled(1, lake=False)
    before, restored = world.seen[first - 1].topics, 0

    for seen in world.seen[first:]:
        for name, topic in seen.topics.items():
            older = before.get(name)
            if older is not None and 0 < older.head_seq < topic.head_seq:
                found = world.restored("/restored", at=f"{name}={topic.head_seq}")
                assert found[name].head_seq == topic.head_seq
                assert found[name].records == topic.records
                restored += 1
        before = seen.topics

    assert restored > 10


def test_a_cut_at_one_lsn_takes_the_other_shards_as_of_its_time():
    world, first = _filled(3, lake=False)
    busy, checked = {0, 1, 2}, 0

    for older, seen in zip(world.seen[first:], world.seen[first + 1 :], strict=False):
        for shard in busy:
            if seen.ends[shard] > older.ends[shard] and older.at_us < seen.at_us:
                assert world.restored("/restored", at=f"{shard}:{seen.ends[shard]}") == seen.topics
                checked += 1

    assert checked > 10


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_backup_is_restored_by_its_number(number):
    world = BackupWorld()
    ends = []
    for step in range(3):
        _workload(world, 8, seed=step)
        world.backup()
        ends.append(world.seen[-1].topics)

    assert world.restored("/restored", backup=number) == ends[number - 1]


def test_a_moment_before_the_first_backup_is_refused_with_the_next_one_that_can_be_had():
    world = BackupWorld()
    _workload(world, 10, seed=1)
    made = world.backup()

    with pytest.raises(Invalid, match=r"no backup covers.*the nearest times are"):
        world.restored("/restored", at=world.seen[2].at_us)

    assert world.restored("/restored", at=made.from_us) == world.seen[-1].topics


def test_a_moment_behind_the_newest_backup_is_refused():
    world = BackupWorld()
    _workload(world, 5, seed=1)
    made = world.backup()

    with pytest.raises(Invalid, match="no backup covers"):
        world.restored("/restored", at=made.until_us + 1)


def test_moments_that_the_log_no_longer_tells_are_refused_with_the_nearest_two():
    world = BackupWorld(retained_bytes=0)
    _workload(world, 10, seed=1)
    older = world.backup()
    _workload(world, 40, seed=2)
    world.store.checkpoint()
    world.store.checkpoint()
    newer = world.backup()

    assert newer.from_us > older.until_us
    between = next(seen for seen in world.seen if seen.at_us > older.until_us + 5000)
    with pytest.raises(Invalid) as caught:
        world.restored("/restored", at=between.at_us)

    windows = world.backups.windows()
    assert [(each.first_backup, each.last_backup) for each in windows] == [(1, 1), (2, 2)]
    text = str(caught.value)
    assert text.count("Z") == 3
    assert world.restored("/restored", at=older.until_us) == world.restored("/two", backup=1)


def test_with_fewer_shards_the_log_of_the_others_goes_and_a_timeline_begins():
    world = BackupWorld(shards=3)
    _workload(world, 15, seed=1)
    older = world.backup()
    world.store.close()
    world.use_shards(1)
    world.store = world.open()
    _workload(world, 15, seed=2)
    newer = world.backup()
    _workload(world, 15, seed=3)
    world.backup()

    assert newer.from_us > older.until_us
    assert world.restored("/restored", backup=1) == world.seen[14].topics
    for seen in world.seen[30:]:
        assert world.restored("/restored", at=seen.at_us) == seen.topics


def test_with_enough_log_kept_two_backups_have_one_window():
    world = BackupWorld()
    _workload(world, 10, seed=1)
    older = world.backup()
    _workload(world, 40, seed=2)
    world.store.checkpoint()
    world.store.checkpoint()
    newer = world.backup()

    (window,) = world.backups.windows()

    assert newer.from_us == older.until_us
    assert (window.from_us, window.until_us) == (older.from_us, newer.until_us)


def test_an_unknown_backup_is_refused_with_those_that_are_there():
    world = BackupWorld()
    world.backup()

    with pytest.raises(Invalid, match=r"there is no backup 7 .*: it has 1"):
        world.restored("/restored", backup=7)
