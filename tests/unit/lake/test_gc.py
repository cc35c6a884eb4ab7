"""Promise (O7, C8): a sweep takes nothing that a retained or pinned version names, or on doubt."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from strandline.errors import Conflict, Corrupt, Fenced
from strandline.lake import object_keys
from strandline.lake.gc import GcResult, collect_garbage
from strandline.lake.manifest import fencing
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_objects import SimObjects
from tests.unit.lake.histories import (
    STORE_ID,
    TOPIC_ID,
    add,
    dangling,
    data_in,
    lake_file,
    ledger_of,
    new_lake,
    numbers_in,
    raising,
    readable_versions,
    upload,
)

HOUR = 3600.0


class World:
    """A lake that grows by a file an hour and keeps the newest three."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.objects = SimObjects(clock=self.clock)
        self.ledger = new_lake(self.objects, clock=self.clock)
        self.hours = 0

    def live(self, hours: int) -> None:
        for _ in range(hours):
            self.clock.advance(HOUR)
            self.hours += 1
            add(self.ledger, lake_file(self.hours * 10 + 1, self.hours * 10 + 10))
            floor = (self.hours - 2) * 10 + 1
            self.ledger.commit(raising(floor, self.clock.now_us()))

    def sweep(
        self, *, keep_hours: float = 10, grace_hours: float = 10, orphans: bool = False
    ) -> GcResult:
        return collect_garbage(
            self.ledger,
            now_us=self.clock.now_us(),
            manifest_retention_s=keep_hours * HOUR,
            grace_s=grace_hours * HOUR,
            orphans=orphans,
        )


def names(*files: object) -> set[str]:
    return {file.name() for file in files}  # type: ignore[attr-defined]


def test_young_lakes_are_left_alone():
    world = World()
    world.live(9)

    swept = world.sweep()

    assert swept == GcResult(manifests=0, files=0, condemned=0)
    assert len(data_in(world.objects)) == 9


def test_old_manifests_and_their_files_go():
    world = World()
    world.live(100)

    swept = world.sweep()

    newest = world.ledger.load()
    assert swept.files == 100 - len(data_in(world.objects)) > 60
    assert names(*newest.files) <= data_in(world.objects)
    assert {entry.name for entry in newest.removed} == data_in(world.objects) - names(*newest.files)
    assert dangling(world.objects) == []
    assert len(numbers_in(world.objects)) < 45


def test_every_version_of_the_window_is_kept():
    world = World()
    world.live(100)
    lately = world.clock.now_us() - round(10 * HOUR * 1e6)
    versions = readable_versions(world.objects)
    expected = [each for each, following in pairwise(versions) if following.created_us > lately]

    world.sweep()

    kept = readable_versions(world.objects)
    assert all(each in kept for each in expected)
    assert len(expected) >= 20


def test_a_file_that_left_stays_for_the_grace_period():
    world = World()
    world.live(100)
    recent = [
        entry.name
        for entry in world.ledger.load().removed
        if entry.at_us > world.clock.now_us() - round(30 * HOUR * 1e6)
    ]

    world.sweep(keep_hours=0, grace_hours=30)

    assert set(recent) <= data_in(world.objects)
    assert len(recent) == 30


def test_a_pinned_version_keeps_its_files():
    world = World()
    world.live(40)

    with world.ledger.pin() as pinned:
        world.live(60)
        world.sweep(keep_hours=0, grace_hours=0)

        assert names(*pinned.files) <= data_in(world.objects)
        assert ledger_of(world.objects).load(pinned.number) == pinned
    world.sweep(keep_hours=0, grace_hours=0)

    assert not names(*pinned.files) & data_in(world.objects)
    assert dangling(world.objects) == []


def test_where_nobody_commits_any_more_everything_that_left_goes_in_the_end():
    world = World()
    world.live(40)

    for _ in range(4):
        world.clock.advance(11 * HOUR)
        world.sweep()
    before = world.objects.snapshot()
    world.clock.advance(11 * HOUR)
    world.sweep(orphans=True)

    newest = world.ledger.load()
    assert newest.removed == ()
    assert data_in(world.objects) == names(*newest.files)
    assert world.objects.snapshot() == before


def test_a_version_that_is_pinned_twice_is_kept_until_both_are_done():
    world = World()
    world.live(40)
    with world.ledger.pin() as outer:
        with world.ledger.pin(outer.number):
            world.live(60)
        world.sweep(keep_hours=0, grace_hours=0)

        assert names(*outer.files) <= data_in(world.objects)


def test_a_sweep_is_repeated_without_harm():
    world = World()
    world.live(100)
    world.sweep()
    before = world.objects.snapshot()

    swept = world.sweep()

    assert swept == GcResult(manifests=0, files=0, condemned=0)
    assert world.objects.snapshot() == before


def test_a_deleted_topic_loses_all_its_files():
    world = World()
    world.live(20)
    at_us = world.clock.now_us()
    world.ledger.commit(lambda each: each.with_dropped(at_us=at_us))

    for _ in range(3):
        world.clock.advance(2 * HOUR)
        world.sweep(keep_hours=1, grace_hours=1)

    assert world.ledger.load().dropped
    assert data_in(world.objects) == set()


def test_nothing_is_deleted_when_a_manifest_cannot_be_read():
    world = World()
    world.live(100)
    versions = readable_versions(world.objects)
    horizon_us = world.clock.now_us() - round(10 * HOUR * 1e6)
    border = next(b.number for b in versions if b.created_us > horizon_us) - 1
    for number in (versions[-1].number, border):
        twin = world.objects.fork()
        key = object_keys.manifest_key(TOPIC_ID, number)
        damaged = twin.get(key).replace(b'"epoch":1', b'"epoch":2')
        stored = msgspec.structs.replace(twin.snapshot()[key], data=damaged)
        twin.restore(before := twin.snapshot() | {key: stored})

        with pytest.raises(Corrupt):
            collect_garbage(
                ledger_of(twin),
                now_us=world.clock.now_us(),
                manifest_retention_s=10 * HOUR,
                grace_s=10 * HOUR,
                orphans=True,
            )
        assert twin.snapshot() == before


@pytest.mark.parametrize("lag", [1, 10, 50, 1000])
def test_a_listing_that_lags_makes_no_file_go(lag):
    world = World()
    world.live(100)
    world.objects.lagging_list = lag

    world.sweep(orphans=True)
    world.sweep(orphans=True)

    world.objects.lagging_list = 0
    assert dangling(world.objects) == []
    newest = world.ledger.load()
    assert names(*newest.files) <= data_in(world.objects)


def test_objects_that_nobody_names_are_condemned_first_and_deleted_later():
    world = World()
    world.live(3)
    orphan, fresh = lake_file(1000, 1001), lake_file(1002, 1003)
    upload(world.objects, orphan)
    world.clock.advance(11 * HOUR)
    upload(world.objects, fresh)

    first = world.sweep(orphans=True)
    there = data_in(world.objects)
    world.clock.advance(11 * HOUR)
    world.live(20)
    world.sweep(keep_hours=0)

    assert (first.condemned, names(orphan, fresh) <= there) == (1, True)
    assert data_in(world.objects) & names(orphan, fresh) == names(fresh)


def test_a_condemned_object_cannot_be_committed_nor_one_that_is_gone():
    world = World()
    orphan = lake_file(1000, 1001)
    upload(world.objects, orphan)
    world.clock.advance(11 * HOUR)
    world.sweep(orphans=True)

    with pytest.raises(Conflict, match="has left"):
        world.ledger.commit(lambda each: each.with_added([orphan]))
    world.live(40)
    world.sweep(keep_hours=0)
    with pytest.raises(Conflict, match="upload it again"):
        world.ledger.commit(lambda each: each.with_added([orphan]))


def test_an_older_term_sweeps_nothing():
    world = World()
    world.live(100)
    old, _ = (
        fencing.open_term(world.objects, STORE_ID, world.clock, attempt=bytes([attempt]) * 16)
        for attempt in (1, 2)
    )
    before = world.objects.snapshot()

    with pytest.raises(Fenced):
        collect_garbage(
            world.ledger, now_us=world.clock.now_us(), manifest_retention_s=0, grace_s=0, term=old
        )

    assert world.objects.snapshot() == before


def test_a_sleepers_leftover_does_not_stop_the_sweep():
    world = World()
    world.live(100)
    leftover = world.objects.snapshot()[object_keys.manifest_key(TOPIC_ID, 5)]
    world.sweep()
    world.clock.advance(HOUR)
    world.objects.put(object_keys.manifest_key(TOPIC_ID, 5), leftover.data)
    world.live(30)

    swept = world.sweep(orphans=True)

    assert swept.files > 20
    assert 5 not in numbers_in(world.objects)
    assert dangling(world.objects) == []
