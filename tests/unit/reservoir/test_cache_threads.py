"""Promise: many threads share one download, wait for room instead of taking too much, read on
while files are given up, and none waits for ever."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from strandline.errors import Closed, ObjectStoreUnreachable
from strandline.platform.disk import OsDisk
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.cache.single_flight import SingleFlight
from strandline.reservoir.page_reader import PageReader
from strandline.testing.sim_objects import SimObjects
from tests.unit.reservoir.cached_files import DEADLINE_S, PAGE_SIZE, World, damage, stored


class Gate:
    """Holds requests for bytes until it is opened, and tells how many are there."""

    def __init__(self, objects: SimObjects) -> None:
        self.inside = 0
        self.inside_most = 0
        self._open = threading.Event()
        self._changed = threading.Condition()
        objects.on_call = self._pass

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.inside == count, DEADLINE_S)

    def open(self) -> None:
        self._open.set()

    def _pass(self, operation: str, key: str) -> None:
        if operation != "get_ranges":
            return
        self._step(1)
        assert self._open.wait(DEADLINE_S)
        self._step(-1)

    def _step(self, by: int) -> None:
        with self._changed:
            self.inside += by
            self.inside_most = max(self.inside_most, self.inside)
            self._changed.notify_all()


@contextmanager
def threads(count: int) -> Iterator[Callable[..., Future[bytes]]]:
    with ThreadPoolExecutor(count) as pool:
        yield pool.submit


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again, up to a deadline."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_S * 1000)):
        if holds():
            return
        pause.wait(0.001)
    raise AssertionError("it did not come to that")


def wait_for_misses(cache: FileCache, count: int) -> None:
    """Until so many have found nothing: then they wait, or are about to."""
    wait_until(lambda: cache.statistics().misses >= count)


def test_concurrent_readers_of_a_file_share_one_download():
    world = World()
    file = world.stored(1)
    gate = Gate(world.objects)

    with threads(8) as start:
        reads = [start(lambda: world.cache.open(file.ref).pread(1000, 0)) for _ in range(8)]
        wait_for_misses(world.cache, 8)
        gate.open()
        answers = [read.result(DEADLINE_S) for read in reads]

    assert answers == [file.data] * 8
    assert world.objects.calls["get_ranges"] == 1


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns so often that every order of their steps comes up."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_readers_that_miss_at_the_same_moment_never_download_twice():
    world = World(files_max=300)
    files = [world.stored(n) for n in range(1, 251)]
    together = threading.Barrier(4, timeout=DEADLINE_S)

    def read() -> bytes:
        for file in files:
            together.wait()
            world.cache.open(file.ref)
        return b""

    with threads(4) as start:
        for reads in [start(read) for _ in range(4)]:
            reads.result(DEADLINE_S)

    assert world.objects.calls["get_ranges"] == len(files)


def test_a_failure_is_the_answer_for_all_who_wait_and_the_next_tries_again():
    flights: SingleFlight[bytes] = SingleFlight()

    def fail() -> bytes:
        wait_until(lambda: flights.waiting() == 3)
        raise ObjectStoreUnreachable("no answer")

    with threads(4) as start:
        joined = [start(flights.join, 1, fail) for _ in range(4)]
        errors = [each.exception(DEADLINE_S) for each in joined]

    assert [type(error) for error in errors] == [ObjectStoreUnreachable] * 4
    assert flights.join(1, lambda: b"fetched") == b"fetched"


def test_many_who_meet_the_same_damage_have_it_replaced_once():
    world = World()
    file = world.stored(1)
    reader = PageReader(world.objects, world.cache)
    together = threading.Barrier(4, timeout=DEADLINE_S)

    def read() -> bytes:
        together.wait()
        return reader.read(*file.page(3))

    for turn in range(1, 51):
        reader.read(*file.page(0))
        damage(world.disk, file, 3 * PAGE_SIZE)
        with threads(4) as start:
            pages = [each.result(DEADLINE_S) for each in [start(read) for _ in range(4)]]

        assert pages == [file.content(3)] * 4
        assert world.objects.calls["get_ranges"] == 1 + turn


def test_at_most_so_many_downloads_run_at_once():
    world = World(files_max=10, downloads_max=2)
    files = [world.stored(n) for n in range(1, 7)]
    gate = Gate(world.objects)

    with threads(6) as start:
        reads = [start(lambda f=f: world.cache.open(f.ref).pread(1000, 0)) for f in files]
        wait_for_misses(world.cache, 6)
        gate.wait_for(2)
        gate.open()
        answers = [read.result(DEADLINE_S) for read in reads]

    assert answers == [file.data for file in files]
    assert gate.inside_most == 2


def test_a_download_waits_while_others_have_reserved_the_room():
    world = World(files_max=1.5, downloads_max=9)
    first, second = world.stored(1), world.stored(2)
    gate = Gate(world.objects)

    with threads(2) as start:
        reads = [start(lambda: world.cache.open(first.ref).pread(1000, 0))]
        gate.wait_for(1)
        reads.append(start(lambda: world.cache.open(second.ref).pread(1000, 0)))
        wait_for_misses(world.cache, 2)
        gate.open()
        answers = [read.result(DEADLINE_S) for read in reads]

    assert answers == [first.data, second.data]
    assert gate.inside_most == 1
    assert len(world.ids()) == 1


def test_a_new_file_never_waits_for_room():
    world = World(files_max=1.5)
    first, second = world.stored(1), world.stored(2)
    gate = Gate(world.objects)

    with threads(1) as start:
        read = start(lambda: world.cache.open(first.ref).pread(1000, 0))
        gate.wait_for(1)
        world.cache.add(second.ref, [second.data])
        gate.open()
        answer = read.result(DEADLINE_S)

    assert answer == first.data
    assert world.ids() == [1]


def test_adopting_spares_what_is_being_written():
    world = World()
    file = world.stored(1)
    gate = Gate(world.objects)

    with threads(1) as start:
        read = start(lambda: world.cache.open(file.ref).pread(1000, 0))
        gate.wait_for(1)
        world.cache.adopt([file.ref])
        gate.open()
        answer = read.result(DEADLINE_S)

    assert answer == file.data
    assert world.ids() == [1]


def test_closing_waits_for_the_download_under_way_and_leaves_no_part():
    world = World(downloads_max=1)
    first, second = world.stored(1), world.stored(2)
    gate = Gate(world.objects)

    with threads(3) as start:
        under_way = start(lambda: world.cache.open(first.ref))
        gate.wait_for(1)
        waiting = start(lambda: world.cache.open(second.ref))
        wait_for_misses(world.cache, 2)
        closing = start(world.cache.close)
        error = waiting.exception(DEADLINE_S)
        closed_early = closing.done()
        gate.open()
        closing.result(DEADLINE_S)

    assert isinstance(error, Closed)
    assert isinstance(under_way.exception(), Closed)
    assert not closed_early
    assert world.names() == []
    world.opened().close()


def test_a_leader_that_is_broken_off_leaves_the_lead_to_another():
    flights: SingleFlight[bytes] = SingleFlight()
    leading, follows = threading.Event(), threading.Event()

    def broken_off() -> bytes:
        leading.set()
        assert follows.wait(DEADLINE_S)
        raise KeyboardInterrupt

    def follow() -> bytes:
        follows.set()
        return flights.join(1, lambda: b"fetched")

    with threads(2) as start:
        first = start(flights.join, 1, broken_off)
        assert leading.wait(DEADLINE_S)
        second = start(follow)

        assert second.result(DEADLINE_S) == b"fetched"
        with pytest.raises(KeyboardInterrupt):
            first.result(DEADLINE_S)


def test_readers_are_right_while_files_come_and_go(data_dir: str):
    objects = SimObjects()
    files = [stored(objects, n) for n in range(1, 9)]
    cache = FileCache(data_dir, OsDisk(), objects, bytes_max=3000)
    reader = PageReader(objects, cache)
    over = threading.Event()

    def read_at_random(seed: int) -> int:
        chance = random.Random(seed)
        for _ in range(400):
            file, number = chance.choice(files), chance.randrange(10)
            assert reader.read(*file.page(number)) == file.content(number)
        return cache.statistics().bytes

    def disturb() -> None:
        chance = random.Random(0)
        while not over.is_set():
            cache.evict(chance.randrange(1, 9))
            cache.run_once()
            new = chance.choice(files)
            cache.add(new.ref, [new.data])
            assert cache.statistics().bytes <= 3000

    with threads(5) as start:
        disturbing = start(disturb)
        readers = [start(read_at_random, seed) for seed in range(4)]
        try:
            sizes = [read.result(DEADLINE_S) for read in readers]
        finally:
            over.set()
        disturbing.result(DEADLINE_S)
    cache.close()

    assert max(sizes) <= 3000
    assert cache.statistics().failures == 0
