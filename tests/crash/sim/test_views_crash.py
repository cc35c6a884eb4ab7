"""Promise: after a crash a view is what its log folds into, whatever was saved by then.

Random work with the power cut or the process killed before random calls of the disk. Of every disk
that is left: the view as it was found, saved state and replay together, has the digest of one that
is folded from nothing; it goes on from there; and it is found the same after a clean close.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from strandline.errors import Invalid
from strandline.testing.sim_clock import SimClock
from strandline.views import view_types
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Put
from strandline.views.metrics.metrics import Metrics
from strandline.views.queue.queue import Queue
from strandline.views.series.series import Series
from strandline.views.table.condition import Compare
from strandline.views.table.table import Table
from tests.crash.sim.views import Life, Sort
from tests.crash.sim.world import seeds
from tests.unit.views.world import TALLY, Tally


def _tally(view: Tally, chance: random.Random, clock: SimClock) -> None:
    del clock
    keys = [b"%d" % chance.randrange(40) for _ in range(chance.choice((1, 1, 3, 20)))]
    if chance.random() < 0.5:
        view.add(*keys)
    else:
        view.add_up_to(keys[0], 5)


def _kv(view: Kv, chance: random.Random, clock: SimClock) -> None:
    del clock
    key = b"%d" % chance.randrange(12)
    value = b"v" * chance.choice((1, 50, 900))
    drawn = chance.random()
    if drawn < 0.4:
        view.put(key, value, ttl=chance.choice((None, None, 1, 100)))
    elif drawn < 0.55:
        view.delete(key)
    elif drawn < 0.65:
        view.incr(b"n" + key)
    elif drawn < 0.8:
        entry = view.entry(key)
        view.put(key, value, version=0 if entry is None else entry.version)
    else:
        view.batch([Put(b"%d" % n, value) for n in range(chance.randrange(1, 6))])


def _queue(view: Queue, chance: random.Random, clock: SimClock) -> None:
    drawn = chance.random()
    if drawn < 0.35:
        view.put_many(
            [b"job" * chance.randrange(9) for _ in range(chance.choice((1, 2, 12)))],
            priority=chance.choice((1, 5, 9)),
            delay=chance.choice((0, 0, 0, 30)),
            ttl=chance.choice((None, None, 60)),
        )
    elif drawn < 0.45:
        key, group = f"k{chance.randrange(4)}", f"g{chance.randrange(3)}"
        view.put(b"unique", key=key, group=group)
    elif drawn < 0.5:
        _ = view.resume() if view.paused else view.pause()
    elif drawn < 0.53:
        view.compact()
    elif drawn < 0.56:
        view.dead.redrive()
    else:
        jobs = view.claim(chance.choice((1, 3, 10)), worker="w", lease=chance.choice((1, 60)))
        half = len(jobs) // 2
        if chance.random() < 0.6:
            view.ack_many(jobs[:half])
            view.nack_many(jobs[half:], delay=chance.choice((0, 5)))
        elif chance.random() < 0.3:
            clock.advance(2)


def _series(view: Series, chance: random.Random, clock: SimClock) -> None:
    now = clock.now_us() // 1000
    points = [
        (
            chance.randrange(5),
            now - chance.choice((0, 0, 0, 5, 50, 2000)),
            b"p" * chance.choice((0, 5, 300)),
        )
        for _ in range(chance.choice((1, 3, 25)))
    ]
    clock.advance(0.02)
    with contextlib.suppress(Invalid):  # before the floor: refused
        view.append_many(points)
    if chance.random() < 0.05:
        view.run_retention(now - 300)


def _metrics(view: Metrics, chance: random.Random, clock: SimClock) -> None:
    clock.advance(0.5)
    now_s = clock.now_us() // 1_000_000
    lines = [
        f"cpu,host=h{chance.randrange(6)} load={chance.random():.3f},n={chance.randrange(99)}i "
        f"{now_s - chance.choice((0, 0, 1, 30, 500))}"
        for _ in range(chance.choice((1, 3, 40)))
    ]
    with contextlib.suppress(Invalid):  # before the floor: refused
        view.write_lines("\n".join(lines), precision="s")
    if chance.random() < 0.05:
        view.keep("cpu", "300s")
    if chance.random() < 0.05:
        view.downsample("cpu", into="cpu_1m", window="1m")
    if chance.random() < 0.2:
        view.run_once()


def _table(view: Table, chance: random.Random, clock: SimClock) -> None:
    clock.advance(0.5)
    if not view.schema.version:
        view.define({"n": "i64", "cur": ["EUR", "USD"], "note": "string | null"})
    drawn = chance.random()
    if drawn < 0.05:
        view.define(view.schema.fields | {f"f{view.schema.version}": "f64 | null"})
    elif drawn < 0.15:
        view.delete(Compare("n", "=", chance.randrange(10)))
    elif drawn < 0.2:
        view.flush()
    elif drawn < 0.25:
        view.compact()
    else:
        count = chance.choice((1, 1, 3, 20))
        events = [{"n": chance.randrange(10), "cur": "EUR", "note": None} for _ in range(count)]
        view.store_many([f"c{chance.randrange(5)}" for _ in range(count)], events)


SORTS = {
    "tally": Sort(TALLY, {}, _tally),
    "kv": Sort(view_types.KV, {"history": 3, "grace_ms": 10_000}, _kv),
    "queue": Sort(view_types.QUEUE, {"deliveries_max": 2}, _queue),
    "series": Sort(view_types.SERIES, {"jitter": 10, "unit": "ms"}, _series),
    "metrics": Sort(view_types.METRICS, {"block_points": 16}, _metrics),
    "table": Sort(
        view_types.TABLE,
        {"flush_rows": 16, "zone_rows": 256, "retention_ms": 20_000},
        _table,
        share=0.06,
    ),  # its files make many calls
}


@pytest.mark.parametrize("durability", ["disk", "fsync"])
@pytest.mark.parametrize("sort", SORTS)
def test_a_view_is_what_its_log_folds_into_after_any_crash(sort, durability):
    _live(sort, durability, seed=1)


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("sort", SORTS)
def test_a_view_is_what_its_log_folds_into_after_many_crashes(sort, seed):
    _live(sort, "disk" if seed % 2 else "fsync", seed=100 + seed)


def _live(sort: str, durability: str, *, seed: int) -> None:
    life = Life(SORTS[sort], seed, durability=durability, shards=1 + seed % 3)

    life.live(steps=60)
    heads = [life.check(disk) for disk in life.left]

    life.end()
    assert len(heads) >= 5
    assert max(heads) > 20
