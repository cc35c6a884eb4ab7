"""Promise: a point goes where its at says (normal, jitter, late), or is refused without a trace."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, TooLarge
from strandline.views.series import meta
from strandline.views.series.meta import AT_MAX, AT_MIN, JITTER, LATE, NORMAL
from tests.unit.store.world import World
from tests.unit.views.series.series_world import ats, host_of, open_series, payloads, rebuild


def routes(world: World) -> list[int]:
    """What the records on the log say."""
    told = [meta.decode(record.meta) for record in world.store.topic("gps").read().records]
    return [found.route for found in told if found is not None]


def counted(series) -> tuple[int, int, int]:
    found = series.statistics()
    return found.normal, found.jitter_absorbed, found.late_arrivals


def test_a_point_is_read_as_it_was_appended():
    gps = open_series(World().store)

    seq = gps.append("bus", 7, b"here", version=3).first_seq

    (point,) = gps.range("bus")
    assert (point.source, point.at, point.payload) == (b"bus", 7, b"here")
    assert (point.version, point.seq) == (3, seq)


@pytest.mark.parametrize(
    ("at", "route"), [(101, NORMAL), (100, NORMAL), (99, JITTER), (90, JITTER), (89, LATE)]
)
def test_the_way_is_decided_by_the_sources_newest(at, route):
    world = World()
    gps = open_series(world.store, jitter=10)
    gps.append("bus", 100, b"")
    gps.append("tram", 1000, b"")

    gps.append("bus", at, b"")

    assert routes(world)[-1] == route
    assert counted(gps) == (2 + (route == NORMAL), route == JITTER, route == LATE)


def test_without_a_jitter_window_all_that_is_behind_is_late():
    gps = open_series(World().store)
    gps.append("bus", 100, b"")

    gps.append("bus", 99, b"")

    assert counted(gps) == (1, 0, 1)


def test_a_jittered_point_does_not_move_the_newest_back():
    world = World()
    gps = open_series(world.store, jitter=10)
    for at in (100, 91, 89):
        gps.append("bus", at, b"")

    assert routes(world) == [NORMAL, JITTER, LATE]


def test_points_of_one_batch_come_one_after_the_other():
    world = World()
    gps = open_series(world.store, jitter=10)

    gps.append_many([("bus", 100, b""), ("bus", 95, b""), ("bus", 50, b""), ("tram", 50, b"")])

    assert routes(world) == [NORMAL, JITTER, LATE, NORMAL]
    assert ats(gps.range("bus")) == [50, 95, 100]


@pytest.mark.parametrize("count", [3, 100])
def test_equal_ats_are_kept_in_order_of_arrival(count):
    gps = open_series(World().store)
    for n in range(count):
        gps.append("bus", 5, b"%d" % n)
    gps.append("bus", 4, b"before")

    found = gps.range("bus")

    assert payloads(found) == [b"before", *(b"%d" % n for n in range(count))]


def test_the_same_point_twice_is_two_points():
    gps = open_series(World().store)

    gps.append("bus", 5, b"x")
    gps.append("bus", 5, b"x")

    assert len(gps.range("bus")) == 2


def test_a_point_before_the_floor_is_refused_and_counted():
    world = World()
    gps = open_series(world.store)
    gps.append("bus", 100, b"")
    gps.run_retention(50)
    head = world.store.topic("gps").head_seq

    with pytest.raises(Invalid, match="at 49 is before the floor 50"):
        gps.append("bus", 49, b"")

    assert gps.statistics().refused == 1
    assert world.store.topic("gps").head_seq == head


def test_the_floor_itself_is_not_before_the_floor():
    gps = open_series(World().store)
    gps.run_retention(50)

    gps.append("bus", 50, b"")

    assert ats(gps.range("bus")) == [50]


def test_a_batch_with_a_point_before_the_floor_leaves_nothing():
    gps = open_series(World().store)
    gps.run_retention(50)

    with pytest.raises(Invalid, match=r"source b'tram' at 49"):
        gps.append_many([("bus", 60, b""), ("tram", 49, b""), ("bus", 61, b"")])

    assert gps.range_all() == {}
    assert gps.statistics().refused == 1


@pytest.mark.parametrize("at", [AT_MIN, -1, 0, AT_MAX])
def test_any_number_of_64_bits_is_a_time(at):
    gps = open_series(World().store, jitter=3)
    gps.append("bus", 0, b"middle")

    gps.append("bus", at, b"x")

    assert payloads(gps.range("bus", at, at))[-1] == b"x"
    assert ats(gps.range("bus")) == sorted([0, at])


def test_the_whole_range_of_times_fits_into_one_block():
    gps = open_series(World().store)
    wanted = [AT_MIN, *range(60), AT_MAX, AT_MAX]

    gps.append_many([("bus", at, b"") for at in wanted])

    gps.wait_for_pending()
    assert ats(gps.range("bus")) == wanted


def test_a_number_a_text_and_bytes_can_name_the_same_source():
    gps = open_series(World().store)

    gps.append(17, 1, b"a")
    gps.append("17", 2, b"b")
    gps.append(b"17", 3, b"c")

    assert list(gps.range_all()) == [b"17"]
    assert payloads(gps.range(17)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("source", ["", b"", None, 1.5, True, "\udc00"])
def test_what_names_no_source_is_refused(source):
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="source"):
        gps.append(source, 1, b"")


@pytest.mark.parametrize("at", [AT_MIN - 1, AT_MAX + 1, 1.0, "1", None, True])
def test_what_is_no_time_is_refused(at):
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="64 bits"):
        gps.append("bus", at, b"")
    with pytest.raises(Invalid, match="64 bits"):
        gps.append_many([("bus", at, b"")])


@pytest.mark.parametrize("points", [[], [("bus", 1)], [1], [("bus", 1, b"", 2)]])
def test_what_are_no_points_is_refused(points):
    gps = open_series(World().store)

    with pytest.raises(Invalid, match="point"):
        gps.append_many(points)


def test_a_payload_as_large_as_a_record_may_be_comes_back():
    gps = open_series(World().store)
    large = b"x" * (1 << 20)

    gps.append("bus", 1, large)

    assert payloads(gps.range("bus")) == [large]
    with pytest.raises(TooLarge):
        gps.append("bus", 1, large + b"x")


def test_the_longest_name_of_a_source_is_that_of_a_key():
    gps = open_series(World().store)
    name = b"n" * 4096
    gps.append_many([(name, at, b"") for at in range(100)])

    gps.wait_for_pending()

    assert len(gps.range(name)) == 100
    with pytest.raises(TooLarge):
        gps.append(name + b"n", 1, b"")


def test_a_plain_record_with_a_key_is_a_point_at_its_ts():
    world = World()
    gps = open_series(world.store)

    seq = world.store.topic("gps").append(b"plain", key="bus").first_seq

    (record,) = world.store.topic("gps").read().records
    (point,) = gps.range("bus")
    assert (point.at, point.payload, point.version) == (record.ts, b"plain", 0)
    assert point.seq == seq


def test_a_plain_record_behind_the_newest_is_late_and_one_before_the_floor_is_never_seen():
    world = World()
    gps = open_series(world.store)
    future = world.clock.now_us() + 10**6
    gps.append("bus", future, b"")
    world.store.topic("gps").append(b"late", key="bus")
    late = gps.statistics().late_arrivals
    gps.run_retention(future)

    world.store.topic("gps").append(b"too late", key="bus")

    assert ats(gps.range("bus")) == [future]
    assert late == 1
    assert gps.statistics().below_floor == 1


def test_a_plain_record_without_a_key_is_nothing_to_a_series():
    world = World()
    gps = open_series(world.store)

    world.store.topic("gps").append(b"no source")

    assert (gps.range_all(), gps.statistics().points) == ({}, 0)


def test_points_of_an_fsync_topic_are_routed_and_refused_alike():
    gps = open_series(World().store, durability="fsync", jitter=10)
    for at in (100, 95, 80):
        gps.append("bus", at, b"")
    gps.run_retention(90)

    with pytest.raises(Invalid, match="before the floor"):
        gps.append("bus", 89, b"")

    assert counted(gps) == (1, 1, 1)
    assert gps.statistics().refused == 1
    assert ats(gps.range("bus")) == [95, 100]


@pytest.mark.parametrize("floor_first", [True, False])
def test_a_floor_that_rises_while_an_fsync_append_is_under_way_refuses_what_comes_behind_it(
    floor_first,
):
    world = World()
    gps = open_series(world.store, durability="fsync")
    gps.append("bus", 100, b"")
    host = host_of(world.store)
    append = host.append

    def meanwhile(draft):
        done = None if floor_first else append(draft)
        gps.run_retention(50)
        return done or append(draft)

    host.append = meanwhile
    if floor_first:
        with pytest.raises(Invalid, match="at 40 is before the floor 50"):
            gps.append("bus", 40, b"")
    else:
        gps.append("bus", 40, b"")

    assert gps.statistics().refused == floor_first
    assert ats(gps.range("bus")) == [100]
    before = host.digest()
    rebuild(world.store)
    assert host.digest() == before


def test_a_floor_that_rises_while_a_batch_is_under_way_drops_what_is_below_it():
    world = World()
    gps = open_series(world.store, durability="fsync")
    host = host_of(world.store)
    append = host.append

    def meanwhile(draft):
        gps.run_retention(50)
        return append(draft)

    gps.append("bus", 100, b"")
    host.append = meanwhile
    done = gps.append_many([("bus", 40, b""), ("bus", 60, b"")], drop_refused=True)

    assert [point.place for point in done.refused] == [0]
    assert gps.statistics().refused == 1
    assert ats(gps.range("bus")) == [60, 100]
