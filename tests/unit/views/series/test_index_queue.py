"""Promise: the index writes in batches, becomes coarser under pressure and finer at rest, and drops
nothing; a map that fails in the middle neither loses points nor shows them twice."""

from __future__ import annotations

import pytest

from strandline.errors import Unavailable
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.series import index as module
from strandline.views.series.adaptive_spacing import CAPACITY, HIGH, LEVEL_MAX
from strandline.views.series.block import PointBounds
from strandline.views.series.index import PointIndex
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.source_state import SourceState
from tests.unit.reservoir.map_pages import MemoryPages
from tests.unit.store.world import World
from tests.unit.views.series.series_world import ats, host_of, leave_no_room, open_series

ALL = PointBounds(AT_MIN, 0, AT_MAX)


def make_index(pages: MemoryPages | None = None) -> PointIndex:
    pages = pages or MemoryPages()
    return PointIndex(PagedMap(pages, space=1, page_bytes=256), PagedMap(pages, space=2))


def fill(source: SourceState, count: int) -> None:
    """Points up to this number, from where the source ends."""
    for n in range(source.blocks * 16 + len(source.seqs), count):
        source.ats.append(n)
        source.seqs.append(n)
        source.kinds.append(0)
        source.payloads.append(None)


def test_single_points_are_written_in_batches_as_small_as_they_get():
    gps = open_series(World().store)
    waiting = set()

    for at in range(1000):
        gps.append("bus", at, b"")
        waiting.add(gps.statistics().pending)

    found = gps.statistics()
    assert max(waiting) == found.batch == 8
    assert found.level == 0


def test_an_index_at_rest_becomes_finer():
    world = World()
    gps = open_series(world.store, level=2)

    for at in range(64 * 32 * 12):
        gps.append_many([("bus", at, b"")] * 64)
        if gps.statistics().level == 0:
            break

    assert (gps.statistics().level, gps.statistics().scale_down) == (0, 2)


def test_an_index_under_pressure_becomes_coarser_and_drops_nothing():
    gps = open_series(World().store)
    longest = 0

    for first in range(0, 100_000, 10_000):
        gps.append_many([("bus", at, b"") for at in range(first, first + 10_000)])
        longest = max(longest, gps.statistics().pending)

    found = gps.statistics()
    assert found.scale_up > 0
    assert found.spacing > 16
    assert longest <= CAPACITY
    assert ats(gps.range("bus")) == list(range(100_000))


def test_a_full_queue_writes_a_batch_before_it_takes_more():
    index = make_index()
    index.tuning.level = 0
    source = SourceState(1)
    fill(source, 16 * (CAPACITY + 10))

    index.seal(source, len(source.ats))

    assert len(index.pending) <= CAPACITY
    assert index.full > 0
    assert len(index.select(source, ALL).ats) == 16 * (CAPACITY + 10)


def test_a_tail_from_a_coarse_time_is_cut_when_the_index_has_become_finer():
    world = World()
    gps = open_series(world.store, level=3)
    gps.append_many([("bus", at, b"") for at in range(200)])

    host_of(world.store).fold.index.tuning.level = 0
    lengths = []
    for at in range(200, 220):
        gps.append("bus", at, b"")
        with host_of(world.store).reading() as fold:
            lengths.append(len(fold.sources.find_readonly(b"bus").ats))

    # One block with each append, until the tail is as long as a fine one is.
    assert lengths[:4] == [200 + 1 - 16, 200 + 2 - 32, 200 + 3 - 48, 200 + 4 - 64]
    assert 16 <= lengths[-1] < 32
    assert ats(gps.range("bus")) == list(range(220))


def test_an_append_makes_at_most_one_block_and_writes_at_most_one_and_not_both():
    gps = open_series(World().store, level=2)
    steps = set()
    before = gps.statistics()

    for at in range(64 * 64 * 4):
        gps.append("bus", at, b"")
        found = gps.statistics()
        steps.add(found.pending - before.pending)
        before = found

    assert steps == {-1, 0, 1}
    assert found.queue_full == 0


def test_payloads_without_room_become_one_block_at_a_time():
    world = World()
    gps = open_series(world.store, level=6)
    for n in range(10):
        gps.append_many([(n, at, b"%100d" % at) for at in range(100)])
    leave_no_room(world.store)
    with host_of(world.store).reading() as fold:
        fold.sources._bytes_min = fold.sources.payload_bytes
    made = []

    for at in range(100, 110):
        before = gps.statistics().pending
        gps.append(0, at, b"%100d" % at)
        made.append(gps.statistics().pending - before)

    assert made == [1] + [0] * 9
    assert gps.statistics().points == 1010


def test_a_queue_that_fills_faster_than_it_empties_is_written_twice_as_fast():
    gps = open_series(World().store, inline_bytes=4096)
    waiting = []

    for at in range(3 * CAPACITY):
        gps.append("bus", at, b"%4096d" % at)
        waiting.append(gps.statistics().pending)

    assert HIGH <= max(waiting) <= HIGH + 1
    assert gps.statistics().queue_full == 0


def test_the_level_does_not_pass_its_end():
    index = make_index()
    index.tuning.level = LEVEL_MAX
    source = SourceState(1)
    fill(source, 4096 * 3)

    index.seal(source, len(source.ats))
    index.write_all()

    assert source.blocks == 3
    assert len(index.select(source, ALL).ats) == 4096 * 3


@pytest.mark.parametrize(("nth", "some"), [(1, False), (8, True), (15, True)])
def test_a_batch_that_fails_in_the_middle_is_neither_lost_nor_seen_twice(nth, some):
    pages = MemoryPages()
    blocks = PagedMap(pages, space=1, page_bytes=256, ram_bytes=0)
    index = PointIndex(blocks, PagedMap(pages, space=2))
    sources = [SourceState(number) for number in range(10)]
    index.tuning.level = 0
    for turn in (1, 2):
        for source in sources:
            fill(source, 16 * 10 * turn)
            index.seal(source, len(source.ats))
        if turn == 1:
            index.write_all()
    index.tuning.level = 4
    before = len(blocks)
    pages.fail("write", nth)

    with pytest.raises(Unavailable):
        index.write_batch()

    assert (len(blocks) > before) == some
    for source in sources:
        assert index.select(source, ALL).seqs == list(range(320))
    index.write_all()
    for source in sources:
        assert index.select(source, ALL).seqs == list(range(320))
    assert len(blocks) == sum(source.blocks for source in sources) == 200


@pytest.mark.parametrize("nth", [1, 3, 6])
def test_a_sweep_that_fails_in_the_middle_can_be_repeated(nth):
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"") for at in range(2000)])
    gps.append_many([("bus", at, b"") for at in range(100)])
    gps.wait_for_pending()
    host = host_of(world.store)
    calls = []

    def failing(key, _delete=PagedMap.delete):
        calls.append(key)
        if len(calls) == nth:
            raise Unavailable("the map fails")
        return _delete(host.fold.index._blocks, key)

    host.fold.index._blocks.delete = failing
    with pytest.raises(Unavailable):
        gps.run_retention(1003)
    during = ats(gps.range("bus"))
    gps.run_retention(1003)

    assert during == ats(gps.range("bus")) == list(range(1003, 2000))
    found = gps.statistics()
    assert (found.points, found.unreleased) == (997, 1103)


def test_keys_of_the_index_sort_as_their_numbers_do():
    numbers = [
        (n, at, seq) for n in (0, 1, 256) for at in (AT_MIN, -1, 0, AT_MAX) for seq in (1, 9)
    ]

    keys = [module.key_of(*each) for each in numbers]

    assert keys == sorted(keys)
