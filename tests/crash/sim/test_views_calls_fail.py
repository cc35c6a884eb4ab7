"""Promise: whichever call to the disk fails, a view is what its log folds into, and no record goes.

E2, E3. The same work of each kind of view is repeated; each time another call to the disk fails,
once or from then on, until every call has failed. A step that fails raises one of our errors. Then
the process ends, the next one opens the store on a disk that works, and finds every record that the
log had before; the view has the digest of one that is folded from nothing, and goes on. `make test`
takes a sample of the calls, `make crash` all of them.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import random
from collections.abc import Callable

import pytest

from strandline.errors import StrandlineError
from strandline.testing.fault_injection import Fault
from tests.crash.sim.test_views_crash import SORTS
from tests.crash.sim.views import NAME, Life
from tests.crash.sim.world import LONG

STEPS = 14
UPKEEP: dict[int, Callable[[Life], None]] = {
    3: lambda life: life.store.checkpoint(),
    5: Life.rebuild,
    6: lambda life: life.store.relocate(),
    7: lambda life: life.store.checkpoint(),
    10: Life.rebuild,
    11: lambda life: life.store.checkpoint(),
}
"""What is done after a step: it reads and writes files, which most steps do not."""
QUICK = 12
"""Calls of each kind that fail in ``make test``."""


def _nothing(life: Life) -> None:
    del life


def _live(life: Life, seed: int, arm: Callable[[int], None]) -> int:
    """Work until it is done or the store cannot go on; the records that the log must have."""
    chance = random.Random(seed)
    head = life.store.existing_topic(NAME).head_seq
    for number in range(STEPS):
        try:
            life.step(chance)
        except StrandlineError:
            if life.store.health().status == "red":
                return head
        head = life.store.existing_topic(NAME).head_seq
        arm(number)
        with contextlib.suppress(StrandlineError, OSError):  # upkeep names the file that failed
            UPKEEP.get(number, _nothing)(life)
    return head


def _life(sort: str, nth: int, code: int, *, once: bool, after: int | None = None) -> bool:
    """One life in which the nth call fails, counted after a step; whether there was one."""
    life = Life(SORTS[sort], 5, durability="fsync", shards=1)
    faults: list[Fault] = []

    def arm(number: int | None) -> None:
        if number == after:
            faults.append(life.disk.fail("*", nth, errno=code, once=once))

    arm(None)
    head = _live(life, 5, arm)
    fired = any(fault.fired for fault in faults)
    if once and life.store.health().status != "red":
        in_memory = life.digest()
        life.rebuild()
        assert life.digest() == in_memory, f"call {nth}: the view in memory is not its log"
    left = life.disk.kill()
    life.disk.power_off()
    found = life.check(left)

    assert found >= head, f"call {nth}: the log had {head} records and has {found}"
    return fired


@pytest.mark.parametrize(
    ("code", "once"),
    [
        pytest.param(errno.EIO, True, id="EIO once"),
        pytest.param(errno.ENOSPC, False, id="ENOSPC from then on"),
    ],
)
@pytest.mark.parametrize("sort", SORTS)
def test_any_call_may_fail_under_a_view(sort, code, once):
    if LONG:
        calls = itertools.takewhile(
            lambda nth: _life(sort, nth, code, once=once), itertools.count(1)
        )
        assert sum(1 for _ in calls) > 20
        return
    chance = random.Random(f"{sort} {code}")
    for nth in sorted(chance.sample(range(1, 120), QUICK)):
        _life(sort, nth, code, once=once)
    for step, nth in itertools.product((5, 10), range(1, 5)):
        _life(sort, nth, code, once=once, after=step)
