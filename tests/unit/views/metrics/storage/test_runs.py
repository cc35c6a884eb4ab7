"""Promise: points are found in any number of runs; merging makes few of many, and no difference."""

from __future__ import annotations

import random

import numpy as np
import pytest

from strandline.errors import Corrupt
from strandline.reservoir.btree.spill import UNIT_BYTES, Spill
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from strandline.views.metrics.query.field_query import FieldSelection
from strandline.views.metrics.query.field_query import points as asked
from strandline.views.metrics.storage import merge_runs
from strandline.views.metrics.storage.block_index import SERIES_NEXT_MAX
from strandline.views.metrics.storage.block_pages import BlockPages
from strandline.views.metrics.storage.merge_runs import select_runs
from strandline.views.metrics.storage.runs import PointRun, RunSpan
from tests.unit.views.metrics.metrics_world import SPACE, FoldWorld


def line(host: int, at: int, value: int) -> str:
    return f"cpu,host=h{host:03} v={value}i {at}"


def values(world: FoldWorld, **bounds: int) -> list[tuple[str, int, int]]:
    found = asked(world.fold, FieldSelection("cpu", **bounds))
    return [(row.tags["host"], row.at, row.value) for row in found]


def filled(world: FoldWorld, count: int, hosts: int, chance: random.Random) -> dict:
    """Points in a random order, with equal ones among them; what must be there."""
    expected = {}
    for n in range(count):
        host, at = chance.randrange(hosts), chance.randrange(count)
        world.lines(line(host, at, n))
        expected[f"h{host:03}", at] = n
    return expected


def run_of(points: int) -> PointRun:
    return PointRun(0, {1: RunSpan(points=points)})


@pytest.mark.parametrize("hosts", [1, 3, 40])
def test_points_are_the_same_wherever_they_lie(hosts):
    world = FoldWorld(tail=20)
    expected = filled(world, 600, hosts, random.Random(hosts))

    assert values(world) == [(*key, expected[key]) for key in sorted(expected)]
    assert world.fold.statistics()["runs"] < 25


def test_a_range_finds_only_its_points_in_every_run():
    world = FoldWorld(tail=20)
    expected = filled(world, 500, 4, random.Random(3))

    found = values(world, first=100, next=200)

    assert found == [(*key, expected[key]) for key in sorted(expected) if 100 <= key[1] < 200]


def test_blocks_of_a_run_never_reach_over_each_other():
    world = FoldWorld(tail=40)
    chance = random.Random(5)
    for n in range(900):
        world.lines(line(0 if chance.random() < 0.6 else chance.randrange(1, 9), n, n))

    runs = world.fold._runs
    for run in runs.runs:
        for field in run.spans:
            entries = runs.index.find(run.number, field, 0, SERIES_NEXT_MAX)
            read = [runs.read(entry) for entry in entries]
            keys = [
                (s, at)
                for p in read
                for s, at in zip(p.series.tolist(), p.at.tolist(), strict=True)
            ]
            assert keys == sorted(keys)


def test_runs_say_what_they_have():
    world = FoldWorld(tail=16)
    filled(world, 300, 5, random.Random(8))

    runs = world.fold._runs
    for run in runs.runs:
        for field, span in run.spans.items():
            entries = runs.index.find(run.number, field, 0, SERIES_NEXT_MAX)
            assert span.points == entries["count"].sum()
            assert span.blocks == len(entries)
            assert (span.min_at, span.max_at) == (entries["min_at"].min(), entries["max_at"].max())


def test_full_blocks_in_order_are_taken_over_unread():
    world = FoldWorld(tail=16, block_points=16)
    for at in range(16 * 7):
        world.lines(line(0, at, at))
    world.fold.flush()
    before = {int(page) for run in world.fold._runs.runs for page in _pages(world, run)}

    for at in range(16 * 7, 16 * 9):
        world.lines(line(0, at, at))

    after = {int(page) for run in world.fold._runs.runs for page in _pages(world, run)}
    assert len(world.fold._runs.runs) < 8
    assert before <= after


def test_pages_of_merged_blocks_are_dropped():
    world = FoldWorld(tail=16)
    filled(world, 1000, 30, random.Random(2))
    world.saved()

    used = {int(page) for run in world.fold._runs.runs for page in _pages(world, run)}
    merge = world.fold._merging.current
    if merge is not None:
        used |= {int(page) for page in _pages(world, merge.output)}
    stored = world.reservoir.page_ids(SPACE << 32, (SPACE + 1) << 32)
    assert {page & 0xFFFFFFFF for page in stored} == used


def test_a_merge_goes_on_after_a_restart(monkeypatch):
    monkeypatch.setattr(merge_runs, "SLICE_POINTS", 4)
    monkeypatch.setattr("strandline.views.metrics.fold.MERGE_POINTS_MIN", 1)
    monkeypatch.setattr("strandline.views.metrics.fold.MERGE_FACTOR", 1)
    world = FoldWorld(tail=8)
    chance, expected = random.Random(4), {}
    interrupted = 0
    for _ in range(40):
        for (host, at), value in filled(world, 9, 12, chance).items():
            expected[host, at] = value
        state = world.saved()
        interrupted += world.fold._merging.current is not None
        world.fold = world.loaded(state)

    assert interrupted > 3
    assert values(world) == [(*key, expected[key]) for key in sorted(expected)]


def test_eight_runs_of_a_size_become_one_and_larger_ones_stay():
    large, small = [run_of(5000)] * 7, [run_of(70)] * 8

    assert select_runs([*large, *small]) == small
    assert select_runs([*large, *small[:7]]) == []
    assert select_runs([run_of(5000), *large]) == [run_of(5000), *large]


def test_smaller_runs_in_between_are_merged_with_the_others():
    runs = [run_of(5000), run_of(3), *[run_of(5000)] * 7]

    assert select_runs([*runs, run_of(3)]) == runs


def test_runs_are_not_merged_beyond_their_bound():
    assert select_runs([run_of(merge_runs.POINTS_MAX // 4)] * 8) == []


def test_a_page_that_is_missing_is_noticed():
    world = FoldWorld(tail=16)
    filled(world, 40, 2, random.Random(1))
    world.saved()
    for page_id in world.reservoir.page_ids(SPACE << 32, (SPACE + 1) << 32):
        world.session.delete(page_id)

    with pytest.raises(Corrupt, match="missing"):
        values(world)


class TestPages:
    def open(self, *, ram_bytes: int, spill_units: int = 0) -> BlockPages:
        self.session = Reservoir(SimObjects(), start_jobs=False).session()
        self.spill = None
        if spill_units:
            size = spill_units * UNIT_BYTES
            self.spill = Spill("/spill", bytes_max=size, file_bytes=size, disk=SimDisk())
        return BlockPages(self.session, 5, next_number=1, spill=self.spill, ram_bytes=ram_bytes)

    @pytest.mark.parametrize("spill_units", [0, 3, 100])
    @pytest.mark.parametrize("ram_bytes", [0, 300, 1 << 20])
    def test_pages_are_found_wherever_they_have_gone(self, ram_bytes, spill_units):
        pages = self.open(ram_bytes=ram_bytes, spill_units=spill_units)
        kept = {pages.put(b"%d" % n * 20): b"%d" % n * 20 for n in range(20)}

        before = {number: pages.get(number) for number in kept}
        pages.save()
        after = {number: pages.get(number) for number in kept}

        assert before == after == kept
        assert pages.ram == 0
        assert not self.spill or len(self.spill) == 0

    def test_memory_stays_within_its_bound(self):
        pages = self.open(ram_bytes=1000, spill_units=1000)

        for _ in range(50):
            pages.put(bytes(200))

            assert pages.ram <= 1000 + 233

    def test_a_page_that_goes_before_a_save_is_never_written(self):
        pages = self.open(ram_bytes=1 << 20)
        gone, stays = pages.put(b"gone"), pages.put(b"stays")

        pages.drop(gone)
        pages.save()

        assert self.session.read(5 << 32 | gone) is None
        assert self.session.read(5 << 32 | stays) == b"stays"

    def test_the_session_learns_of_dropped_pages_at_the_save(self):
        pages = self.open(ram_bytes=1 << 20)
        number = pages.put(b"page")
        pages.save()

        pages.drop(number)

        assert self.session.read(5 << 32 | number) == b"page"
        pages.save()
        assert self.session.read(5 << 32 | number) is None


def _pages(world: FoldWorld, run: PointRun) -> np.ndarray:
    found = [
        world.fold._runs.index.find(run.number, field, 0, SERIES_NEXT_MAX)["page"]
        for field in run.spans
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=int)
