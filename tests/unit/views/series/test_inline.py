"""Promise: small payloads are read without the log, large ones from it, and nobody can tell which.

What is read is what the log has, after a restart and after folding again too; and sources with
payloads in memory stay within their bound.
"""

from __future__ import annotations

import sys

import pytest

from strandline.config.settings import ViewSettings
from strandline.errors import Invalid
from strandline.views.series.block import SeriesPoints
from strandline.views.series.source_state import (
    BLOCK_BYTES,
    POINT_BYTES,
    SOURCE_BYTES,
    TAIL_BYTES,
    SourceState,
    memory_of,
)
from strandline.views.series.source_table import SEAL_MIN, SEAL_SHORT
from tests.unit.store.world import World
from tests.unit.views.series.series_world import (
    ats,
    host_of,
    leave_no_room,
    open_series,
    payloads,
    rebuild,
)

SMALL, LARGE = 256, 257
"""Payloads of these sizes are just kept with the index, and just not."""
KINDS_OF_POINTS = pytest.mark.parametrize(
    "sizes", [(SMALL,), (LARGE,), (0, SMALL, LARGE, 1), (0,)], ids=["small", "large", "mixed", "no"]
)
ENDS = pytest.mark.parametrize("end", ["reopen", "kill", "saved and killed", "folded again"])


def fill(world: World, sizes: tuple[int, ...], **options: object):
    """Points of three sources in the map, in the queue, in tails, and late ones."""
    gps = open_series(world.store, **options)
    made = [(n % 3, n * 2, (b"%d" % n * 300)[: sizes[n // 3 % len(sizes)]]) for n in range(300)]
    for first in range(0, 300, 60):
        gps.append_many(made[first : first + 60], version=first)
        if first in (120, 180):
            gps.wait_for_pending()
    gps.append_many([(source, at + 1, payload[at % 4 * 50 :]) for source, at, payload in made[:20]])
    with host_of(world.store).reading() as fold:
        source = fold.sources.find_readonly(b"0")
        assert source.blocks > len(fold.index.pending.of(source.number)) > 0
        assert source.ats
        assert source.late
    return gps


def walks_of(world: World, monkeypatch) -> list[int]:
    """The seqs that are asked of the log from here on."""
    seqs: list[int] = []
    topic = host_of(world.store).topics[0]
    pick = topic.get_many
    monkeypatch.setattr(topic, "get_many", lambda wanted: seqs.extend(wanted) or pick(wanted))
    return seqs


def in_the_log(world: World) -> dict[int, bytes]:
    return {record.seq: record.data for record in world.store.topic("gps").read(0, 10_000).records}


def test_small_payloads_are_read_without_the_log(monkeypatch):
    world = World()
    gps = fill(world, (100, 0))
    walks = walks_of(world, monkeypatch)

    gps.range(1)
    gps.range([0, 2], 30, 90)
    gps.range_all(limit=7)
    gps.visit(lambda _: True)
    gps.latest(1)
    gps.read_latest()
    gps.range_from_available([0], 50, 20)

    assert walks == []


def test_of_mixed_points_only_large_payloads_come_from_the_log(monkeypatch):
    world = World()
    gps = fill(world, (0, SMALL, LARGE, 1))
    log = in_the_log(world)
    walks = walks_of(world, monkeypatch)

    found = gps.range_all()

    assert sum(map(len, found.values())) == 320
    assert walks == sorted(seq for seq, data in log.items() if len(data) > 256)


@KINDS_OF_POINTS
def test_what_is_read_is_what_the_log_has(sizes):
    world = World()
    gps = fill(world, sizes)
    log = in_the_log(world)

    found = [point for points in gps.range_all().values() for point in points]

    assert {point.seq: point.payload for point in found} == log
    assert {point.version for point in found} == {0, 60, 120, 180, 240}
    for source, newest in gps.read_latest().items():
        assert newest == gps.latest(source) == gps.range(source)[-1]


@ENDS
@KINDS_OF_POINTS
def test_payloads_are_the_same_after_a_restart(sizes, end):
    world = World()
    gps = fill(world, sizes)
    before, digest = gps.range_all(), host_of(world.store).digest()

    if end == "folded again":
        rebuild(world.store)
    else:
        if end == "saved and killed":
            world.store.checkpoint()
        world.reopen() if end == "reopen" else world.kill()
        gps = open_series(world.store)

    assert gps.range_all() == before
    assert {source: gps.latest(source) for source in before} == gps.read_latest()
    assert host_of(world.store).digest() == digest


def test_small_payloads_need_no_log_after_a_restart_either(monkeypatch):
    world = World()
    expected = fill(world, (100,)).range_all()
    world.reopen()
    gps = open_series(world.store)
    walks = walks_of(world, monkeypatch)

    assert gps.range_all() == expected
    assert walks == []


def test_the_digest_does_not_tell_which_payloads_are_inline():
    digests = set()

    for inline_bytes in (0, 3, 256):
        world = World()
        fill(world, (1, 5, 300), inline_bytes=inline_bytes)
        digests.add(host_of(world.store).digest())

    assert len(digests) == 1


@pytest.mark.parametrize(("inline_bytes", "kept"), [(0, 0), (9, 2), (10, 3), (11, 4)])
def test_the_option_says_which_payloads_are_kept(monkeypatch, inline_bytes, kept):
    world = World()
    gps = open_series(world.store, inline_bytes=inline_bytes)
    gps.append_many([("bus", size, b"x" * size) for size in (0, 9, 10, 11)])
    walks = walks_of(world, monkeypatch)

    found = gps.range("bus")

    assert payloads(found) == [b"x" * size for size in (0, 9, 10, 11)]
    assert len(walks) == 4 - kept


def test_other_options_fold_again_and_change_nothing_that_is_read(monkeypatch):
    world = World()
    gps = fill(world, (100,), inline_bytes=0)
    before, digest = gps.range_all(), host_of(world.store).digest()

    world.store.views.alter("series", "gps", inline_bytes=100)

    assert gps.range_all() == before
    assert host_of(world.store).digest() == digest
    walks = walks_of(world, monkeypatch)
    gps.range_all()
    assert walks == []


@pytest.mark.parametrize("inline_bytes", [-1, 4097])
def test_an_option_that_cannot_be_is_refused(inline_bytes):
    with pytest.raises(Invalid, match="inline_bytes is"):
        open_series(World().store, inline_bytes=inline_bytes)


def test_a_buffer_that_its_owner_may_change_later_is_refused():
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="bytearray"):
        gps.append("bus", 1, bytearray(b"before"))

    assert gps.range("bus") == []


@pytest.mark.parametrize("payload", [None, 5, "text"])
def test_a_payload_that_is_not_bytes_is_refused_by_the_topic(payload):
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="not bytes"):
        gps.append_many([("bus", 1, b""), ("bus", 2, payload)])

    assert gps.range("bus") == []


@KINDS_OF_POINTS
def test_retention_cuts_a_block_and_leaves_each_point_its_payload(monkeypatch, sizes):
    world = World()
    gps = fill(world, sizes)
    expected = {source: gps.range(source, 36) for source in range(3)}
    log = in_the_log(world)
    large = [p.seq for points in expected.values() for p in points if len(log[p.seq]) > 256]

    gps.run_retention(36)
    walks = walks_of(world, monkeypatch)
    found = gps.range(range(3))

    assert expected[0][0].at == 36
    assert found == expected
    assert walks == sorted(large)


def test_payloads_of_late_points_are_not_counted_as_memory():
    world = World()
    gps = fill(world, (100,))

    with host_of(world.store).reading() as fold:
        kept = sum(sum(memory_of(source.payloads)) for source in fold.sources.hot.values())
        assert fold.sources.payload_bytes == kept > 0
    assert gps.statistics().late_arrivals == 20


def test_points_out_of_order_keep_their_own_payloads():
    gps = open_series(World().store, jitter=1000)

    gps.append_many([("bus", n * 7 % 20, b"%d" % (n * 7 % 20)) for n in range(20)])
    gps.append_many([("bus", n * 7 % 20, b"%d" % (n * 7 % 20)) for n in range(20)])

    assert payloads(gps.range("bus")) == [b"%d" % (n // 2) for n in range(40)]


def test_large_tails_become_blocks_of_bounded_size():
    world = World()
    gps = open_series(world.store, level=8)
    for first in range(0, 1000, 100):
        gps.append_many([("bus", at, b"%200d" % at) for at in range(first, first + 100)])

    with host_of(world.store).reading() as fold:
        source = fold.sources.find_readonly(b"bus")
        assert TAIL_BYTES - BLOCK_BYTES <= source.payload_bytes < TAIL_BYTES
        assert source.blocks >= (1000 * 200 - TAIL_BYTES) // BLOCK_BYTES
    assert payloads(gps.range("bus")) == [b"%200d" % at for at in range(1000)]


def test_the_memory_of_payloads_is_what_python_says():
    world = World()
    gps = open_series(world.store, level=6)
    gps.append_many([(n % 50, n, b"%d" % n * (n % 40)) for n in range(2500)])
    rebuild(world.store)  # so that every payload is an object of its own

    with host_of(world.store).reading() as fold:
        sources = list(fold.sources.hot.values())
        counted = fold.sources.size - len(sources) * (SOURCE_BYTES - sys.getsizeof([]))
    measured = sum(
        sum(map(sys.getsizeof, (s.ats, s.seqs, s.kinds, s.payloads)))
        + sum(map(sys.getsizeof, filter(None, s.payloads)))
        for s in sources
    )

    assert sum(len(s.ats) for s in sources) * POINT_BYTES < counted / 2
    assert counted == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("sources", [20, 300, 500])
def test_payloads_stay_within_their_bound_and_push_no_source_out_of_memory(sources):
    world = World(views=ViewSettings(memory_bytes=64 << 20))
    gps = open_series(world.store, level=6)
    leave_no_room(world.store)
    bound = host_of(world.store).world.ram_bytes // 4

    for first in range(0, 10_000, 500):
        gps.append_many([(n % sources, n, b"%200d" % n) for n in range(first, first + 500)])

        with host_of(world.store).reading() as fold:
            assert fold.sources.payload_bytes <= bound
    with host_of(world.store).reading() as fold:
        assert fold.sources.payload_bytes > bound // 2
        assert len(fold.sources.hot) == sources
    assert payloads(gps.range(7)) == [b"%200d" % n for n in range(7, 10_000, sources)]


@pytest.mark.parametrize(("points", "from_the_log"), [(SEAL_SHORT - 1, SEAL_SHORT - 1), (40, 0)])
def test_without_room_short_tails_leave_their_payloads_to_the_log(
    monkeypatch, points, from_the_log
):
    world = World()
    gps = open_series(world.store, level=6)
    gps.append_many([("bus", at, b"%200d" % at) for at in range(points)])
    leave_no_room(world.store)

    with host_of(world.store).reading() as fold:
        fold.sources._bytes_min = fold.sources.payload_bytes - 1
        fold.sources.shrink()
        assert fold.sources.payload_bytes <= fold.sources._bytes_min
        assert fold.sources.find_readonly(b"bus").blocks == (0 if from_the_log else 1)
    walks = walks_of(world, monkeypatch)

    assert payloads(gps.range("bus")) == [b"%200d" % at for at in range(points)]
    assert len(walks) == from_the_log


def test_of_a_source_in_use_a_long_tail_is_given_back_and_its_end_stays():
    world = World()
    gps = open_series(world.store, level=6)
    gps.append_many([("bus", at, b"%200d" % at) for at in range(64)])

    with host_of(world.store).reading() as fold:
        fold.evict(1000)
        source = fold.sources.hot[b"bus"]
        assert len(source.ats) == SEAL_MIN
    assert ats(gps.range("bus")) == list(range(64))


def test_memory_that_is_asked_back_includes_payloads():
    world = World()
    gps = open_series(world.store, level=6)
    gps.append_many([(n % 20, n, b"%200d" % n) for n in range(2000)])
    expected = gps.range_all()

    with host_of(world.store).reading() as fold:
        before = fold.sources.payload_bytes
        fold.evict(1 << 30)
        left = fold.sources.payload_bytes

    assert before > 2000 * 200
    assert left == 0
    assert gps.range_all() == expected
    assert ats(gps.range(3))[-1] == 1983


def test_a_short_tail_leaves_memory_with_its_payloads_and_comes_back_with_them():
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"%100d" % at) for at in range(10)])

    with host_of(world.store).reading() as fold:
        before = fold.sources.payload_bytes
        fold.evict(1 << 30)
        away = fold.sources.payload_bytes
        fold.sources.find(b"bus")
        back = fold.sources.payload_bytes

    assert (away, back) == (0, before)
    assert payloads(gps.range("bus")) == [b"%100d" % at for at in range(10)]


def test_a_block_takes_only_as_many_payloads_as_its_bound_allows():
    source = SourceState(1)
    kept = [b""] * 10 + [b"%4000d" % n for n in range(10)]
    source.replace_tail(SeriesPoints(list(range(20)), list(range(20)), [0] * 20, kept))

    taken = [len(source.first(20).ats)]
    source.drop_first(taken[0])
    taken.append(len(source.first(20).ats))

    assert taken == [11, 1]
    assert source.payload_bytes == sum(memory_of(kept[11:]))


def test_memory_is_asked_for_payloads_that_are_kept_and_for_no_others(monkeypatch):
    world = World()
    gps = open_series(world.store)
    share = host_of(world.store).world.share
    asked: list[int] = []
    admit = share.admit
    monkeypatch.setattr(share, "admit", lambda size: asked.append(size) or admit(size))

    for payload in (b"", b"x" * SMALL, b"x" * LARGE):
        gps.append("bus", 1, payload)
        gps.append_many([("bus", 1, payload)] * 10)

    nothing, ten_nothings, small, ten_small, large, ten_large = asked
    assert small - nothing == sum(memory_of([b"x" * SMALL]))
    assert ten_small - ten_nothings == 10 * (small - nothing)
    assert (large, ten_large) == (nothing, ten_nothings)
