"""Promise: many threads may append, read and retain at once; each sees its own points in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import strandline
from strandline.errors import Invalid
from tests.unit.views.series.series_world import ats, open_series

DEADLINE_S = 60
POINTS = 300


def run_all(works: list[Callable[[], None]]) -> None:
    """Run them at once; what one of them raises travels."""
    with ThreadPoolExecutor(len(works)) as pool:
        for running in [pool.submit(work) for work in works]:
            running.result(DEADLINE_S)


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_threads_with_a_source_each_find_their_points(tmp_path, durability):
    with strandline.open(str(tmp_path)) as store:
        gps = open_series(store, durability=durability)

        def write(source: str) -> None:
            for at in range(POINTS):
                gps.append(source, at, b"%d" % at)
                if at % 50 == 0:
                    assert ats(gps.range(source)) == list(range(at + 1))

        run_all([lambda source=source: write(source) for source in "abcd"])

        assert {name: ats(points) for name, points in gps.range_all().items()} == {
            name: list(range(POINTS)) for name in (b"a", b"b", b"c", b"d")
        }


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_what_is_not_refused_is_kept_while_the_floor_rises(tmp_path, durability):
    with strandline.open(str(tmp_path)) as store:
        gps = open_series(store, durability=durability)
        kept: list[int] = []

        def write() -> None:
            for at in range(POINTS):
                try:
                    gps.append("bus", at, b"")
                except Invalid:
                    continue
                kept.append(at)

        def retain() -> None:
            for floor in range(0, POINTS, 10):
                gps.run_retention(floor)

        run_all([write, retain])

        floor = gps.statistics().floor
        assert floor == POINTS - 10
        assert ats(gps.range("bus")) == [at for at in kept if at >= floor]
        assert gps.statistics().refused == POINTS - len(kept)


def test_readers_see_whole_batches(tmp_path):
    with strandline.open(str(tmp_path)) as store:
        gps = open_series(store)
        done = threading.Event()

        def write() -> None:
            for at in range(POINTS):
                gps.append_many([("a", at, b""), ("b", at, b"")])
            done.set()

        def read() -> None:
            while not done.is_set():
                found = gps.range(["a", "b"])
                assert ats(found["a"]) == ats(found["b"])

        run_all([write, read, read])

        assert len(gps.range("a")) == POINTS
