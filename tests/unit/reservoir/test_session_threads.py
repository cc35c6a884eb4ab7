"""Promise: sessions of many threads, checkpoints and readers go on at once, and every committed
page is right, at each moment and at the end."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.reservoir.small_reservoir import DEADLINE_S, World, pages_of

THREADS = 4
PAGES = 60
ROUNDS = 25


def write(reservoir, owner: int) -> dict[int, bytes]:
    """Commit, roll back and delete pages that are this thread's alone; what must be there."""
    drawn, model = random.Random(owner), {}
    with reservoir.session() as session:
        for number in range(ROUNDS):
            changes = {}
            for page_id in drawn.sample(range(owner, PAGES * THREADS, THREADS), 8):
                data = b"%d %d " % (page_id, number) * drawn.randrange(40)
                changes[page_id + 1] = None if drawn.random() < 0.2 else data
            for page_id, data in changes.items():
                if data is None:
                    session.delete(page_id)
                else:
                    session.write(page_id, data)
            if drawn.random() < 0.2:
                session.rollback()
                continue
            session.commit()
            model |= changes
            for page_id in changes:
                assert reservoir.read(page_id) == model[page_id]
    return {page_id: data for page_id, data in model.items() if data is not None}


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_every_committed_page_is_right_while_checkpoints_run(compression):
    world = World(snapshot_interval=3, compression=compression, uploads_waiting_max=2)
    done = threading.Event()
    everything = range(1, PAGES * THREADS + 1)

    def checkpoint():
        count = 0
        while not done.is_set() or count < 5:
            reservoir.checkpoint(b"%d" % count)
            count += 1

    with world.open() as reservoir, ThreadPoolExecutor(THREADS + 1) as pool:
        checkpointing = pool.submit(checkpoint)
        writing = [pool.submit(write, reservoir, owner) for owner in range(THREADS)]
        try:
            model = {}
            for each in writing:
                model |= each.result(DEADLINE_S)
        finally:
            done.set()
        checkpointing.result(DEADLINE_S)

        assert pages_of(reservoir, everything) == model
        assert len(reservoir) == len(model)
        reservoir.checkpoint()
    with world.open() as reservoir:
        assert reservoir.recovered.missing == ()
        assert pages_of(reservoir, everything) == model


def test_a_reader_sees_a_commit_whole_or_not_at_all_in_a_recovered_version():
    world = World(snapshot_interval=3, retained_versions=3)
    done = threading.Event()

    def commit_pairs():
        with reservoir.session() as session:
            for number in range(200):
                session.write(1, b"%d" % number)
                session.write(2, b"%d" % number * 200)
                session.commit()
        done.set()

    with world.open() as reservoir, ThreadPoolExecutor() as pool:
        committing = pool.submit(commit_pairs)
        while not done.is_set():
            reservoir.checkpoint()
            with world.open(readonly=True) as reader:
                found = pages_of(reader, range(1, 3))
                assert found == {} or found[2] == found[1] * 200
        committing.result(DEADLINE_S)


def test_pages_are_read_while_their_files_are_rewritten_and_deleted():
    world = World(snapshot_interval=2, retained_versions=0, compact_share=0.5)
    done = threading.Event()
    page = {page_id: b"%d " % page_id * 30 for page_id in range(1, 40)}

    def read():
        while not done.is_set():
            assert pages_of(reservoir, range(1, 40)) == page

    with world.open() as reservoir, ThreadPoolExecutor() as pool:
        with reservoir.session() as session:
            session.write_many(list(page), list(page.values()))
            session.commit()
        reading = [pool.submit(read) for _ in range(2)]
        try:
            with reservoir.session() as session:
                for number in range(60):
                    for page_id in random.Random(number).sample(range(1, 40), 15):
                        session.write(page_id, page[page_id])
                    session.commit()
                    reservoir.checkpoint()
        finally:
            done.set()
        for each in reading:
            each.result(DEADLINE_S)
