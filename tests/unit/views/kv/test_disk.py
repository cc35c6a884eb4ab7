"""Promise: what a key-value view takes on disk follows from what is alive in it, not from how often
that was written."""

from __future__ import annotations

import random

from strandline.config.settings import (
    KIB,
    LakeSettings,
    ReservoirSettings,
    SegmentSettings,
    ViewSettings,
)
from strandline.testing.sim_disk import SimDisk
from strandline.views.kv.values import Delete
from strandline.views.view import ViewAppend
from tests.unit.store.world import PATH
from tests.unit.views.kv.world import NAME, World, digest, host_of, kv_of, rebuilt_digest

KEYS = 200
VALUE_BYTES = 500
ROUNDS = 40
LIVE_BYTES = KEYS * VALUE_BYTES

SEGMENT = SegmentSettings(
    seal_bytes=64 * KIB, own_bytes_min=1, seal_records=400, checkpoint_bytes=64 * KIB
)
LAKE = LakeSettings(
    hot_segments=0, grace_s=0, manifest_retention_s=0, file_bytes=64 * KIB, zone_rows=100
)
VIEWS = ViewSettings(reservoir=ReservoirSettings(file_bytes=64 * KIB, retained_versions=0))


def _world() -> World:
    return World(segment=SEGMENT, lake=LAKE, views=VIEWS)


def _bytes_on_disk(disk: SimDisk, folder: str) -> int:
    total = 0
    for name in disk.list_dir(folder):
        path = f"{folder}/{name}"
        total += _bytes_on_disk(disk, path) if disk.is_dir(path) else len(disk.read(path))
    return total


def _settle(world: World) -> None:
    """All jobs of a store, as often as they need to be done with what there is."""
    for _ in range(3):
        world.clock.advance(1)
        world.store.checkpoint()
        world.store.relocate()
        world.store.sweep()


def _write_all(world: World, round_number: int) -> None:
    keys = [b"%04d" % number for number in range(KEYS)]
    values = [_value(round_number, number) for number in range(KEYS)]
    host_of(world.store).append(ViewAppend(0, values, keys))


def _value(round_number: int, number: int) -> bytes:
    """Bytes that do not become fewer by packing."""
    return random.Random(round_number * KEYS + number).randbytes(VALUE_BYTES)


def test_overwriting_again_and_again_does_not_fill_the_disk():
    world = _world()
    kv = kv_of(world.store, history=1)
    sizes = []

    for round_number in range(ROUNDS):
        _write_all(world, round_number)
        if round_number % 4 == 3:
            _settle(world)
            sizes.append(_bytes_on_disk(world.disk, PATH))

    assert world.store.topic(NAME).statistics().count == KEYS
    assert _bytes_on_disk(world.disk, f"{PATH}/lake") < 1.2 * LIVE_BYTES
    assert _bytes_on_disk(world.disk, f"{PATH}/segments") < LIVE_BYTES
    assert _bytes_on_disk(world.disk, f"{PATH}/views") < 3 * LIVE_BYTES
    assert sizes[-1] < 1.1 * sizes[3]
    assert kv.get(b"0007") == _value(ROUNDS - 1, 7)
    assert rebuilt_digest(world.store) == digest(world.store)


def test_what_was_overwritten_leaves_no_trace_in_the_lake():
    world = _world()
    kv_of(world.store, history=1)

    for round_number in range(12):
        _write_all(world, round_number)
        _settle(world)

    cold = world.store.topic(NAME).statistics().cold
    assert cold is not None
    assert cold.files <= 2


def test_a_key_that_never_changes_does_not_keep_the_others_versions():
    world = _world()
    kv = kv_of(world.store, history=1)
    kv.put("rock", b"still")

    for round_number in range(ROUNDS // 2):
        _write_all(world, round_number)
        _settle(world)

    assert world.store.topic(NAME).statistics().count == KEYS + 1
    assert _bytes_on_disk(world.disk, f"{PATH}/lake") < 1.5 * LIVE_BYTES
    assert kv.get("rock") == b"still"
    assert rebuilt_digest(world.store) == digest(world.store)


def test_keys_that_are_deleted_leave_the_disk():
    world = _world()
    kv = kv_of(world.store, grace_ms=1)
    for round_number in range(8):
        _write_all(world, round_number)
        _settle(world)
    full = _bytes_on_disk(world.disk, f"{PATH}/lake")

    kv.batch([Delete(b"%04d" % number) for number in range(KEYS)])
    _settle(world)
    _settle(world)

    assert world.store.topic(NAME).statistics().count == 1  # the word of forgetting
    assert full > 7 * LIVE_BYTES
    assert _bytes_on_disk(world.disk, f"{PATH}/lake") < LIVE_BYTES / 5
    assert list(kv.scan()) == []
