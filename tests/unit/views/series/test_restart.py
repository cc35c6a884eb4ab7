"""Promise: a restart changes nothing that can be seen: floors, newest points, late ones, counts."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.testing.crash_choices import Newest, Oldest
from tests.unit.store.world import World
from tests.unit.views.series.series_world import (
    ats,
    host_of,
    open_series,
    payloads,
    rebuild,
)

ENDS = pytest.mark.parametrize("end", ["reopen", "kill", "saved and killed"])


def restart(world: World, end: str):
    if end == "saved and killed":
        world.store.checkpoint()
    world.reopen() if end == "reopen" else world.kill()
    return open_series(world.store)


@ENDS
def test_the_floor_survives(end):
    world = World()
    gps = open_series(world.store)
    gps.append("bus", 100, b"")
    gps.run_retention(50)

    gps = restart(world, end)

    assert gps.statistics().floor == 50
    with pytest.raises(Invalid, match="before the floor 50"):
        gps.append("bus", 49, b"")


@ENDS
def test_the_newest_of_a_source_survives_so_routes_stay_right(end):
    world = World()
    gps = open_series(world.store, jitter=10)
    gps.append("bus", 100, b"newest")
    gps.append("bus", 95, b"jitter")

    gps = restart(world, end)
    gps.append("bus", 50, b"late")

    assert gps.statistics().late_arrivals == 1
    assert gps.latest("bus").payload == b"newest"


@ENDS
def test_late_arrivals_survive_and_are_counted_on(end):
    world = World()
    gps = open_series(world.store)
    gps.append_many([("bus", at, b"") for at in range(0, 200, 2)])
    gps.append_many([("bus", at, b"late") for at in (51, 1)])

    gps = restart(world, end)

    assert ats(gps.range("bus", 0, 60)) == sorted([*range(0, 61, 2), 1, 51])
    assert gps.statistics().late_arrivals == 2
    gps.append("bus", 3, b"late")
    assert gps.statistics().late_arrivals == 3


@ENDS
def test_everything_survives(end):
    world = World()
    gps = open_series(world.store, jitter=7)
    gps.append_many([(n % 3, n - n % 5 * 3, b"%d" % n) for n in range(1, 500)], version=2)
    gps.run_retention(60)
    world.store.checkpoint()
    gps.append_many([(n % 4, 60 + n * 7 % 400, b"%d" % n) for n in range(300)])
    before, digest = gps.range_all(), host_of(world.store).digest()
    statistics = gps.statistics()

    gps = restart(world, end)

    assert gps.range_all() == before
    assert host_of(world.store).digest() == digest
    for field in ("sources", "points", "newest", "normal", "jitter_absorbed", "late_arrivals"):
        assert getattr(gps.statistics(), field) == getattr(statistics, field)


@pytest.mark.parametrize("choices", [Oldest, Newest])
def test_a_quiet_stream_of_class_fsync_survives_a_power_loss(choices):
    world = World()
    gps = open_series(world.store, durability="fsync")
    gps.append("bus", 1, b"only")
    gps.append("bus", 0, b"late")
    gps.run_retention(-5)

    world.disk.power_off()
    world.disk = world.disk.crash(choices())
    world.store.close()
    world.store = world.open()

    gps = open_series(world.store)
    assert payloads(gps.range("bus")) == [b"late", b"only"]
    assert gps.statistics().floor == -5


def test_folding_again_from_the_log_gives_the_same():
    world = World()
    gps = open_series(world.store, jitter=7)
    gps.append_many([(n % 3, n - n % 5 * 3, b"%d" % n) for n in range(500)], version=2)
    world.store.topic("gps").append(b"plain", key="0")
    before, digest = gps.range_all(), host_of(world.store).digest()

    rebuild(world.store)

    assert gps.range_all() == before
    assert host_of(world.store).digest() == digest


def test_the_digest_does_not_tell_how_the_index_is_laid_out():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n % 3, n, b"") for n in range(500)])
    digests = [host_of(world.store).digest()]

    gps.wait_for_pending()
    digests.append(host_of(world.store).digest())
    with host_of(world.store).reading() as fold:
        fold.evict(1 << 30)
    digests.append(host_of(world.store).digest())
    world.store.checkpoint()
    digests.append(host_of(world.store).digest())

    assert len(set(digests)) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda gps: gps.append("bus", 3, b""),
        lambda gps: gps.append("tram", 1, b""),
        lambda gps: gps.run_retention(0),
    ],
)
def test_the_digest_tells_of_every_change(change):
    world = World()
    gps = open_series(world.store)
    gps.append("bus", 3, b"")
    before = host_of(world.store).digest()

    change(gps)

    assert host_of(world.store).digest() != before


def test_the_digest_tells_versions_and_routes_apart():
    digests = set()
    for version, jitter in ((0, 0), (1, 0), (0, 10)):
        world = World()
        gps = open_series(world.store, jitter=jitter)
        gps.append("bus", 10, b"")
        gps.append("bus", 5, b"", version=version)
        digests.add(host_of(world.store).digest())

    assert len(digests) == 3


def test_a_reader_of_a_store_that_is_open_for_reading_sees_all():
    world = World()
    gps = open_series(world.store)
    gps.append_many([(n % 3, n, b"") for n in range(200)])
    world.store.checkpoint()
    gps.append("late", 5, b"")
    expected = gps.range_all()
    world.store.close()

    found = open_series(world.open(readonly=True))

    assert found.range_all() == expected
