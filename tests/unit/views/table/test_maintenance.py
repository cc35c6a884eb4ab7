"""Promise: a writer that is faster than files are written waits for one file, and for nothing else
of the background work; and whatever runs at the same time, every row is there once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

import strandline
from strandline.config.settings import Settings
from strandline.errors import ObjectStoreDenied
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from strandline.views.table.table import _PASSIVES_MAX, Table
from tests.unit.store.world import NO_SPACE_WATCH, PATH, SMALL_WAL
from tests.unit.views.table.world import event, host_of, numbers, table_of

DEADLINE_S = 10.0
FLUSH_ROWS = 16
PASSIVES = _PASSIVES_MAX + 1


class Gate:
    """Holds calls of the object store until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def hold(self) -> None:
        self.reached.set()
        assert self._opened.wait(DEADLINE_S)

    def open(self) -> None:
        self._opened.set()


class World(NamedTuple):
    """A store without jobs, and its lake."""

    store: Store
    objects: SimObjects


@pytest.fixture
def world() -> Iterator[World]:
    objects = SimObjects()
    settings = Settings(wal=SMALL_WAL, space=NO_SPACE_WATCH)
    with strandline.open(
        PATH,
        disk=SimDisk(),
        clock=SimClock(),
        objects=objects,
        settings=settings,
        start_jobs=False,
    ) as store:
        yield World(store, objects)


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def store_rows(table: Table, first: int, count: int) -> int:
    """Numbered events as one batch; the number after the last."""
    table.store_many("c", [event(n) for n in range(first, first + count)])
    return first + count


def fill_passives(table: Table, first: int) -> int:
    """One more than a writer may leave behind; the number after the last row."""
    for _ in range(PASSIVES):
        first = store_rows(table, first, FLUSH_ROWS)
    return first


def test_a_writer_waits_for_one_file_and_not_for_the_next(world, background):
    table = table_of(world.store, flush_rows=FLUSH_ROWS)
    following = fill_passives(table, 1)
    gates = [Gate(), Gate()]
    uploads = iter(gates)

    def on_call(operation: str, _: str) -> None:
        if operation == "put_file" and (gate := next(uploads, None)) is not None:
            gate.hold()

    world.objects.on_call = on_call
    turn = background.submit(table.maintain)
    assert gates[0].reached.wait(DEADLINE_S)
    writer = background.submit(store_rows, table, following, 1)
    gates[0].open()

    assert writer.result(DEADLINE_S) == following + 1
    assert gates[1].reached.wait(DEADLINE_S)
    assert not turn.done()
    gates[1].open()
    turn.result(DEADLINE_S)
    assert numbers(table) == list(range(1, following + 1))


def test_a_writer_does_not_wait_for_a_merge(world, background):
    table = table_of(world.store, flush_rows=FLUSH_ROWS)
    following = fill_passives(table, 1)
    table.flush()
    gate, segments = Gate(), host_of(world.store).fold.segments
    merging: list[int] = []

    def on_call(operation: str, _: str) -> None:
        if operation == "get_ranges" and threading.get_ident() in merging:
            gate.hold()

    def merge() -> None:
        merging.append(threading.get_ident())
        table.compact()

    world.objects.on_call = on_call
    compacting = background.submit(merge)
    assert gate.reached.wait(DEADLINE_S)
    files = len(segments.files)
    following = fill_passives(table, following)

    assert background.submit(store_rows, table, following, 1).result(DEADLINE_S) == following + 1
    assert len(segments.files) > files
    assert not compacting.done()
    gate.open()
    compacting.result(DEADLINE_S)
    assert len(segments.files) < files
    assert numbers(table) == list(range(1, following + 1))


def test_a_failed_file_of_the_background_is_written_by_the_writer(world):
    table = table_of(world.store, flush_rows=FLUSH_ROWS)
    following = fill_passives(table, 1)
    world.objects.fail("put_file", how="denied")
    with pytest.raises(ObjectStoreDenied):
        table.maintain()

    following = store_rows(table, following, 1)

    assert table.statistics().files == 1
    assert numbers(table) == list(range(1, following))


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_there_once_whatever_runs_at_the_same_time(world, background, seed):
    table = table_of(world.store, flush_rows=FLUSH_ROWS)
    chance = random.Random(seed)
    firsts = list(range(0, 800, 40))
    works = [lambda first=first: store_rows(table, first, 40) for first in firsts]
    works += [table.maintain, table.flush, table.compact, world.store.checkpoint] * 3
    chance.shuffle(works)

    running: list[Future[object]] = [background.submit(work) for work in works]
    for each in running:
        each.result(DEADLINE_S)

    assert numbers(table) == list(range(800))
    table.flush()
    assert numbers(table) == list(range(800))
    assert table.statistics().memory_rows == 0
