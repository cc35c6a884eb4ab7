"""Promise (R3): files that a backup needs stay while it is taken; a dead one holds nothing."""

from __future__ import annotations

import pytest

from strandline.config.settings import SegmentSettings, Settings, WalSettings
from strandline.errors import Unavailable
from strandline.log.files.pins import Pins
from tests.unit.backup.world import PATH, BackupWorld, look

PINS = f"{PATH}/pins"


def test_files_that_a_backup_needs_stay_while_it_is_taken():
    world = BackupWorld(retained_bytes=0)
    topic = world.fill()
    expected = look(world.store)

    def go_on(operation: str, key: str) -> None:
        del key
        if operation == "put_stream":
            for _ in range(20):
                topic.append(b"later")
            world.clock.advance(0.001)
            world.store.checkpoint()

    world.place.on_call = go_on
    world.backups.create(PATH)
    world.place.on_call = None

    assert world.restored("/restored") == expected
    assert len(world.disk.list_dir(f"{PATH}/meta")) > 2
    world.store.checkpoint()
    assert len(world.disk.list_dir(f"{PATH}/meta")) == 2
    assert world.disk.list_dir(PINS) == []


def test_lake_files_that_a_backup_needs_stay_while_it_is_taken():
    world = BackupWorld(lake=True)
    topic = world.fill()
    world.store.relocate()
    expected = look(world.store)

    def delete_most(operation: str, key: str) -> None:
        del key
        if operation == "put_stream" and topic.statistics().earliest_seq == 1:
            topic.delete(before=topic.head_seq)
            for _ in range(4):
                world.clock.advance(90_000)
                world.store.relocate()

    world.place.on_call = delete_most
    world.backups.create(PATH, lake=world.lake)
    world.place.on_call = None

    assert topic.statistics().earliest_seq > 1
    assert world.restored("/restored") == expected


def test_a_dead_pin_holds_nothing():
    world = BackupWorld(retained_bytes=0)
    world.fill()
    holding = Pins(world.disk, PINS).hold()
    holding.__enter__()
    world.disk = world.disk.kill()
    world.store = world.open()

    for _ in range(4):
        world.store.topic("t").append(b"x")
        world.store.checkpoint()

    assert world.disk.list_dir(PINS) == []
    assert len(world.disk.list_dir(f"{PATH}/meta")) == 2


def test_who_may_not_pin_begins_again_when_files_have_gone():
    world = BackupWorld(retained_bytes=0)
    topic = world.fill()
    rounds = 0

    def go_on(operation: str, key: str) -> None:
        nonlocal rounds
        if operation == "put_stream" and "segments/" in key and rounds < 2:
            rounds += 1
            for _ in range(3):
                topic.delete(before=topic.head_seq)
                topic.append([b"later"] * 20)
                world.clock.advance(0.001)
                world.store.checkpoint()

    def forbid(operation: str, path: str) -> None:
        if operation == "lock" and path.startswith(PINS):
            raise PermissionError(13, "Permission denied", path)

    world.place.on_call = go_on
    world.disk.on_call = forbid
    world.backups.create(PATH)
    world.disk.on_call = world.place.on_call = None

    assert rounds == 2
    assert world.restored("/restored") == look(world.store)


def test_checkpoints_that_overtake_every_try_are_told():
    world = BackupWorld(retained_bytes=0)
    topic = world.fill()

    def overtake(operation: str, key: str) -> None:
        if operation == "put_stream" and "segments/" in key:
            topic.append(b"x")
            world.store.checkpoint()
            raise FileNotFoundError(2, "No such file", key)

    world.place.on_call = overtake

    with pytest.raises(Unavailable, match="faster than this one"):
        world.backups.create(PATH)

    assert world.backups.list() == []


def test_log_that_is_kept_for_backups_makes_no_checkpoint_due():
    settings = Settings(
        wal=WalSettings(file_size_first=8192, file_size_max=8192, retained_bytes=1 << 30),
        segment=SegmentSettings(checkpoint_bytes=8192),
    )
    world = BackupWorld()
    world.settings = settings
    world.store.close()
    world.store = world.open()
    topic = world.store.topic("t", durability="fsync")
    for _ in range(80):
        topic.append(b"x" * 1000)
    world.store.checkpoint()
    world.store.checkpoint()
    kept = len(world.disk.list_dir(f"{PATH}/wal/shard-00"))
    topic.append(b"news")

    due = world.store._checkpointer.is_due()

    assert kept > 8
    assert not due
