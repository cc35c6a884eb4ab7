"""Promise: whichever call or allocation fails, it is refused with our error, and nothing is lost.

The scenario uses every feature. It is repeated; each time another call of the disk, request to the
object store or allocation of a large buffer fails, once or from then on, until every one has
failed. A step succeeds or raises one of our errors, MemoryError, or
the OSError of a file that it names; then, on a system that works
again, jobs do their work; then the process is killed, and what was acknowledged is there. `make
test` takes a sample, `make crash` all of them.
"""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from strandline.errors import StrandlineError
from strandline.testing.allocations import Allocations
from tests.crash.sim.scenario import World
from tests.crash.sim.world import LONG

QUICK = 4
"""Failures of each kind in ``make test``."""


@contextmanager
def _disk(world: World, nth: int, code: int, *, once: bool) -> Iterator[Callable[[], int]]:
    fault = world.disk.fail("*", nth, errno=code, once=once)
    yield lambda: fault.fired
    world.disk.heal()


@contextmanager
def _requests(world: World, nth: int, *, once: bool) -> Iterator[Callable[[], int]]:
    fault = world.objects.fail("*", nth, once=once)
    yield lambda: fault.fired
    world.objects.heal()


@contextmanager
def _memory(world: World, nth: int, *, once: bool) -> Iterator[Callable[[], int]]:
    allocations = Allocations(nth, once=once)
    world.disk.on_call = allocations.on_call
    with allocations.in_codecs():
        yield lambda: allocations.fired
    world.disk.on_call = None


KINDS = {
    "EIO": partial(_disk, code=errno.EIO),
    "ENOSPC": partial(_disk, code=errno.ENOSPC),
    "EMFILE": partial(_disk, code=errno.EMFILE),
    "requests": _requests,
    "memory": _memory,
}


def _fails(kind: str, nth: int, *, once: bool) -> bool:
    """One life with a failure; whether there was one."""
    world = World()
    with KINDS[kind](world, nth, once=once) as fired:
        raised = world.live()
        count = fired()
    where = f"{kind} {nth}{'' if once else ' and from then on'}"
    expected = (StrandlineError, OSError, MemoryError)
    assert [error for error in raised if not isinstance(error, expected)] == [], where
    if world.store.health().status != "red":
        world.work_on()
        assert world.broken() == [], where
    world.disk = world.disk.kill()
    world.store = world.opened()
    assert world.broken() == [], f"{where}, after a kill"
    world.work_on()
    world.store.close()
    return count > 0


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("kind", KINDS)
def test_anything_may_fail(kind, once):
    if LONG:
        count = sum(
            1 for _ in itertools.takewhile(lambda n: _fails(kind, n, once=once), itertools.count(1))
        )
        assert count > 10
        return
    chance = random.Random(f"{kind} {once}")
    last = 40 if kind == "requests" else 400
    fired = [_fails(kind, nth, once=once) for nth in chance.sample(range(1, last), QUICK)]
    assert any(fired)


def test_without_a_failure_every_step_succeeds():
    world = World()

    raised = world.live()

    assert raised == []
    world.work_on()
    assert world.broken() == []
