"""Promise: full files leave while the session goes on, a few at once; no more of them are in memory
than is set, who would make one more waits; and no checkpoint lists a file that is not stored."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import pytest

from strandline.errors import Closed, ObjectStoreUnreachable
from strandline.reservoir import object_keys
from tests.unit.reservoir.small_reservoir import DEADLINE_S, FULL, World, commit, gated, pages_of

MOMENT_S = 0.2
"""Given to a thread that should not go on, to do so."""


def test_a_full_file_leaves_before_the_commit():
    world = World()
    with world.open() as reservoir, gated(world.objects, "create", object_keys.DATA) as gate:
        session = reservoir.session()

        session.write(1, FULL)
        gate.wait_arrived()

        assert session.read(1) == FULL
        assert reservoir.read(1) is None


def test_more_than_one_file_is_uploaded_at_a_time():
    world = World(uploads_at_once=2)
    with world.open() as reservoir, gated(world.objects, "create", object_keys.DATA) as gate:
        session = reservoir.session()

        session.write(1, FULL)
        session.write(2, FULL)

        gate.wait_arrived(2)


def test_no_more_files_are_uploaded_at_a_time_than_is_set():
    world = World(uploads_at_once=2, uploads_waiting_max=4)
    with world.open() as reservoir, gated(world.objects, "create", object_keys.DATA) as gate:
        session = reservoir.session()

        for page_id in (1, 2, 3, 4):
            session.write(page_id, FULL)
        gate.wait_arrived(2)

        assert not gate.arrived.acquire(timeout=MOMENT_S)


def test_files_that_cannot_be_stored_fill_their_places_and_the_next_write_is_told():
    world = World(uploads_waiting_max=3)
    with world.open() as reservoir:
        session = reservoir.session()
        world.objects.fail("create", once=False, key_contains=object_keys.DATA)
        for page_id in (1, 2, 3):
            session.write(page_id, FULL)

        with pytest.raises(ObjectStoreUnreachable):
            session.write(4, FULL)

        world.objects.heal()
        session.write(5, FULL)
        session.commit()
        reservoir.checkpoint()
    with world.open() as reservoir:
        assert pages_of(reservoir) == dict.fromkeys((1, 2, 3, 4, 5), FULL)


def test_a_writer_waits_when_the_object_store_is_slow():
    world = World(uploads_waiting_max=3, uploads_at_once=2)
    behind = []

    def write_many_files():
        with reservoir.session() as session:
            for page_id in range(1, 11):
                session.write(page_id, FULL)
                behind.append(page_id - len(world.data_keys()))
                wrote.release()
            session.commit()

    wrote = threading.Semaphore(0)
    with (
        world.open() as reservoir,
        gated(world.objects, "create", object_keys.DATA) as gate,
        ThreadPoolExecutor() as pool,
    ):
        writing = pool.submit(write_many_files)
        for _ in range(3):
            assert wrote.acquire(timeout=DEADLINE_S)
        gate.wait_arrived(2)
        wait([writing], MOMENT_S)
        assert len(behind) == 3

        gate.open()
        writing.result(DEADLINE_S)

        assert max(behind) == 3
        assert pages_of(reservoir) == dict.fromkeys(range(1, 11), FULL)


def test_a_checkpoint_waits_for_a_file_that_another_thread_tries_again():
    world = World(uploads_waiting_max=1)
    with world.open() as reservoir, ThreadPoolExecutor() as pool:
        world.objects.fail("create", once=False, key_contains=object_keys.DATA)
        commit(reservoir, {1: FULL})
        with pytest.raises(ObjectStoreUnreachable):
            reservoir.session().write(2, FULL)
        world.objects.heal()
        with gated(world.objects, "create", object_keys.DATA) as gate:
            trying = pool.submit(reservoir.session().write, 3, FULL)
            gate.wait_arrived()

            checkpointing = pool.submit(reservoir.checkpoint)
            wait([checkpointing], MOMENT_S)

            assert world.versions() == [1]
            gate.open()
            trying.result(DEADLINE_S)
            assert checkpointing.result(DEADLINE_S) == 2
    with world.open() as reservoir:
        assert pages_of(reservoir) == {1: FULL}


def test_a_writer_that_waits_is_told_when_the_reservoir_is_closed():
    world = World(uploads_waiting_max=2, uploads_at_once=1)

    def write_many_files(session):
        for page_id in range(1, 10):
            session.write(page_id, FULL)

    with gated(world.objects, "create", object_keys.DATA) as gate, ThreadPoolExecutor() as pool:
        reservoir = world.open()
        writing = pool.submit(write_many_files, reservoir.session())
        gate.wait_arrived()
        closing_it = pool.submit(reservoir.close)

        gate.open()
        closing_it.result(DEADLINE_S)

        with pytest.raises(Closed):
            writing.result(DEADLINE_S)


def test_a_checkpoint_under_way_while_the_reservoir_is_closed_lists_no_file_that_is_not_there():
    world = World(uploads_waiting_max=4, uploads_at_once=1)
    with gated(world.objects, "create", object_keys.DATA) as gate, ThreadPoolExecutor() as pool:
        reservoir = world.open()
        commit(reservoir, {1: FULL, 2: FULL, 3: FULL})
        gate.wait_arrived()
        checkpointing = pool.submit(reservoir.checkpoint)
        closing_it = pool.submit(reservoir.close)

        gate.open()
        closing_it.result(DEADLINE_S)
        acknowledged = checkpointing.exception(DEADLINE_S) is None

    with closing(world.open()) as reservoir:
        assert reservoir.recovered.missing == ()
        assert pages_of(reservoir) == (dict.fromkeys((1, 2, 3), FULL) if acknowledged else {})
