"""Promise: memory is counted as it is, stays within its share, and is given back."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from strandline.config.settings import ViewSettings
from strandline.errors import Invalid, MemoryPressure, StrandlineError, TooLarge, Unavailable
from strandline.views.metrics.fold import MetricsFold
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import NAME, FoldWorld, host_of, open_metrics

DEADLINE_S = 60.0


def noise(count: int, first: int = 0) -> dict[str, np.ndarray]:
    values = np.random.default_rng(first).normal(size=count)
    return {"at": np.arange(first, first + count), "v": values}


def test_what_is_charged_is_what_there_is():
    world = FoldWorld(tail=1000)
    for n in range(0, 5000, 500):
        world.lines(*(f"m,host=h{i % 50} v={i} {i}" for i in range(n, n + 500)))

        assert world.share.used == world.fold.statistics()["ram_bytes"] > 0


def test_a_fold_that_is_thrown_away_gives_its_memory_back():
    world = FoldWorld()
    world.lines(*(f"m,host=h{n} v=1 1" for n in range(100)))
    assert world.share.used > 10_000

    del world.fold
    gc.collect()

    assert world.share.used == 0


def test_eviction_frees_the_tail_and_new_pages_and_changes_nothing():
    world = FoldWorld(tail=10_000, block_points=4096)
    world.lines(*(f"m v={n} {n}" for n in range(9000)))
    before, used = world.fold.digest(), world.share.used

    freed = world.fold.evict(1 << 30)

    assert freed > 150_000
    assert world.share.used == used - freed
    assert world.fold.digest() == before


def test_a_fold_that_could_not_be_loaded_frees_nothing():
    world = FoldWorld()

    assert MetricsFold(world.config, world.world).evict(1000) == 0


def test_memory_that_cannot_be_freed_is_nobody_elses_failure_and_nothing_is_lost(monkeypatch):
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    metrics = open_metrics(world.store, tail=1 << 16)
    metrics.write_table("noise", noise(10_000))
    share = host_of(world.store).world.share
    before = host_of(world.store).digest()

    def failing(page: bytes) -> int:
        raise Unavailable("the disk is failing")

    with monkeypatch.context() as patched:
        patched.setattr(host_of(world.store).fold._pages, "put", failing)
        freed = [evict(1 << 30) for evict in share._evictors]

    assert freed == [0]
    assert host_of(world.store).digest() == before
    assert metrics.aggregate("noise", "count").values.tolist() == [10_000]
    assert [evict(1 << 30) > 100_000 for evict in share._evictors] == [True]
    assert host_of(world.store).digest() == before
    world.store.close()


def test_a_view_that_is_gone_is_not_kept_by_the_budget():
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    open_metrics(world.store).write("cpu", {}, {"load": 1.0}, at=1)
    share = host_of(world.store).world.share
    host = weakref.ref(host_of(world.store))

    world.store.delete_topic(NAME)
    gc.collect()

    assert host() is None
    assert [evict(1000) for evict in share._evictors] == [0]
    world.store.close()


def test_ten_times_the_share_is_written_within_it():
    world = World(views=ViewSettings(memory_bytes=8 << 20))
    metrics = open_metrics(world.store, tail=1 << 16, block_points=1024)
    share = host_of(world.store).world.share
    largest = 0

    for first in range(0, 600_000, 10_000):
        metrics.write_table("noise", noise(10_000, first))
        largest = max(largest, share.used)

    assert largest < share.limit * 1.1
    assert metrics.aggregate("noise", "count").values.tolist() == [600_000]
    world.store.close()


def test_series_beyond_memory_are_refused_and_others_go_on():
    world = World(views=ViewSettings(memory_bytes=4 << 20))
    metrics = open_metrics(world.store)
    written: list[int] = []

    def write_more() -> None:
        for first in range(0, 100_000, 500):
            hosts = [f"h{n}" for n in range(first, first + 500)]
            table = {"at": np.full(500, 1), "host": hosts, "v": np.ones(500)}
            metrics.write_table("cpu", table, tags=["host"])
            written.append(500)

    with pytest.raises((MemoryPressure, TooLarge)):
        write_more()

    assert sum(written) >= 1000
    assert metrics.cardinality().series == sum(written)
    world.store.close()


def test_many_threads_write_and_ask_at_once():
    world = World(views=ViewSettings(memory_bytes=64 << 20))
    metrics = open_metrics(world.store, tail=200)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(60):
                metrics.write("cpu", {"host": f"h{number}"}, {"load": float(n)}, at=n)
                found = metrics.read("cpu", tags={"host": f"h{number}"})
                assert found.values.tolist() == [float(i) for i in range(n + 1)]
                metrics.query("cpu | window(10ns) | avg by (host)")
        except (AssertionError, StrandlineError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert failures == []
    assert metrics.aggregate("cpu", "count").values.tolist() == [360]
    world.store.close()


def test_threads_that_define_a_field_at_once_agree_on_its_kind():
    world = World(views=ViewSettings(memory_bytes=64 << 20))
    metrics = open_metrics(world.store)
    outcomes: list[object] = []
    start = threading.Barrier(4)

    def work(value: float | int) -> None:
        for n in range(20):
            start.wait(DEADLINE_S)
            try:
                metrics.write(f"m{n}", {}, {"v": value}, at=1)
                outcomes.append(type(value))
            except Invalid as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=work, args=(value,)) for value in (1.5, True, 2.5, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    refused = [each for each in outcomes if isinstance(each, str)]
    assert len(outcomes) == 80
    assert all("nothing was written" in each for each in refused)
    assert metrics.statistics().other_kind_points == 0
    assert len(refused) == 40
    world.store.close()
