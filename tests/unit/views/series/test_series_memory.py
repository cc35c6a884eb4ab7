"""Promise: a series counts the memory that it takes, stays within what it was given, and gives back
what it is asked for."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc

import pytest

from strandline.config.settings import ViewSettings
from strandline.errors import MemoryPressure, Unavailable
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.series.fold import SeriesFold
from strandline.views.series.source_state import POINT_BYTES, SOURCE_BYTES, SourceState
from tests.unit.store.world import World
from tests.unit.views.series.series_world import host_of, leave_no_room, open_series, rebuild

SMALL = ViewSettings(memory_bytes=64 << 20)


def share_of(world: World):
    return world.store.views.registry.budget.share("series")


def test_the_size_of_a_source_is_what_python_says():
    sources = [SourceState(n + (1 << 40)) for n in range(100)]
    for source in sources:
        for n in range(1000):
            source.ats.append(n << 40)
            source.seqs.append(n << 40)
            source.kinds.append(n)
            source.payloads.append(None)

    measured = sum(
        sys.getsizeof(s) + sum(map(sys.getsizeof, (s.ats, s.seqs, s.kinds, s.payloads)))
        for s in sources
    )

    assert measured == pytest.approx(100 * (SOURCE_BYTES + 1000 * POINT_BYTES), rel=0.1)


def test_many_sources_take_as_much_memory_as_is_counted():
    world = World()
    gps = open_series(world.store, level=6)
    gps.append_many([("warm", 1, b"")] * 100)
    gc.collect()
    tracemalloc.start()
    before = share_of(world).used

    for first in range(0, 5000, 500):
        gps.append_many([(f"source-{n}", 1, b"") for n in range(first, first + 500)] * 3)
    host_of(world.store).fold.recount()
    gc.collect()
    sources = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(True, "*/views/series/*")]
    )
    tracemalloc.stop()

    taken = sum(found.size for found in sources.statistics("filename"))
    assert share_of(world).used - before == pytest.approx(taken, rel=0.25)


def test_sources_beyond_the_bound_leave_memory_and_are_still_read():
    world = World(views=SMALL)
    gps = open_series(world.store)
    leave_no_room(world.store)
    bound = host_of(world.store).world.ram_bytes // 4

    for first in range(0, 4000, 500):
        gps.append_many([(n, n, b"%d" % n) for n in range(first, first + 500)])

    with host_of(world.store).reading() as fold:
        assert fold.sources.payload_bytes <= bound
        assert fold.sources.size - fold.sources.payload_bytes <= bound
        assert 0 < len(fold.sources.hot) < 4000
    assert [gps.latest(n).payload for n in (0, 1999, 3999)] == [b"0", b"1999", b"3999"]
    assert gps.statistics().sources == 4000


def test_a_source_that_is_written_to_stays_in_memory():
    world = World(views=SMALL)
    gps = open_series(world.store)
    leave_no_room(world.store)

    for n in range(4000):
        gps.append("busy", n, b"")
        gps.append(n, n, b"")

    with host_of(world.store).reading() as fold:
        assert b"busy" in fold.sources.hot
        assert b"0" not in fold.sources.hot


def test_no_source_leaves_memory_while_the_share_has_room():
    world = World(views=SMALL)
    gps = open_series(world.store)
    sources = share_of(world).limit // 2 // (SOURCE_BYTES + 5 * (POINT_BYTES + 50))

    for at in range(5):
        gps.append_many([(n, at, b"%d" % n) for n in range(sources)])

    with host_of(world.store).reading() as fold:
        assert fold.sources.size > 4 * (host_of(world.store).world.ram_bytes // 4)
        assert len(fold.sources.hot) == sources
        assert fold.sources.evictions == 0


@pytest.mark.parametrize("memory_bytes", [32 << 20, 64 << 20])
@pytest.mark.parametrize("sources", [10, 4000])
@pytest.mark.parametrize("payload", [b"", b"p" * 300])
def test_a_series_never_takes_more_than_its_share(memory_bytes, sources, payload):
    world = World(views=ViewSettings(memory_bytes=memory_bytes))
    gps = open_series(world.store)
    share, points = share_of(world), 16_000

    for first in range(0, points, 1000):
        gps.append_many([(n % sources, n, payload) for n in range(first, first + 1000)])
        host_of(world.store).fold.recount()
        assert share.used <= share.limit

    assert share.use().refusals == 0
    assert len(gps.range(7)) == points // sources + (points % sources > 7)
    assert gps.statistics().sources == sources


def test_a_series_that_is_written_to_gets_the_memory_of_an_idle_one():
    world = World(views=SMALL)
    idle, busy = world.store.series("idle"), world.store.series("busy")
    share, budget = share_of(world), world.store.views.registry.budget
    at = 0
    while share.spare_bytes > 50_000:
        idle.append_many([(n, at, b"") for n in range(1000)])
        at += 1
        world.store.views.registry.host("series", world.store.topic("idle")).fold.recount()
    host = world.store.views.registry.host("series", world.store.topic("busy"))
    minimum = host.world.ram_bytes // 4 // SOURCE_BYTES

    for at in range(6):
        busy.append_many([(n, at, b"") for n in range(4 * minimum)])
        host.fold.recount()
        budget.run_once()

    assert len(host.fold.sources.hot) > 2 * minimum
    assert idle.latest(7) is not None


def test_all_that_was_counted_is_given_back_with_the_fold():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n % 50, n, b"") for n in range(5000)])
    rebuild(world.store)
    before = host_of(world.store).fold.recount()

    for _ in range(3):
        rebuild(world.store)

    assert host_of(world.store).fold.recount() == share_of(world).used == before


def test_the_share_can_ask_for_memory_back():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n, n, b"") for n in range(5000)])
    share = share_of(world)
    host_of(world.store).fold.recount()
    before = share.used

    (evict,) = share._evictors
    freed = evict(1 << 30)

    assert share.used == before - freed
    assert freed > 1000 * SOURCE_BYTES
    assert len(gps.range_all()) == 5000


def test_a_fold_that_could_not_be_loaded_frees_nothing():
    world = World()
    open_series(world.store)
    host = host_of(world.store)

    assert SeriesFold(host.fold.config, host.world).evict(1000) == 0


def test_memory_that_cannot_be_freed_is_nobody_elses_failure_and_nothing_is_lost(monkeypatch):
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n % 50, n, b"%d" % n) for n in range(5000)])
    expected = gps.range_all()
    (evict,) = share_of(world)._evictors

    def failing(self, *_):
        raise Unavailable("the disk is failing")

    for name in ("put", "put_many"):
        with monkeypatch.context() as patched:
            patched.setattr(PagedMap, name, failing)
            assert evict(1 << 30) == 0

    assert gps.range_all() == expected
    assert evict(1 << 30) > 0
    assert gps.range_all() == expected


def test_a_view_that_is_busy_gives_nothing_back_and_nobody_waits():
    world = World()
    gps = open_series(world.store)
    gps.append("bus", 1, b"")
    (evict,) = share_of(world)._evictors
    host = host_of(world.store)
    freed = []

    with host.lock:
        asking = threading.Thread(target=lambda: freed.append(evict(1000)))
        asking.start()
        asking.join(30)

    assert freed == [0]


def test_an_append_without_memory_is_refused_and_can_be_repeated():
    world = World()
    gps = open_series(world.store)
    share = share_of(world)
    much = share.limit * 3
    share.charge(much)

    with pytest.raises(MemoryPressure):
        gps.append("bus", 1, b"")
    share.release(much)
    gps.append("bus", 1, b"")

    assert len(gps.range("bus")) == 1
