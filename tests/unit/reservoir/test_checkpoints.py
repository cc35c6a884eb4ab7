"""Promise: a checkpoint makes durable what was committed, whole, for one request when it is small;
and an opening asks for no more than the checkpoints since the snapshot."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from strandline.reservoir import object_keys, recovery
from tests.unit.reservoir.small_reservoir import DEADLINE_S, FULL, World, commit, gated, pages_of

MOMENT_S = 0.2


@pytest.fixture
def world() -> World:
    return World()


def asked(world: World, before: Counter[str]) -> Counter[str]:
    return world.objects.calls - before


def ranges_of(version: int, *, snapshot_interval: int) -> int:
    """What an opening asks for: checkpoints since the snapshot, itself included. A snapshot that is
    the newest has nobody to vouch for it: then one object beside it is asked as well."""
    since = (version - 1) % snapshot_interval + 1
    return since + (since == 1 and version > 1)


def test_versions_rise_by_one_and_an_opening_is_one(world):
    with world.open() as reservoir:
        assert (reservoir.version, reservoir.recovered.version) == (1, 0)
        assert [reservoir.checkpoint() for _ in range(3)] == [2, 3, 4]
        assert reservoir.version == 4

    with world.open() as reservoir:
        assert (reservoir.version, reservoir.recovered.version) == (5, 4)
        assert reservoir.checkpoint() == 6


def test_meta_goes_with_its_checkpoint(world):
    with world.open() as reservoir:
        assert reservoir.meta == b""
        reservoir.checkpoint(b"first")
        assert reservoir.meta == b"first"
        reservoir.checkpoint(b"second")

    with world.open() as reservoir:
        assert reservoir.meta == b"second"
        reservoir.checkpoint()
        assert reservoir.meta == b""


def test_twenty_small_checkpoints_cost_twenty_creates_and_nothing_else(world):
    with world.open() as reservoir:
        before = world.objects.calls.copy()

        for number in range(1, 21):
            commit(reservoir, {number: b"%d" % number, 30: b"again", 31 + number % 3: None})
            reservoir.checkpoint(b"meta")

        assert asked(world, before) == {"create": 20}


@pytest.mark.parametrize("checkpoints", [0, 1, 2, 5, 18])
def test_an_opening_costs_one_list_and_a_range_for_each_checkpoint_since_the_snapshot(
    world, checkpoints
):
    with world.open(snapshot_interval=20) as reservoir:
        for number in range(checkpoints):
            commit(reservoir, {number + 1: b"page"})
            reservoir.checkpoint()
    before = world.objects.calls.copy()

    world.open(readonly=True)

    assert asked(world, before) == {"list": 1, "get_ranges": checkpoints + 1}


def test_an_opening_for_writing_creates_one_object_more(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b"one"})
        reservoir.checkpoint()
    before = world.objects.calls.copy()

    world.open()

    assert asked(world, before) == {"list": 2, "get_ranges": 2, "create": 1}


def test_every_so_many_checkpoints_one_is_a_snapshot(world):
    with world.open(snapshot_interval=4) as reservoir:
        for number in range(1, 13):
            commit(reservoir, {number: b"%d" % number})
            version = reservoir.checkpoint()
            before = world.objects.calls.copy()
            world.open(readonly=True)

            ranges = asked(world, before)["get_ranges"]

            assert ranges == ranges_of(version, snapshot_interval=4)


def test_the_count_of_checkpoints_since_the_snapshot_survives_a_reopening(world):
    for _ in range(3):
        world.open(snapshot_interval=4).close()

    with world.open(snapshot_interval=4) as reservoir:
        version = reservoir.checkpoint()

    assert version == 5
    assert [
        row.version for row in recovery.recover(world.objects).state.rows if row.is_snapshot
    ] == [
        1,
        5,
    ]


def test_openings_alone_are_no_snapshots_until_they_are_many(world):
    """Their objects are kept for their names, so they are small; but a program that dies again
    and again before its first checkpoint must not make each opening slower than the one before."""
    ranges = []
    for _ in range(30):
        before = world.objects.calls.copy()
        world.open(snapshot_interval=4).close()
        ranges.append(asked(world, before)["get_ranges"])

    assert max(ranges) <= 2 * 4 + 2
    snapshots = [row for row in recovery.recover(world.objects).state.rows if row.is_snapshot]
    assert snapshots


def test_few_pages_become_part_of_the_checkpoint_itself(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b"one", 2: b"two"})

        version = reservoir.checkpoint()

        assert reservoir.place(1).file_id == object_keys.bundle_id(version)
        assert world.data_keys() == set()


def test_pages_beside_a_full_file_become_a_data_file(world):
    with world.open() as reservoir:
        commit(reservoir, {1: FULL, 2: b"two"})

        reservoir.checkpoint()

        assert not object_keys.is_bundle(reservoir.place(2).file_id)
        assert len(world.data_keys()) == 2
    assert pages_of(world.open()) == {1: FULL, 2: b"two"}


def test_a_checkpoint_of_nothing_is_a_version_without_pages(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b"one"})
        reservoir.checkpoint(b"first")

        reservoir.checkpoint(b"second")

    reopened = world.open()
    assert (reopened.meta, pages_of(reopened)) == (b"second", {1: b"one"})


def test_a_commit_waits_for_a_checkpoint_that_is_under_way(world):
    with world.open() as reservoir, ThreadPoolExecutor() as pool:
        commit(reservoir, {1: b"one"})
        with gated(world.objects, "create") as gate:
            checkpointing = pool.submit(reservoir.checkpoint)
            gate.wait_arrived()

            committing = pool.submit(commit, reservoir, {1: b"later", 2: FULL})
            wait([committing], MOMENT_S)

            assert not committing.done()
            assert pages_of(reservoir) == {1: b"one"}
            gate.open()
            checkpointing.result(DEADLINE_S)
            committing.result(DEADLINE_S)
        assert pages_of(reservoir) == {1: b"later", 2: FULL}
        assert pages_of(world.open(readonly=True)) == {1: b"one"}


def test_pages_are_read_while_a_checkpoint_is_under_way(world):
    with world.open() as reservoir, ThreadPoolExecutor() as pool:
        commit(reservoir, {1: b"one"})
        reservoir.checkpoint()
        commit(reservoir, {2: b"two", 3: FULL})
        with gated(world.objects, "create") as gate:
            checkpointing = pool.submit(reservoir.checkpoint)
            gate.wait_arrived()

            assert pages_of(reservoir) == {1: b"one", 2: b"two", 3: FULL}

            gate.open()
            checkpointing.result(DEADLINE_S)


def test_a_reset_deletes_every_page_with_the_next_checkpoint(world):
    with world.open() as reservoir:
        commit(reservoir, {1: b"one", 2: FULL})
        reservoir.checkpoint()
        commit(reservoir, {3: b"waits"})

        reservoir.reset()

        assert (pages_of(reservoir), len(reservoir)) == ({}, 0)
        assert pages_of(world.open(readonly=True)) == {1: b"one", 2: FULL}
        reservoir.checkpoint()
        commit(reservoir, {2: b"new"})
        reservoir.checkpoint()
    assert pages_of(world.open()) == {2: b"new"}


def test_a_reset_gives_the_space_back(world):
    with world.open(snapshot_interval=3) as reservoir:
        commit(reservoir, dict.fromkeys(range(1, 30), FULL))
        reservoir.checkpoint()

        reservoir.reset()
        for _ in range(8):
            reservoir.checkpoint()

        assert world.data_keys() == set()


def test_old_checkpoints_are_deleted(world):
    with world.open(snapshot_interval=3, retained_versions=2) as reservoir:
        for number in range(40):
            commit(reservoir, {1: b"%d" % number})
            reservoir.checkpoint()

        assert len(world.versions()) <= 3 + 3 + 2
        assert pages_of(reservoir) == {1: b"39"}


def test_statistics_tell_what_there_is(world):
    with world.open() as reservoir:
        commit(reservoir, {1: FULL, 2: FULL, 3: b"three"})
        waiting = reservoir.statistics()
        reservoir.checkpoint()
        commit(reservoir, {1: None})

        found = reservoir.statistics()

        assert (waiting.waiting_bytes, waiting.pages, waiting.files) == (5, 2, 2)
        assert (found.version, found.pages, found.files) == (2, 2, 3)
        assert (found.dead_bytes, found.waiting_bytes) == (len(FULL), 0)
        assert found.damaged_files == ()
