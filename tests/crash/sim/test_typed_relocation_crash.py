"""Promise (D12): a crash while a schema changes and files move leaves no wrong typed column.

Every file says by which schema it was written, and holds what that schema takes from its ``data``;
the newest schema in the lake becomes the topic's own.
"""

from __future__ import annotations

import random

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.config.settings import LakeSettings, Settings
from strandline.lake import object_keys
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.lineage import Entry
from tests.crash.sim.watch import crash_before_every_call, power_losses
from tests.crash.sim.world import LONG, World, settings

LAKE = LakeSettings(hot_segments=1, file_bytes=1, zone_rows=16, cache_bytes=20_000)
FIRST = {"n": "i64", "word": "string"}
SECOND = {"n": "f64", "at": "datetime"}


def _settings() -> Settings:
    return msgspec.structs.replace(settings(seal_records=20, own_bytes_min=1), lake=LAKE)


def _entry(number: int) -> Entry:
    fields = {"n": number, "word": f"w{number}" if number % 3 else None, "at": number}
    data = b"no JSON %d" % number if number % 5 == 0 else msgspec.json.encode(fields)
    return Entry(data, None, "eu" if number % 2 else "us")


def _world() -> World:
    """A topic with a file of the first schema, and segments that wait for the second."""
    world = World(3, options=_settings(), objects=SimObjects())
    world.create("large", durability="fsync", schema=FIRST)
    for batch in range(4):
        world.append("large", [_entry(batch * 25 + number) for number in range(25)])
        world.checkpoint()
        if batch == 1:
            world.relocate()
    return world


def _check_lake(world: World) -> list[int]:
    """Every live file is what its schema makes of its data; the versions that there are."""
    topic = world.topic("large")
    manifest = ManifestHistory(world.objects, bytes.fromhex(world.store.id), 1).newest().manifest
    schemas = {schema.version: schema for schema in manifest.schemas}
    assert manifest.schema.fields == topic.config.schema
    for file in manifest.files:
        shape = typed_columns_of(schemas[file.schema_version])
        content = world.objects.get(object_keys.data_key(1, file.name()))
        rows = pq.read_table(pa.BufferReader(content))
        assert rows.equals(shape.add_typed_columns(rows.select(SCHEMA.names)))
    return [file.schema_version for file in manifest.files]


def _change_and_move(world: World) -> None:
    world.topic("large").alter(schema=SECOND)
    world.delete("large", match="eu", before=26)
    world.relocate()


def test_a_change_of_schema_and_a_move_without_a_crash():
    world = _world()

    _change_and_move(world)

    assert _check_lake(world) == [2, 2, 2]


@pytest.mark.parametrize("kill", [False, True], ids=["power loss", "kill"])
def test_a_crash_at_any_step_loses_no_record(kill):
    world = _world()
    crash_before_every_call(world, kill=kill, samples=2 if LONG else 1)

    _change_and_move(world)

    assert world.states > 20


def test_a_store_goes_on_from_any_step_and_its_lake_is_right():
    world = _world()
    rng = random.Random(5)
    crashed: list[tuple[World, SimDisk, object]] = []

    def crash(operation: str, path: str) -> None:
        del operation, path
        kept = world.objects.snapshot()
        crashed.extend((world.branch(), after, kept) for after in power_losses(world.disk, rng, 1))

    world.disk.on_call = crash
    _change_and_move(world)

    assert crashed
    found = set()
    for branch, after, kept in crashed if LONG else crashed[::4]:
        branch.objects = SimObjects()
        branch.objects.restore(kept)
        branch.go_on(after, power_loss=True)
        found.add(branch.topic("large").config.schema_version)
        branch.relocate()
        _check_lake(branch)
        branch.topic("large").alter(schema=FIRST)
        branch.append("large", [_entry(number) for number in range(200, 230)])
        branch.checkpoint()
        branch.relocate()
        _check_lake(branch)
    assert found == {1, 2}
