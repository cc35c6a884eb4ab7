"""Promise (R1, R4): a restored store is a store like any other, and tells old cursors so."""

from __future__ import annotations

import pytest

import strandline
from strandline.backup.backups import Backups
from strandline.errors import Corrupt, DiskFull, Invalid, Locked, NotAStore
from strandline.log.repair.verify import verify_store
from strandline.log.wal.codec import FILE_HEADER_SIZE
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.backup.world import BackupWorld, look

TARGET = "/restored"


def _filled(*, lake: bool = False, shards: int = 1) -> BackupWorld:
    world = BackupWorld(lake=lake, shards=shards)
    for name in ("t", "u"):
        topic = world.store.topic(name, durability="fsync")
        for _ in range(5):
            for _ in range(20):
                topic.append(b"record %d" % topic.head_seq, tag="red")
            world.clock.advance(0.001)
            world.store.checkpoint()
    world.store.relocate()
    world.tick()
    world.backup()
    return world


def test_a_directory_that_is_not_empty_is_refused_and_left_alone():
    world = _filled()
    world.disk.make_dirs(TARGET)
    world.disk.durable_replace(f"{TARGET}/mine", b"precious")

    with pytest.raises(Invalid, match="is not empty"):
        world.backups.restore(TARGET)

    assert world.disk.list_dir(TARGET) == ["mine"]


def test_the_store_itself_is_not_restored_over():
    world = _filled()

    with pytest.raises(Invalid, match="is not empty"):
        world.backups.restore("/data")

    assert look(world.store) == world.seen[-1].topics


@pytest.mark.parametrize("shards", [1, 2])
def test_a_restored_store_takes_appends_checkpoints_relocations_and_restarts(shards):
    world = _filled(shards=shards)
    for _ in range(3):  # openings that write to the lake: a restored one begins anew
        world.store.close()
        world.store = world.open()
        topic = world.store.topic("t")
        for _ in range(20):
            topic.append(b"record %d" % topic.head_seq, tag="red")
        world.store.checkpoint()
        world.store.relocate()
    world.backup()
    disk = SimDisk(seed=5)
    Backups(world.place, disk=disk, clock=world.clock).restore(TARGET)

    for _ in range(2):
        with world.open(TARGET, disk=disk) as store:
            for name in ("t", "u"):
                topic = store.topic(name)
                for _ in range(3):
                    for _ in range(20):
                        topic.append(b"record %d" % topic.head_seq, tag="red")
                    store.checkpoint()
            store.relocate()
            assert store.health().status == "green"

    with world.open(TARGET, disk=disk) as store:
        for topic in look(store).values():
            data = [each[2] for each in topic.records]
            assert data == [b"record %d" % number for number in range(topic.head_seq)]
        assert {topic.head_seq for topic in look(store).values()} == {220, 280}
        assert store.topic("t")._state.cold.last_seq >= 180
    assert verify_store(disk, TARGET).problems == []


def test_nothing_is_wrong_with_a_restored_store_that_nobody_has_opened():
    world = _filled(shards=2)

    world.backups.restore(TARGET)

    assert verify_store(world.disk, TARGET).problems == []
    readonly = strandline.open(TARGET, readonly=True, disk=world.disk, clock=world.clock)
    assert look(readonly) == world.seen[-1].topics
    assert readonly.health().status == "green"


def test_damage_to_a_restored_log_is_noticed():
    world = BackupWorld(shards=2)
    for name in ("t", "u", "v"):
        world.store.topic(name, durability="fsync").append([b"record"] * 50)
    world.backups.create("/data")
    world.backups.restore(TARGET)

    for shard in ("shard-00", "shard-01"):
        folder = f"{TARGET}/wal/{shard}"
        path = f"{folder}/{world.disk.list_dir(folder)[0]}"
        content = bytearray(world.disk.read(path))
        behind = FILE_HEADER_SIZE + int.from_bytes(content[FILE_HEADER_SIZE:][:4], "little")
        broken = bytes(content[:behind]) + bytes(len(content) - behind)  # as if never written
        world.disk.durable_replace(path, broken)
        with pytest.raises(Corrupt):
            world.open(TARGET)
        world.disk.durable_replace(path, content)

    world.open(TARGET).close()


@pytest.mark.parametrize("durability", ["fsync", "disk", "memory"])
def test_a_cursor_from_behind_the_moment_is_told(durability):
    world = BackupWorld()
    topic = world.store.topic("t", durability=durability)
    topic.append([b"kept"] * 10)
    world.store.sync()
    world.clock.advance(0.001)
    world.backup()
    topic.append([b"gone"] * 10)
    page = topic.read(0, 100)
    world.clock.advance(1)
    world.backups.restore(TARGET)

    with world.open(TARGET) as store:
        again = store.topic("t")
        first = again.append([b"other"] * 20)
        told = again.read(page.next, 100, epoch=page.epoch)

    assert first.first_seq == 11
    assert told.epoch > page.epoch
    assert told.tombstone is not None
    assert told.tombstone.reason == "recreated"
    assert [record.seq for record in told.records] == list(range(1, 31))


def test_a_new_life_is_remembered_over_checkpoints_and_restarts():
    world = BackupWorld()
    world.store.topic("t", durability="fsync").append(b"kept")
    page = world.store.topic("t").read(0)
    world.backup()
    world.clock.advance(1)
    world.backups.restore(TARGET)
    with world.open(TARGET) as store:
        store.checkpoint()
        store.topic("t").append(b"other")
        store.checkpoint()

    with world.open(TARGET) as store:
        told = store.topic("t").read(1, epoch=page.epoch)
        same = store.topic("t").read(1, epoch=told.epoch)

    assert told.tombstone is not None
    assert same.tombstone is None


def test_two_restores_of_one_backup_have_other_epochs():
    world = _filled()
    epochs = []
    for target in ("/one", "/two"):
        world.clock.advance(1)
        world.backups.restore(target)
        with world.open(target) as store:
            epochs.append(store.topic("t").epoch)

    assert epochs[0] < epochs[1]


def test_what_an_ephemeral_topic_had_in_memory_is_told_as_lost():
    world = BackupWorld()
    world.store.topic("t", durability="ephemeral").append(b"gone")
    world.backup()
    world.backups.restore(TARGET)

    with world.open(TARGET) as store:
        page = store.topic("t").read(0)
        appended = store.topic("t").append(b"new")

    assert page.tombstone is not None
    assert appended.first_seq > 1


def test_lake_files_that_had_to_go_are_forgotten_with_the_lake():
    world = _filled()
    world.store.delete_topic("u")
    world.store.relocate()
    world.backup()
    assert world.store._state.catalog.lake_trash
    world.backups.restore(TARGET)

    with world.open(TARGET) as store:
        store.relocate()

        assert store.topics() == ["t"]
        assert not store._state.catalog.lake_trash


def test_the_lake_may_be_restored_elsewhere():
    world = _filled(lake=True)
    elsewhere = SimObjects(clock=world.clock)

    world.backups.restore(TARGET, lake=elsewhere)

    with world.open(TARGET, lake=elsewhere) as store:
        assert look(store) == world.seen[-1].topics
    assert not world.disk.exists(f"{TARGET}/lake")


def test_a_lake_is_not_restored_into_another_one():
    world = _filled(lake=True)

    with pytest.raises(Invalid, match="is not empty: give the restored lake a location of its own"):
        world.backups.restore(TARGET, lake=world.lake)


def test_a_restore_that_did_not_finish_is_no_store():
    world = _filled()
    world.place.fail("get_ranges", how="before", key_contains="manifests/", once=False)

    with pytest.raises(strandline.ObjectStoreUnreachable):
        world.backups.restore(TARGET)

    for readonly in (True, False):
        with pytest.raises(NotAStore):
            strandline.open(TARGET, readonly=readonly, disk=world.disk, clock=world.clock)
    world.place.heal()
    with pytest.raises(Invalid, match="is not empty"):
        world.backups.restore(TARGET)


def test_a_full_disk_is_told():
    world = _filled()
    disk = SimDisk(seed=4, capacity=8_192)

    with pytest.raises(DiskFull):
        Backups(world.place, disk=disk, clock=world.clock).restore(TARGET)


def test_two_restores_into_one_directory_do_not_mix():
    world = _filled()
    refused: list[Exception] = []

    def another(operation: str, path: str) -> None:
        if operation == "lock" and path.startswith(TARGET) and not refused:
            refused.append(Invalid(""))
            world.disk.on_call = None
            world.backups.restore(TARGET)

    world.disk.on_call = another

    with pytest.raises((Invalid, Locked)):
        world.backups.restore(TARGET)

    with world.open(TARGET) as store:
        assert look(store) == world.seen[-1].topics


def test_a_restored_store_backs_up_to_the_same_place_as_another_timeline():
    world = _filled()
    topic = world.store.topic("t")
    topic.append(b"lost")
    world.tick()
    world.backup()
    world.clock.advance(1)
    world.backups.restore(TARGET, backup=1)

    with world.open(TARGET) as store:
        store.topic("t").append(b"another")
        world.clock.advance(0.001)
        made = store.backup(world.place)
        expected = look(store)

    assert made.number == 3
    assert made.from_us > world.backups.list()[1].until_us
    assert made.copied_bytes < made.size / 2
    assert world.restored("/three") == expected
    assert world.restored("/two", backup=2) == world.seen[-1].topics
    assert world.restored("/old", at=world.seen[-1].at_us) == world.seen[-1].topics
    assert world.backups.verify().problems == []


def test_a_copy_that_went_another_way_is_not_joined_to_the_log():
    world = BackupWorld()
    topic = world.store.topic("t", durability="fsync")
    topic.append([b"same"] * 10)
    world.backup()
    twin = world.disk.kill()
    topic.append(b"ours" * 10)
    world.clock.advance(0.001)
    world.backup()
    other = world.open(disk=twin)
    other.topic("t").append([b"theirs" * 10] * 30)
    world.clock.advance(0.001)

    made = other.backup(world.place)

    assert [each.first_backup for each in world.backups.windows()] == [1, 3]
    assert world.restored("/theirs") == look(other)
    assert world.restored("/ours", backup=2) == look(world.store)
    assert made.number == 3
