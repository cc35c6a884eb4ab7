"""Promise: what is below the floor is gone for good, from reads at once, from index and log soon;
what is not below it stays, whatever happens in between."""

from __future__ import annotations

import msgspec
import pytest

from strandline.config.view_config import SeriesConfig
from strandline.errors import Invalid
from strandline.views.series import index_trim, meta, retention
from strandline.views.view_types import SERIES
from tests.unit.store.world import World
from tests.unit.views.series.series_world import ats, host_of, open_series, rebuild


def filled(world: World, **options: object):
    """Two sources with blocks, tails and late arrivals, and a third that has ended early."""
    gps = open_series(world.store, **options)
    gps.append_many([(source, at, b"p") for at in range(200) for source in "ab"])
    gps.append_many([("a", at, b"late") for at in (20, 90, 110)])
    gps.append_many([("ended", at, b"") for at in range(40)])
    return gps


def live_seqs(gps) -> list[int]:
    return sorted(point.seq for points in gps.range_all().values() for point in points)


def test_what_is_below_the_floor_is_no_longer_seen():
    gps = filled(World())

    gps.run_retention(100)

    assert {name: ats(points) for name, points in gps.range_all().items()} == {
        b"a": sorted([*range(100, 200), 110]),
        b"b": list(range(100, 200)),
    }
    assert gps.earliest() == 100
    assert gps.range("a", 0, 99) == []


def test_the_index_forgets_what_is_below_the_floor():
    world = World()
    gps = filled(world)

    gps.run_retention(100)

    found = gps.statistics()
    assert (found.points, found.sources) == (201, 2)
    with host_of(world.store).reading() as fold:
        assert fold.sources.find_readonly(b"ended") is None
        assert fold.sources.find_readonly(b"a").late == 1
        assert fold.sources.find_readonly(b"a").oldest == 100
        assert len(fold.index._late) == 1
        stored = len(fold.index._blocks) + len(fold.index.pending)
        assert (
            stored
            == fold.sources.find_readonly(b"a").blocks + fold.sources.find_readonly(b"b").blocks
        )


def test_the_log_lets_go_of_all_that_is_below_the_floor_and_of_nothing_else():
    world = World()
    gps = filled(world)
    world.store.checkpoint()

    done = gps.run_retention(100)

    topic = world.store.topic("gps")
    assert done.floor == 100
    assert (done.released, done.waiting) == (2 * 100 + 2 + 40, 0)
    left = [record.seq for record in topic.read(0, 1000).records]
    assert left == [*live_seqs(gps), topic.head_seq]


def test_the_floor_of_the_topic_rises_to_the_first_record_that_is_left(monkeypatch):
    monkeypatch.setattr(retention, "_AT_ONCE", 7)
    world = World()
    gps = open_series(world.store)
    gps.append("quiet", 1000, b"")
    gps.append_many([("bus", at, b"") for at in range(100)])
    world.store.checkpoint()
    topic = world.store.topic("gps")

    assert gps.run_retention(50).released == 50
    before = topic.statistics().earliest_seq, topic._state.floor
    gps.run_retention(1001)

    assert before == (1, 1)
    assert topic.statistics().earliest_seq == 102  # the first floor, which no save has seen
    assert topic._state.floor == 102


def test_a_record_leaves_once_however_often_the_floor_rises():
    world = World()
    gps = filled(world)
    gps.wait_for_pending()
    world.store.checkpoint()
    released = []

    for floor in range(95, 120, 5):
        released.append(gps.run_retention(floor).released)
        world.store.checkpoint()

    floors = [0, 1, 1, 1, 1]
    points = [2 * 95 + 2 + 40, 2 * 5, 2 * 5, 2 * 5, 2 * 5 + 1]
    assert released == [a + b for a, b in zip(points, floors, strict=True)]
    assert gps.statistics().points == 2 * 85


def test_records_that_no_save_has_seen_wait_for_the_next_one():
    world = World()
    gps = filled(world)

    done = gps.run_retention(100)
    assert (done.released, done.waiting) == (0, 242)
    world.store.checkpoint()

    assert gps.statistics().unreleased == 0
    assert world.store.topic("gps").statistics().count == 201 + 1


@pytest.mark.parametrize("end", ["reopen", "kill"])
def test_records_that_wait_are_not_forgotten_by_a_restart(end):
    world = World()
    gps = filled(world)
    gps.run_retention(100)
    if end == "kill":
        host_of(world.store).save()  # handed over, and no version has it

    getattr(world, end)()
    gps = open_series(world.store)
    world.store.checkpoint()
    world.store.checkpoint()
    gps.run_retention()

    assert gps.statistics().unreleased == 0
    assert world.store.topic("gps").statistics().count == 201 + 1


def test_records_stay_as_long_as_another_view_may_need_them():
    world = World()
    gps = filled(world)
    world.store.kv("gps")
    world.store.checkpoint()

    done = gps.run_retention(100)
    world.store.checkpoint()

    assert (done.released, gps.run_retention().waiting) == (0, 242)
    assert world.store.topic("gps").statistics().count == 443 + 1
    assert len(gps.range("a")) == 101


def test_only_the_last_floor_stays_on_the_log():
    world = World()
    gps = open_series(world.store)
    gps.append("bus", 100, b"")
    for floor in (10, 20, 30):
        gps.run_retention(floor)
    world.store.checkpoint()
    gps.run_retention()

    assert [record.seq for record in world.store.topic("gps").read().records] == [1, 4]
    assert gps.statistics().floor == 30


def test_the_floor_never_falls():
    world = World()
    gps = filled(world)
    gps.run_retention(100)
    head = world.store.topic("gps").head_seq

    done = gps.run_retention(50)

    assert done.floor == 100
    assert world.store.topic("gps").head_seq == head


def test_a_lower_floor_on_the_log_does_not_matter():
    world = World()
    gps = filled(world)
    gps.run_retention(100)
    world.store.topic("gps").append(b"", meta=meta.encode(meta.FLOOR, 0, 50))
    world.store.checkpoint()
    gps.run_retention()

    rebuild(world.store)

    assert gps.statistics().floor == 100


def test_a_floor_that_was_swept_is_not_swept_again():
    world = World()
    gps = filled(world)
    gps.run_retention(100)
    looked = []
    with host_of(world.store).reading() as fold:
        heads = fold.sources.heads
        fold.sources.heads = lambda: looked.append(1) or heads()

    gps.run_retention()
    before = list(looked)
    gps.run_retention(101)

    assert (before, looked) == ([], [1])


def test_a_late_arrival_before_all_others_of_its_source_is_swept_too():
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"") for at in range(100, 200)])
    gps.append("bus", 5, b"")
    assert list(gps.range_all(0, 10)) == [b"bus"]
    world.store.checkpoint()

    done = gps.run_retention(50)

    assert (done.released, gps.statistics().points) == (1, 100)


def test_retention_is_behind_the_newest_of_all_sources():
    gps = filled(World(), retention=50)
    gps.append("c", 1000, b"")
    gps.append("a", 300, b"")

    done = gps.run_retention()

    assert done.floor == 950
    assert list(gps.range_all()) == [b"c"]


def test_without_retention_nothing_goes_by_itself():
    world = World()
    gps = filled(world)

    world.store.checkpoint()

    assert gps.run_retention().floor is None
    assert gps.statistics().points == 443


def test_a_save_of_views_retains_when_a_hundredth_is_due():
    world = World()
    gps = open_series(world.store, retention=1000)
    gps.append("bus", 5000, b"")
    world.store.checkpoint()
    floors = []

    for at in (5009, 5010):
        gps.append("bus", at, b"")
        world.store.checkpoint()
        floors.append(gps.statistics().floor)

    assert floors == [4000, 4010]


def test_a_source_that_was_forgotten_begins_anew():
    world = World()
    gps = filled(world)
    gps.run_retention(100)

    gps.append("ended", 100, b"again")

    assert ats(gps.range("ended")) == [100]
    assert gps.statistics().late_arrivals == 3


def test_a_floor_above_all_empties_the_series():
    world = World()
    gps = filled(world)
    world.store.checkpoint()

    gps.run_retention(10_000)

    assert gps.range_all() == {}
    assert world.store.topic("gps").statistics().count == 1
    with pytest.raises(Invalid, match="before the floor"):
        gps.append("a", 9999, b"")


def test_folding_what_is_left_gives_the_same():
    world = World()
    gps = filled(world)
    world.store.checkpoint()
    gps.run_retention(100)
    before = host_of(world.store).digest()

    rebuild(world.store)

    assert host_of(world.store).digest() == before
    assert gps.statistics().floor == 100


def test_a_sweep_that_is_cut_short_is_finished_by_the_next(monkeypatch):
    monkeypatch.setattr(index_trim, "STEP", 2)
    world = World()
    gps = filled(world)
    gps.wait_for_pending()
    world.store.checkpoint()
    with host_of(world.store).reading() as fold:
        before = fold.points
    gps.append("b", 200, b"")
    with host_of(world.store).reading() as fold:
        fold.floor = 100
        steps = index_trim.trim_below_floor(fold)
        for _ in range(3):
            next(steps)
        assert before - 240 < fold.points < before
        fold.floor = -(1 << 63)

    gps.run_retention(100)

    assert gps.statistics().points == 202
    assert ats(gps.range("a")) == sorted([*range(100, 200), 110])


def test_points_may_come_between_the_steps_of_a_sweep(monkeypatch):
    monkeypatch.setattr(index_trim, "STEP", 2)
    world = World()
    gps = filled(world)
    host = host_of(world.store)
    with host.reading() as fold:
        fold.floor = 100
        steps = index_trim.trim_below_floor(fold)

    at = 200
    while True:
        with host.reading() as fold:
            fold.evict(1000)
            if next(steps, 0) == 0:
                break
        gps.append_many([(source, at, b"") for source in ("a", "b", "new", "ended")])
        at += 1

    assert at > 205
    for source in ("a", "b"):
        assert set(ats(gps.range(source))) == set(range(100, at))
    assert ats(gps.range("new")) == ats(gps.range("ended")) == list(range(200, at))
    assert gps.statistics().points == sum(len(points) for points in gps.range_all().values())


def test_a_floor_that_is_no_time_is_refused():
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="floor"):
        gps.run_retention(1.5)


DAY = 86_400 * 1_000_000


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_retention_by_the_clock_keeps_60_days_unless_told_otherwise(unit):
    world = World()
    gps = open_series(world.store, unit=unit, retention_by="clock")
    now = SeriesConfig(unit=unit).time_of(world.clock.now_us())
    day = now // (world.clock.now_us() // DAY)
    gps.append_many([("bus", now - days * day, b"") for days in (100, 59, 1)])

    gps.run_retention()

    assert len(gps.range("bus")) == 2
    assert gps.statistics().floor == now - 60 * SeriesConfig(unit=unit).time_of(DAY)


def test_a_point_of_the_far_future_ends_no_other_with_retention_by_the_clock():
    world = World()
    gps = open_series(world.store, retention_by="clock", retention=DAY)
    now = world.clock.now_us()
    gps.append_many([("bus", now, b""), ("broken", 2**62, b"")])

    gps.run_retention()

    assert ats(gps.range("bus")) == [now]
    assert ats(gps.range("broken")) == [2**62]


def test_a_point_that_came_by_a_way_without_a_check_ends_no_other_where_the_future_has_a_limit():
    world = World()
    gps = open_series(world.store, retention=DAY, future_max=1000)
    now = world.clock.now_us()
    gps.append("bus", now, b"")
    mark = meta.encode(meta.NORMAL, 0, 2**62)
    world.store.topic("gps").append(b"", key="broken", meta=mark)

    gps.run_retention()

    assert ats(gps.range("bus")) == [now]


def test_a_series_that_only_the_clock_ends_is_looked_after_by_itself():
    world = World()
    gps = open_series(world.store, retention_by="clock")
    gps.append("bus", world.clock.now_us(), b"")

    world.clock.advance(61 * 86_400)
    world.store.checkpoint()

    assert gps.range_all() == {}


def test_options_about_what_is_appended_do_not_fold_a_series_again():
    """What is saved of a series that has none of them is compared byte by byte."""
    old = {"unit": "ms", "jitter": 5, "retention": 7, "inline_bytes": 256}
    config = SeriesConfig(unit="ms", jitter=5, retention=7, retention_by="clock", future_max=9)

    assert msgspec.msgpack.encode(SERIES.essence(config)) == msgspec.msgpack.encode(old)
