"""Promise: a view is the same after a save, a restart, a fold again and with records twice; a save
writes what has changed; a store open for reading only shows it all."""

from __future__ import annotations

import random

import numpy as np
import pytest

from strandline.config.settings import ViewSettings
from strandline.config.view_config import MetricsConfig
from strandline.errors import Corrupt, Invalid
from strandline.views.metrics.ingest.record_codec import draft_floor, draft_points, draft_rule
from strandline.views.metrics.rules import DownsamplingRule, Progress
from strandline.views.view import ViewAppend
from tests.unit.store.world import World
from tests.unit.views.metrics.metrics_world import (
    SECOND,
    SPACE,
    FoldWorld,
    digest,
    host_of,
    open_metrics,
    rebuild,
)


def some_lines(chance: random.Random, count: int) -> list[str]:
    return [
        f"m{chance.randrange(2)},host=h{chance.randrange(9)} v={chance.randrange(99)}i "
        f"{chance.randrange(500)}"
        for _ in range(count)
    ]


def busy(world: FoldWorld, seed: int) -> None:
    """Points, floors, rules and progress, in a random order."""
    chance = random.Random(seed)
    rule = DownsamplingRule(source="m0", into="made", window_ns=10, aggregates=("max",))
    (version,) = world.apply(draft_rule(rule))
    for step in range(30):
        world.lines(*some_lines(chance, chance.randrange(1, 40)))
        if chance.random() < 0.2:
            world.apply(draft_floor(f"m{chance.randrange(2)}", step * 10))
        if chance.random() < 0.2:
            world.apply(draft_points([], Progress("made", version, step * 10)))


@pytest.mark.parametrize("seed", range(5))
def test_a_loaded_fold_is_the_one_that_was_saved(seed):
    world = FoldWorld(tail=30)
    busy(world, seed)

    state = world.saved()

    assert world.loaded(state).digest() == world.fold.digest()


@pytest.mark.parametrize("seed", range(5))
def test_a_fold_of_the_same_records_has_the_same_digest(seed):
    world = FoldWorld(tail=30)
    busy(world, seed)
    world.fold = world.loaded(world.saved())
    world.lines(*some_lines(random.Random(seed), 50))

    assert world.replayed().digest() == world.fold.digest()


def test_the_digest_does_not_depend_on_tails_blocks_or_flushes():
    worlds = [
        FoldWorld(tail=tail, block_points=size) for tail, size in ((16, 16), (999, 64), (50, 4096))
    ]
    for world in worlds:
        busy(world, 7)
    worlds[0].fold.evict(1 << 30)

    assert len({world.fold.digest() for world in worlds}) == 1


@pytest.mark.parametrize(
    "change",
    [
        "m0,host=h0 v=100i 499",
        "m0,host=new v=1i 499",
        "m0,host=h0 w=1i 499",
        "m0,host=h0 v=1i 501",
    ],
)
def test_the_digest_depends_on_every_point_and_name(change):
    world = FoldWorld()
    busy(world, 7)
    before = world.fold.digest()

    world.lines(change)

    assert world.fold.digest() != before


def test_the_digest_depends_on_rules_floors_and_progress():
    world = FoldWorld()
    world.lines("m v=1 100")
    rule = DownsamplingRule(source="m", into="made", window_ns=10, aggregates=("max",))
    seen = {world.fold.digest()}

    (version,) = world.apply(draft_rule(rule))
    seen.add(world.fold.digest())
    world.apply(draft_points([], Progress("made", version, 90)))
    seen.add(world.fold.digest())
    world.lines("m v=1 50")
    stale = world.fold.digest()
    seen.add(stale)
    world.apply(draft_points([], Progress("made", version, 90, [50])))
    seen.add(world.fold.digest())
    world.apply(draft_floor("m", 20))
    seen.add(world.fold.digest())

    assert len(seen) == 6


def test_a_save_writes_no_more_than_what_has_changed():
    world = FoldWorld(tail=1 << 16, block_points=4096)
    hosts = [f"cpu,host=h{n} v={n}i" for n in range(2000)]
    for step in range(10):
        world.lines(*(f"{host} {step}" for host in hosts))
    world.saved()
    before = _written(world)

    world.lines("cpu,host=h7 v=1i 99")
    world.saved()

    assert before > 60_000
    assert _written(world) < 25_000


def test_a_point_below_the_floor_is_dropped_wherever_it_comes_from():
    world = FoldWorld(tail=16)
    world.lines(*(f"m,host=h{n % 3} v={n}i {n}" for n in range(100)))

    world.apply(draft_floor("m", 60))
    world.lines("m,host=h0 v=1i 10", "m,host=h9 v=1i 59", "m,host=h0 v=1i 60")

    (measurement,) = world.fold.catalogue.measurements
    assert len(measurement.series) == 3
    assert world.fold.counts.below_floor == 2
    assert world.replayed().digest() == world.fold.digest()


def test_a_lower_floor_says_nothing():
    world = FoldWorld()
    world.lines("m v=1 100")
    world.apply(draft_floor("m", 50))
    before = world.fold.digest()

    world.apply(draft_floor("m", 20))

    assert world.fold.digest() == before


def test_progress_of_an_older_rule_says_nothing():
    world = FoldWorld()
    old = DownsamplingRule(source="m", into="made", window_ns=10, aggregates=("max",))
    (first,) = world.apply(draft_rule(old))
    world.apply(
        draft_rule(DownsamplingRule(source="m", into="made", window_ns=20, aggregates=("max",)))
    )
    before = world.fold.digest()

    world.apply(draft_points([], Progress("made", first, 90)))

    assert world.fold.standings.all()[0].until is None
    assert world.fold.digest() != before  # for it is known now that there is such a measurement


def test_a_marked_record_that_cannot_be_read_is_counted():
    world = FoldWorld()

    metas = [b"\x00mx" + kind for kind in (b"p", b"r", b"f", b"z")]
    world.apply(ViewAppend(0, [b"?"] * 4, metas=metas))

    assert world.fold.counts.ignored == 4


@pytest.mark.parametrize("how", ["reopen", "kill"])
def test_a_view_is_the_same_after_a_restart(how):
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    metrics = open_metrics(world.store)
    for n in range(300):
        metrics.write("cpu", {"host": f"h{n % 7}"}, {"load": n / 4}, at=n)
        if n == 150:
            world.store.checkpoint()
    before = digest(world.store)

    getattr(world, how)()
    metrics = open_metrics(world.store)

    assert digest(world.store) == before
    assert metrics.aggregate("cpu", "count").values.tolist() == [300]
    world.store.close()


def test_a_store_open_for_reading_shows_what_was_saved_and_what_came_after():
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    metrics = open_metrics(world.store)
    metrics.write_table("cpu", {"at": np.arange(500), "v": np.arange(500)})
    world.store.checkpoint()
    metrics.write_table("cpu", {"at": np.arange(500, 900), "v": np.arange(400)})
    before = digest(world.store)
    world.kill()
    world.store.close()

    reader = world.open(readonly=True)
    metrics = open_metrics(reader)

    assert digest(reader) == before
    assert metrics.aggregate("cpu", "count").values.tolist() == [900]
    with pytest.raises(Invalid, match="read-only"):
        metrics.write("cpu", {}, {"v": 1}, at=5)
    reader.close()


def test_a_view_whose_pages_are_lost_is_folded_again():
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    metrics = open_metrics(world.store)
    metrics.write_table("cpu", {"at": np.arange(500), "v": np.arange(500)})
    world.store.checkpoint()
    host = host_of(world.store)
    for number in range(1, 60):
        host.session.delete(host.saved.space << 32 | number)

    with pytest.raises(Corrupt, match="missing"):
        metrics.read("cpu")

    rebuild(world.store)
    assert len(metrics.read("cpu")) == 500
    world.store.close()


@pytest.mark.parametrize("size", [0, 15, 65_537])
def test_a_size_of_blocks_that_cannot_be_is_refused(size):
    with pytest.raises(Invalid, match="from 16 to 65536"):
        MetricsConfig(block_points=size)


def test_late_points_are_found_where_they_belong_after_many_restarts():
    world = World(views=ViewSettings(memory_bytes=32 << 20))
    chance = random.Random(11)
    expected: dict[int, int] = {}
    for turn in range(12):
        metrics = open_metrics(world.store)
        for _ in range(30):
            at, value = chance.randrange(300) * SECOND, chance.randrange(1000)
            metrics.write("m", {}, {"v": value}, at=at)
            expected[at] = value
        (world.kill if turn % 3 else world.reopen)()

    answer = open_metrics(world.store).read("m")

    assert dict(zip(answer.at.tolist(), answer.values.tolist(), strict=True)) == expected
    assert answer.at.tolist() == sorted(expected)
    world.store.close()


def _written(world: FoldWorld) -> int:
    """Bytes of pages that a checkpoint stores, which this makes."""
    before = world.objects.snapshot()
    world.reservoir.checkpoint()
    return sum(
        len(found.data) for key, found in world.objects.snapshot().items() if key not in before
    )


def test_pages_are_in_the_spaces_of_the_view():
    world = FoldWorld(tail=16)
    busy(world, 1)
    world.saved()

    spaces = {page_id >> 32 for page_id in world.reservoir.page_ids(0, 1 << 62)}

    assert spaces == {SPACE, SPACE + 1, SPACE + 2}
