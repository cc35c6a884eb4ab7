"""Promise: a read gives the points of its range in order of (at, seq), wherever they lie: in the
map, in the queue before it, in a tail, or among the late arrivals."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.views.series import point_reader
from strandline.views.series.meta import AT_MAX
from tests.unit.store.world import World
from tests.unit.views.series.series_world import ats, host_of, open_series, payloads

POINTS = 300


def everywhere(world: World, **options: object):
    """Points 0, 2, 4 … of two sources, some of them in each place, and odd ones that came late."""
    gps = open_series(world.store, **options)
    for first in range(0, POINTS, 50):
        gps.append_many(
            [(source, at * 2, b"%d" % at) for at in range(first, first + 50) for source in "ab"]
        )
        if first == 100:
            gps.wait_for_pending()
    gps.append_many([("a", at, b"late") for at in (101, 3, 303)])
    with host_of(world.store).reading() as fold:
        source = fold.sources.find_readonly(b"a")
        assert source.blocks > len(fold.index.pending.of(source.number)) > 0
        assert source.ats
        assert source.late == 3
    return gps


EXPECTED = sorted([*range(0, 2 * POINTS, 2), 3, 101, 303])


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 10_000), (0, 0), (3, 3), (1, 101), (100, 102), (250, 310), (595, 598), (5, 4), (-9, -1)],
)
def test_a_range_has_both_its_ends_and_all_between(start, end):
    gps = everywhere(World())

    found = gps.range("a", start, end)

    assert ats(found) == [at for at in EXPECTED if start <= at <= end]


def test_without_bounds_a_range_is_all():
    assert ats(everywhere(World()).range("a")) == EXPECTED


@pytest.mark.parametrize("limit", [1, 2, 31, 32, 33, 100, 1000])
def test_a_limit_is_of_each_source_and_takes_the_earliest(limit):
    gps = everywhere(World())

    found = gps.range(["a", "b"], 1, 10_000, limit=limit)

    assert ats(found["a"]) == [at for at in EXPECTED if at >= 1][:limit]
    assert ats(found["b"]) == list(range(2, 2 * POINTS, 2))[:limit]


def test_many_sources_come_back_by_the_names_that_were_given():
    gps = open_series(World().store)
    gps.append(1, 5, b"one")
    gps.append("two", 6, b"two")

    found = gps.range([1, "two", b"three", 1])

    assert list(found) == [1, "two", b"three"]
    assert [payloads(points) for points in found.values()] == [[b"one"], [b"two"], []]


def test_all_sources_are_those_that_have_points_there():
    gps = everywhere(World())
    gps.append("c", 10_000, b"")

    assert {name: ats(points) for name, points in gps.range_all(3, 5).items()} == {
        b"a": [3, 4],
        b"b": [4],
    }
    assert list(gps.range_all()) == [b"a", b"b", b"c"]


def test_payloads_of_all_sources_come_in_one_walk_through_the_log(monkeypatch):
    world = World()
    gps = everywhere(world, inline_bytes=0)
    walks = []
    topic = host_of(world.store).topics[0]
    pick = topic.get_many
    monkeypatch.setattr(topic, "get_many", lambda seqs: walks.append(list(seqs)) or pick(seqs))

    gps.range_all()

    (seqs,) = walks
    assert seqs == sorted(seqs)
    assert len(seqs) == 2 * POINTS + 3


def test_one_source_of_many_is_read_without_the_others():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n % 100, n, b"") for n in range(5000)])
    gps.wait_for_pending()
    seen = []
    with host_of(world.store).reading() as fold:
        blocks = fold.index._blocks
        found = blocks.range

        def watched(*args, **options):
            for entry in found(*args, **options):
                seen.append(entry)
                yield entry

        blocks.range = watched

    gps.range(7, 2000, 2500)

    assert 0 < len(seen) < 5


def test_latest_is_the_greatest_at_and_of_equal_ones_the_last_to_come():
    gps = open_series(World().store, jitter=50)
    for at, payload in ((100, b"first"), (100, b"second"), (60, b"jitter"), (10, b"late")):
        gps.append("bus", at, payload)
    gps.append("tram", 1, b"only")

    found = gps.read_latest()

    assert {name: point.payload for name, point in found.items()} == {
        b"bus": b"second",
        b"tram": b"only",
    }
    assert gps.latest("bus") == found[b"bus"]
    assert gps.latest("ship") is None


def test_latest_knows_sources_that_are_not_in_memory():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n, n, b"%d" % n) for n in range(50)])
    with host_of(world.store).reading() as fold:
        fold.evict(1 << 30)
        assert not fold.sources.hot

    found = gps.read_latest()

    assert {int(name): point.at for name, point in found.items()} == {n: n for n in range(50)}


def test_latest_is_none_when_all_is_before_the_floor():
    gps = open_series(World().store)
    gps.append("bus", 10, b"")

    gps.run_retention(11)

    assert (gps.latest("bus"), gps.read_latest()) == (None, {})


@pytest.mark.parametrize(
    ("sources", "start", "expected"),
    [
        (["a"], 0, 0),
        (["a"], 3, 3),
        (["b"], 3, 4),
        (["a", "b"], 599, None),
        (["nobody"], 0, None),
        ([], 0, None),
        (None, 597, 598),
    ],
)
def test_earliest_is_the_first_from_a_start_on(sources, start, expected):
    assert everywhere(World()).earliest(sources, start) == expected


def test_earliest_sees_a_late_arrival_before_all_others():
    gps = open_series(World().store)
    gps.append("bus", 300, b"")
    gps.append("bus", 100, b"")

    assert gps.earliest(["bus"]) == 100


def test_a_window_begins_where_something_is_available():
    gps = open_series(World().store)
    gps.append_many([("a", at, b"") for at in (100, 110, 120)] + [("b", 115, b"")])

    found = gps.range_from_available(["a", "b"], 50, 15)

    assert found.end == 115
    assert {source: ats(points) for source, points in found.points.items()} == {
        "a": [100, 110],
        "b": [115],
    }


def test_windows_one_behind_the_other_give_every_point_once():
    gps = everywhere(World())
    seen, start = [], -1000

    while True:
        found = gps.range_from_available(["a"], start, 37)
        if found.end is None:
            break
        seen += ats(found.points["a"])
        start = found.end + 1

    assert seen == EXPECTED


def test_a_window_of_nothing_has_no_end():
    gps = open_series(World().store)

    assert gps.range_from_available(["bus"], 0, 10) == (None, {})


def test_a_window_ends_where_times_end():
    gps = open_series(World().store)
    gps.append("bus", AT_MAX - 1, b"")

    assert gps.range_from_available(["bus"], 0, 100).end == AT_MAX


def test_visiting_sees_the_points_of_a_range_in_order(monkeypatch):
    monkeypatch.setattr(point_reader, "CHUNK", 7)
    gps = everywhere(World())
    seen = []

    count = gps.visit(lambda point: seen.append((point.source, point.at)), None, 5, 400)

    assert seen == [
        *((b"a", at) for at in EXPECTED if 5 <= at <= 400),
        *((b"b", at) for at in range(6, 401, 2)),
    ]
    assert count == len(seen)


def test_visiting_ends_when_the_visitor_says_so():
    gps = everywhere(World())
    seen = []

    count = gps.visit(lambda point: seen.append(point.at) or len(seen) < 3, ["a", "b"])

    assert (count, seen) == (3, [0, 2, 3])


def test_visiting_gets_through_many_points_of_one_moment(monkeypatch):
    monkeypatch.setattr(point_reader, "CHUNK", 7)
    gps = open_series(World().store)
    gps.append_many([("bus", 5, b"%d" % n) for n in range(100)])
    seen = []

    gps.visit(lambda point: seen.append(point.payload), ["bus"], limit=60)

    assert seen == [b"%d" % n for n in range(60)]


def test_nobody_waits_for_a_visitor():
    world = World()
    gps = everywhere(world)
    free = []

    def visitor(point):
        free.append(not host_of(world.store).lock._is_owned())
        return False

    gps.visit(visitor)

    assert free == [True]


@pytest.mark.parametrize("limit", [-1, 1.0, "1", True, None])
def test_a_limit_that_cannot_be_is_refused(limit):
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="limit"):
        gps.range("bus", limit=limit)


def test_bounds_that_are_no_times_are_refused():
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="start"):
        gps.range("bus", 1.5)
    with pytest.raises(Invalid, match="end"):
        gps.range_all(0, "now")
    with pytest.raises(Invalid, match="window"):
        gps.range_from_available(["bus"], 0, None)


def test_points_come_one_after_the_other_as_they_are_visited():
    series = open_series(World().store)
    for source, at in ((b"b", 1), (b"a", 2), (b"a", 1)):
        series.append(source, at, b"%d" % at)
    visited = []
    series.visit(visited.append)

    assert list(series.points()) == visited
    assert [(point.source, point.at) for point in series.points(["b"])] == [(b"b", 1)]
