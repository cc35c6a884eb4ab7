"""Promise: a checkpoint stores at most one and a half times what is alive in it, however often the
pages were written before."""

from __future__ import annotations

import random

import pytest

from strandline.errors import ObjectStoreUnreachable
from strandline.reservoir import object_keys
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.btree.spill import Spill
from strandline.testing.sim_disk import SimDisk
from tests.unit.reservoir.small_reservoir import FULL, World, commit, pages_of

PAGE_BYTES = 1024
FILE_BYTES = 32 * 1024
STORED_MAX = 1.5


def stored_bytes(world: World) -> int:
    return sum(len(each.data) for each in world.objects.snapshot().values())


@pytest.mark.parametrize("spill_bytes", [0, 32 * 1024, 64 * 1024])
@pytest.mark.parametrize("ram_bytes", [0, 64 * 1024])
@pytest.mark.parametrize("order", ["ascending", "descending", "any", "batches"])
def test_a_map_larger_than_memory_and_spill_stores_little_more_than_its_data(
    order, ram_bytes, spill_bytes
):
    world = World(file_bytes=FILE_BYTES)
    drawn = random.Random(7)
    pairs = [(drawn.randbytes(8), drawn.randbytes(100)) for _ in range(4000)]
    if order in ("ascending", "descending"):
        pairs.sort(reverse=order == "descending")
    spill = None
    if spill_bytes:
        spill = Spill("/spill", bytes_max=spill_bytes, file_bytes=32 * 1024, disk=SimDisk())
    with world.open() as reservoir, reservoir.session() as session:
        made = PagedMap(session, page_bytes=PAGE_BYTES, ram_bytes=ram_bytes, spill=spill)
        if order == "batches":
            for first in range(0, len(pairs), 500):
                made.put_many(pairs[first : first + 500])
        else:
            for key, value in pairs:
                made.put(key, value)
        made.checkpoint(reservoir)

        data = sum(len(key) + len(value) for key, value in pairs)
        assert stored_bytes(world) <= STORED_MAX * data
        made.check()
        assert list(made.range()) == sorted(pairs)
    with world.open() as reservoir, reservoir.session() as session:
        assert list(PagedMap(session, page_bytes=PAGE_BYTES).range()) == sorted(pairs)
        assert reservoir.recovered.left_over == 0


@pytest.mark.parametrize("seed", range(8))
def test_pages_written_again_before_a_checkpoint_are_not_stored_twice(seed):
    drawn = random.Random(seed)
    world = World(compression=drawn.choice(["none", "zstd"]))
    model: dict[int, bytes] = {}
    with world.open() as reservoir:
        for _ in range(4):
            for _ in range(3):
                changes = {
                    drawn.randrange(1, 50): drawn.randbytes(drawn.randrange(100, 200))
                    for _ in range(drawn.randrange(120))
                }
                with reservoir.session() as session:
                    for page_id, data in changes.items():
                        session.write(page_id, b"before")
                        session.write(page_id, drawn.randbytes(300))
                        session.write(page_id, data)
                    gone = drawn.sample(range(1, 50), 3)
                    for page_id in gone:
                        session.delete(page_id)
                    session.commit()
                model |= changes
                for page_id in gone:
                    model.pop(page_id, None)
            before = world.data_keys()
            reservoir.checkpoint()
            new = world.data_keys() - before
            placed = [reservoir.place(page_id) for page_id in model]
            for key in new:  # what this checkpoint stored and lists is mostly alive
                size = len(world.objects.snapshot()[key].data)
                alive = sum(
                    place.size for place in placed if object_keys.file_key(place.file_id) == key
                )
                assert alive > 0
                assert size <= STORED_MAX * alive + 64 + 12 * 50

            assert pages_of(reservoir) == model
    assert pages_of(world.open()) == model


def test_a_file_that_died_before_its_checkpoint_is_gone_after_it():
    world = World(uploads_waiting_max=9)
    with world.open() as reservoir, reservoir.session() as session:
        for number in range(5):
            session.write(1, FULL[:-1] + b"%d" % number)
        session.commit()
        reservoir.checkpoint()

        assert len(world.data_keys()) == 1
        assert reservoir.statistics().dead_bytes == 0
        assert reservoir.statistics().garbage_files == 0
        assert reservoir.read(1) == FULL[:-1] + b"4"
    assert world.open().read(1) == FULL[:-1] + b"4"


def test_a_checkpoint_that_fails_after_a_rewrite_can_be_repeated():
    world = World()
    with world.open() as reservoir:
        for number in range(3):
            commit(reservoir, dict.fromkeys(range(1, 9), FULL[:250] + b"%d" % number))
            commit(reservoir, dict.fromkeys(range(1, 9, 2), FULL[:250] + b"new"))
        world.objects.fail("create", how="before", key_contains=object_keys.CHECKPOINTS)
        with pytest.raises(ObjectStoreUnreachable):
            reservoir.checkpoint()
        expected = pages_of(reservoir)
        reservoir.checkpoint()

        assert pages_of(reservoir) == expected
        assert stored_bytes(world) < 1.5 * sum(map(len, expected.values())) + 3000
    with world.open() as reservoir:
        assert pages_of(reservoir) == expected
        assert reservoir.recovered.left_over == 0


def test_the_real_disk_of_a_spill_makes_no_difference(data_dir: str):
    world = World(file_bytes=FILE_BYTES)
    spill = Spill(data_dir, bytes_max=32 * 1024, file_bytes=32 * 1024)
    with world.open() as reservoir, reservoir.session() as session:
        made = PagedMap(session, page_bytes=PAGE_BYTES, ram_bytes=0, spill=spill)
        drawn = random.Random(3)
        for _ in range(2000):
            made.put(drawn.randbytes(8), drawn.randbytes(100))
        made.checkpoint(reservoir)

        assert stored_bytes(world) <= STORED_MAX * 2000 * 108
    spill.close()
