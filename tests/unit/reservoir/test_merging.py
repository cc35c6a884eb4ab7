"""Promise: small checkpoints are merged from memory, which is bounded; that costs no request."""

from __future__ import annotations

import random

import pytest

from strandline.config.settings import ReservoirSettings
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.local import FolderObjects
from strandline.reservoir.reservoir import Reservoir
from tests.unit.reservoir.small_reservoir import World, commit, pages_of


def checkpoints(reservoir: Reservoir, count: int, *, size: int = 20) -> dict[int, bytes]:
    """One small page in each; the pages that are there in the end."""
    drawn = random.Random(count)
    pages = {}
    for _ in range(count):
        page_id = drawn.randrange(1, 50)
        pages[page_id] = drawn.randbytes(drawn.randrange(size))
        commit(reservoir, {page_id: pages[page_id]})
        reservoir.checkpoint()
    return pages


@pytest.mark.parametrize("snapshot_interval", [1, 4, 20])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_many_small_checkpoints_cost_a_put_each_and_no_get(snapshot_interval, compression):
    world = World(file_bytes=20_000, snapshot_interval=snapshot_interval, compression=compression)
    with world.open() as reservoir:
        before = reservoir.requests()
        pages = checkpoints(reservoir, 200)
        asked = reservoir.requests() - before

        assert (asked.puts, asked.gets, asked.lists) == (200, 0, 0)
        assert reservoir.statistics().files <= 2 * snapshot_interval + 6  # they were merged
        assert pages_of(reservoir) == pages
    assert pages_of(world.open()) == pages


def test_in_a_folder_of_this_machine_the_same(data_dir: str):
    settings = ReservoirSettings(file_bytes=20_000, snapshot_interval=4)
    with Reservoir(FolderObjects(data_dir, OsDisk()), settings=settings) as reservoir:
        before = reservoir.requests()
        pages = checkpoints(reservoir, 60)
        asked = reservoir.requests() - before

        assert (asked.puts, asked.gets) == (60, 0)
        assert reservoir.statistics().files <= 14
        assert reservoir.statistics().kept_bytes == 0
    with Reservoir(FolderObjects(data_dir, OsDisk()), settings=settings) as reservoir:
        assert pages_of(reservoir) == pages


def test_checkpoints_of_an_earlier_opening_are_fetched_once():
    world = World(file_bytes=20_000, snapshot_interval=4)
    with world.open() as reservoir:
        pages = checkpoints(reservoir, 10)
        files = reservoir.statistics().files
    with world.open() as reservoir:
        before = reservoir.requests()
        pages |= checkpoints(reservoir, 100)
        asked = reservoir.requests() - before

        assert 0 < asked.gets <= files
        assert pages_of(reservoir) == pages


@pytest.mark.parametrize("size", [10, 300, 900])
def test_what_is_kept_to_be_merged_is_bounded_and_only_saves_requests(size):
    world = World(file_bytes=4000, snapshot_interval=10)
    with world.open() as reservoir:
        pages: dict[int, bytes] = {}
        for number in range(60):
            pages |= checkpoints(reservoir, 1 + number % 3, size=size)
            assert reservoir.statistics().kept_bytes <= 2000

        assert pages_of(reservoir) == pages
    assert pages_of(world.open()) == pages


def test_a_file_without_a_live_page_is_not_kept():
    world = World(file_bytes=20_000, snapshot_interval=3, compact_share=0.4)
    with world.open() as reservoir:
        commit(reservoir, {1: b"x" * 5000})
        reservoir.checkpoint()
        assert reservoir.statistics().kept_bytes > 5000
        commit(reservoir, {1: b"small"})
        for _ in range(6):
            reservoir.checkpoint()

        assert reservoir.statistics().kept_bytes < 1000


def test_with_a_cache_nothing_is_kept_in_memory(data_dir: str):
    world = World(file_bytes=20_000, snapshot_interval=4)
    settings = ReservoirSettings(file_bytes=20_000, snapshot_interval=4)
    with Reservoir(
        world.objects, settings=settings, cache_folder=data_dir, disk=world.disk
    ) as reservoir:
        before = reservoir.requests()
        pages = checkpoints(reservoir, 40)

        assert (reservoir.requests() - before).gets == 0
        assert reservoir.statistics().kept_bytes == 0
        assert pages_of(reservoir) == pages
