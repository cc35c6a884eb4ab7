"""Promise: after a crash a view is what its log folds into, whatever was saved by then.

Random work with the power cut or the process killed before random calls of the disk. Of every disk
that is left: the view as it was found, saved state and replay together, has the digest of one that
is folded from nothing; it goes on from there; and it is found the same after a clean close.
"""

from __future__ import annotations

import random

import pytest

from strandline.testing.sim_clock import SimClock
from strandline.views import kinds
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Put
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


SORTS = {
    "tally": Sort(TALLY, {}, _tally),
    "kv": Sort(kinds.KV, {"history": 3, "grace_ms": 10_000}, _kv),
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
    life = Life(SORTS[sort], seed, durability=durability, share=0.2)

    life.live(steps=60)
    heads = [life.check(disk) for disk in life.left]

    life.end()
    assert len(heads) >= 5
    assert max(heads) > 20
