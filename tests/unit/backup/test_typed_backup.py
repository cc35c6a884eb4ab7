"""Promise (R1): a backup brings back a topic's schema, its records, and typed columns of files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.backup.backups import Backups
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.repair.verify import verify_store
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.unit.backup.world import BackupWorld, look

TARGET = "/restored"
FIRST = {"n": "i64"}
SECOND = {"n": "f64", "word": "string"}


def _filled() -> BackupWorld:
    world = BackupWorld(lake=True)
    topic = world.store.topic("t", durability="fsync", schema=FIRST)
    for batch in range(6):
        for number in range(20):
            topic.append(b'{"n": %d, "word": "w"}' % (batch * 20 + number))
        world.clock.advance(0.001)
        world.store.checkpoint()
        if batch == 3:
            world.store.relocate()
            world.tick()
            world.backup()
            topic.alter(schema=SECOND)
    world.store.relocate()
    world.tick()
    world.backup()
    return world


def test_a_restored_store_has_schema_records_and_typed_files():
    world = _filled()
    disk, lake = SimDisk(seed=3), SimObjects(clock=world.clock)

    Backups(world.place, disk=disk, clock=world.clock).restore(TARGET, lake=lake)

    with world.open(TARGET, disk=disk, lake=lake) as store:
        assert look(store) == world.seen[-1].topics
        assert store.topic("t").config.schema_version == 2
        manifest = ManifestHistory(lake, bytes.fromhex(store.id), 1).newest().manifest
    assert manifest.schema.fields == SECOND
    assert [file.schema_version for file in manifest.files] == [1, 1, 1, 2, 2]
    first, *_, last = [pq.read_table(pa.BufferReader(lake.get(key))) for key in _data(lake)]
    assert first["n"].to_pylist() == list(range(20))
    assert last["word"].to_pylist() == ["w"] * 20
    assert verify_store(disk, TARGET, world.settings, objects=lake).ok


def test_a_store_that_was_restored_to_before_a_change_counts_on():
    world = _filled()
    disk, lake = SimDisk(seed=3), SimObjects(clock=world.clock)
    moment = world.seen[0]

    Backups(world.place, disk=disk, clock=world.clock).restore(
        TARGET, lake=lake, at=moment.position
    )

    with world.open(TARGET, disk=disk, lake=lake) as store:
        topic = store.topic("t")
        assert topic.config.schema == FIRST
        topic.alter(schema={"n": "u64"})
        topic.append([b'{"n": 7}'] * 20)
        store.checkpoint()
        store.relocate()
        manifest = ManifestHistory(lake, bytes.fromhex(store.id), 1).newest().manifest
    assert manifest.schema.fields == {"n": "u64"}


def _data(lake: SimObjects) -> list[str]:
    return sorted(info.key for info in lake.list("topics") if "/data/" in info.key)
