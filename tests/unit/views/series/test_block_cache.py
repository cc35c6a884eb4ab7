"""Promise: what is read often is unpacked once, takes the memory that is counted, and is never
older than what the index has."""

from __future__ import annotations

import sys

import pytest

from strandline.views.series import block_cache as module
from strandline.views.series import index
from strandline.views.series.block import ALL, PointBounds, SeriesPoints, pack, squeeze, unpack
from strandline.views.series.block_cache import READ_ONCE_MAX, DecodedBlocks
from tests.unit.store.world import World
from tests.unit.views.series.series_world import ats, host_of, open_series, payloads


def block_of(first: int, count: int = 20) -> bytes:
    numbers = list(range(first, first + count))
    kept = [b"%100d" % n for n in numbers]
    return squeeze(pack(numbers, [n + (1 << 40) for n in numbers], [0] * count, kept))


@pytest.fixture
def unpacked(monkeypatch) -> list[bytes]:
    """Every block that is unpacked."""
    found = []

    def unpack_and_tell(block, *rest, **options):
        found.append(block)
        return unpack(block, *rest, **options)

    monkeypatch.setattr(module, "unpack", unpack_and_tell)
    monkeypatch.setattr(index, "unpack", unpack_and_tell)
    return found


def test_a_block_that_is_read_again_is_unpacked_no_more(unpacked):
    decoded = DecodedBlocks(1 << 20)
    parts = [PointBounds(3, 0, 5), ALL, PointBounds(19, 0, 40), PointBounds(50, 0, 60)]

    found = [decoded.within(block_of(0), bounds) for bounds in parts]

    assert found == [unpack(block_of(0), bounds) for bounds in parts]
    assert len(unpacked) == 2


def test_a_scan_over_everything_pushes_nothing_out(unpacked):
    decoded = DecodedBlocks(1 << 20)
    for _ in range(2):
        decoded.within(block_of(0), ALL)

    for first in range(100, 100 + 2 * READ_ONCE_MAX):
        decoded.within(block_of(first), ALL)
    scanned = len(unpacked)
    decoded.within(block_of(0), ALL)

    assert len(unpacked) == scanned
    assert len(decoded) == 1


def test_memory_stays_within_its_bound_and_what_was_not_read_for_longest_goes(unpacked):
    decoded = DecodedBlocks(100_000)

    for first in range(0, 2000, 20):
        for _ in range(2):
            decoded.within(block_of(first), ALL)
            decoded.within(block_of(5000), ALL)
        assert decoded.size <= 100_000 + 100 * READ_ONCE_MAX

    decoded.within(block_of(0), ALL)

    assert unpacked.count(block_of(5000)) == 2
    assert unpacked.count(block_of(0)) == 3


def test_the_memory_that_is_counted_is_what_python_says():
    decoded = DecodedBlocks(1 << 30)
    for first in range(0, 20_000, 20):
        for _ in range(2):
            decoded.within(block_of(first), ALL)

    measured = sys.getsizeof(decoded._blocks) + sum(
        sys.getsizeof(block) + _size_of(points) for block, points in decoded._blocks.items()
    )

    assert decoded.size == pytest.approx(measured, rel=0.1)


def _size_of(points: SeriesPoints) -> int:
    numbers = [*points.ats, *points.seqs]
    return sys.getsizeof(points) + sum(
        map(sys.getsizeof, (*points, *numbers, *filter(None, points.payloads)))
    )


def test_a_block_that_would_push_out_most_others_is_not_kept():
    decoded = DecodedBlocks(8 * 4096)

    for _ in range(3):
        decoded.within(block_of(0, count=100), ALL)

    assert len(decoded) == 0


def test_memory_that_is_asked_back_includes_blocks_that_are_read_often():
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"%100d" % at) for at in range(200)])
    for _ in range(3):
        gps.range("bus", 5, 10)

    with host_of(world.store).reading() as fold:
        kept = fold.index.decoded.size
        before = fold.recount()
        fold.evict(1)
        left = fold.index.decoded.size

    assert kept > 1000
    assert left == 0
    assert before >= kept
    assert ats(gps.range("bus", 5, 10)) == list(range(5, 11))


def test_a_block_that_retention_has_cut_is_not_seen_as_it_was():
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"%100d" % at) for at in range(200)])
    gps.wait_for_pending()
    for _ in range(3):
        gps.range("bus", 0, 40)

    gps.run_retention(7)

    assert ats(gps.range("bus", 0, 40)) == list(range(7, 41))


def test_of_a_source_that_is_not_in_memory_only_what_is_asked_for_is_unpacked(unpacked):
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"%100d" % at) for at in range(200)])
    with host_of(world.store).reading() as fold:
        fold.sources.save()
        fold.sources.hot.clear()
        fold.index.write_all()
        tail = fold.sources.find_readonly(b"bus").stored

    early = payloads(gps.range("bus", 17, 18))
    without_tail = list(unpacked)
    late = payloads(gps.range("bus", 198, 250))

    assert (early, late) == ([b"%100d" % 17, b"%100d" % 18], [b"%100d" % 198, b"%100d" % 199])
    assert len(without_tail) == 1
    assert tail not in without_tail
    assert unpacked[-1] == tail
