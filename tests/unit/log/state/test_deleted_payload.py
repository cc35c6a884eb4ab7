"""Promise: a delete reads no block for the size of a record, and ``payload_bytes`` is exact."""

from __future__ import annotations

import pytest

from strandline.config.settings import SegmentSettings
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.repair.inspect import inspect_store
from strandline.log.segments.codec import SHARED
from tests.unit.log.topic.cold_world import ColdWorld
from tests.unit.store.world import PATH, World

COUNT = 400
TOTAL = sum(range(COUNT))
TAG = len(b"tag-000")
DELETED = (7, 8, 90, 311)
LEFT = TOTAL + COUNT * TAG - sum(DELETED) - len(DELETED) * TAG


PLACES = {"log": 1 << 30, "shared": COUNT + 1, "sealed": 1}


def _world(place: str) -> World:
    """Records of 0 to 399 bytes. Those in a shared segment are sealed once there is one more."""
    segment = SegmentSettings(seal_records=PLACES[place], seal_bytes=1 << 30, block_records=64)
    world = World(segment=segment)
    topic = world.store.topic("t")
    for first in range(0, COUNT, 50):
        numbers = range(first, first + 50)
        topic.append_many(
            [bytes(number) for number in numbers], tags=[f"tag-{number:03d}" for number in numbers]
        )
    if place != "log":
        world.store.checkpoint()
        run = topic._state.runs[0]
        assert (run.segment.info.topic_id == SHARED) == (place == "shared")
    return world


def _seal(world: World) -> None:
    """Write the segment again, without the bytes of deleted records."""
    world.store.topic("t").append(b"")
    world.store.checkpoint()
    assert all(run.segment.info.topic_id != SHARED for run in world.store.topic("t")._state.runs)


def _delete(world: World) -> None:
    for number in DELETED:
        world.store.topic("t").delete(match=f"tag-{number:03d}")


def _size(world: World) -> int:
    return world.store.topic("t").statistics().payload_bytes


@pytest.mark.parametrize("place", PLACES)
def test_bytes_are_exact_after_deletes(place):
    world = _world(place)

    _delete(world)

    assert _size(world) == LEFT


def test_a_delete_in_a_sealed_segment_reads_no_block():
    world = _world("sealed")
    topic = world.store.topic("t")
    topic.delete(match="tag-000")  # reads the tags and the index
    cache = world.store._state.library.cache
    seen = cache.misses

    _delete(world)

    assert cache.misses == seen


@pytest.mark.parametrize("then", ["reopen", "kill"])
@pytest.mark.parametrize("is_sealed_before", [False, True])
def test_bytes_are_exact_after_segments_are_written_again(then, is_sealed_before):
    world = _world("shared")
    _delete(world)

    if is_sealed_before:
        _seal(world)
    getattr(world, then)()
    if not is_sealed_before:
        _seal(world)

    assert _size(world) == LEFT


def test_bytes_are_exact_below_a_floor_that_passed_deleted_records():
    world = _world("sealed")
    _delete(world)

    world.store.topic("t").delete(before=92)
    world.store.checkpoint()

    assert _size(world) == sum(range(91, COUNT)) - 311 + (COUNT - 92) * TAG


def test_a_cap_by_bytes_that_is_set_later_counts_exactly():
    world = _world("sealed")
    topic = world.store.topic("t")
    topic.delete(match="tag-063")  # larger than the average of its block
    exact = TOTAL + COUNT * TAG - 63 - TAG

    topic.alter(cap_bytes=exact + 1, discard="reject")
    topic.append(b"x")

    assert _size(world) == exact + 1


def test_bytes_are_exact_after_a_delete_between_a_root_and_the_change_of_segments(monkeypatch):
    world = _world("shared")
    apply = Sealer._apply

    def delete_and_apply(self: Sealer, plan: object) -> None:
        _delete(world)
        apply(self, plan)
        monkeypatch.undo()

    monkeypatch.setattr(Sealer, "_apply", delete_and_apply)
    _seal(world)

    assert _size(world) == LEFT


def test_bytes_are_exact_after_records_have_moved_into_the_lake():
    world = ColdWorld()
    topic = world.store.topic("t", durability="disk")
    for first in range(0, 300, 100):
        numbers = range(first, first + 100)
        topic.append_many(
            [bytes(number) for number in numbers], tags=[f"tag-{number:03d}" for number in numbers]
        )
        world.store.checkpoint()
    for number in (3, 31, 120):
        topic.delete(match=f"tag-{number:03d}")

    world.store.relocate()
    topic.delete(before=301)

    assert topic.statistics().cold is not None
    assert topic.statistics().payload_bytes == 0


def test_a_store_that_is_only_inspected_reports_exact_bytes():
    world = _world("sealed")
    _delete(world)
    world.kill()

    summary = inspect_store(world.disk, PATH)

    assert [topic.payload_bytes for topic in summary.topics] == [LEFT]


def test_damage_of_a_block_does_not_keep_its_records_from_being_deleted():
    world = _world("sealed")
    segment = world.store.topic("t")._state.runs[0].segment
    content = bytearray(world.disk.read(segment.path))
    content[2000] ^= 1
    world.disk.durable_replace(segment.path, bytes(content))

    _delete(world)

    assert world.store.topic("t").statistics().count == COUNT - len(DELETED)
    assert _size(world) == pytest.approx(LEFT, abs=len(DELETED) * 64)
