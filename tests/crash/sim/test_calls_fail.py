"""Promise: whichever call to the disk fails, the caller is told, and nothing acknowledged is lost.

E2, E3. The same work again and again; each time another call fails, once or from then on, with EIO
or ENOSPC or after a part of the bytes, until there is no call left that did not. A refused append
leaves nothing in front of a later one.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from strandline.errors import DiskFull, StoreFailed, StrandlineError
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.fault_injection import Fault
from tests.crash.sim.watch import power_losses
from tests.crash.sim.world import World, read_store

CALLS_MAX = 2000
LARGE = 40_000  # written, not stored into the mapping

Work = Callable[[World], None]


def _append(size: int, count: int = 1) -> Work:
    return lambda world: world.append("orders", [world.entry(size=size) for _ in range(count)])


WORK: tuple[Work, ...] = (
    _append(100),
    _append(30, 5),
    _append(LARGE),
    _append(200),
    lambda world: world.delete("orders", match="eu"),
    lambda world: world.checkpoint(),
    _append(LARGE),
    _append(700, 12),
    lambda world: world.reopen(),
    _append(100),
    lambda world: world.delete("orders", before=3),
    lambda world: world.checkpoint(),
    _append(20),
)


def _live_through(world: World) -> None:
    """Do all the work; what is refused is not done, what is poisoned ends the process."""
    for work in WORK:
        known = {name: len(lineage.versions) for name, lineage in world.lineages.items()}
        try:
            work(world)
        except StoreFailed:
            _restart(world)
        except (StrandlineError, *_also_fine(work)):
            for name, count in known.items():
                del world.lineages[name].versions[count:]
            if world.store.health().status == "red":
                _restart(world)


def _also_fine(work: Work) -> tuple[type[OSError], ...]:
    """An append speaks of the log; whoever works on files may be told of the file."""
    return () if work.__qualname__.startswith("_append") else (OSError,)


def _restart(world: World) -> None:
    """The process ends and the next one begins, on a disk that works again."""
    world.go_on(world.disk.kill(), power_loss=False)


def _check(world: World) -> None:
    found = read_store(world.store)["orders"]
    newest = world.newest("orders")
    assert newest is not None
    assert (found.head, found.live) == (newest.head, newest.live)
    for choices in (Oldest(), Newest(), random.Random(world.seed)):
        world.check(world.disk.crash(choices), power_loss=True)


def _fail_each(plan: Callable[[World, int], Fault]) -> int:
    """Live one life for every call that can fail; how many there were."""
    for nth in range(1, CALLS_MAX):
        world = World(nth)
        world.create("orders", durability="fsync")
        fault = plan(world, nth)
        _live_through(world)
        fired = fault.fired
        if fired != 1:  # it would strike again, or for the first time, while we look
            _restart(world)
        _check(world)
        if not fired:
            return nth - 1
    raise AssertionError("the work never ends")


@pytest.mark.parametrize(
    ("code", "once"),
    [
        pytest.param(errno.EIO, True, id="EIO once"),
        pytest.param(errno.ENOSPC, False, id="ENOSPC from then on"),
        pytest.param(errno.EIO, False, id="EIO from then on", marks=pytest.mark.slow),
        pytest.param(errno.ENOSPC, True, id="ENOSPC once", marks=pytest.mark.slow),
    ],
)
def test_any_call_may_fail(code, once):
    def plan(world: World, nth: int) -> Fault:
        return world.disk.fail("*", nth, errno=code, once=once)

    assert _fail_each(plan) > 100


@pytest.mark.parametrize("operation", ["write", "reserve.write", "durable_replace"])
@pytest.mark.parametrize("short", [0, 8, 100, 5000])
def test_any_write_may_be_cut_short(operation, short):
    def plan(world: World, nth: int) -> Fault:
        return world.disk.fail(operation, nth, errno=errno.ENOSPC, short=short)

    assert _fail_each(plan) > 1


def test_a_frame_behind_a_failed_write_does_not_mix_with_it_after_a_power_loss():
    world = World(1)
    world.create("orders", durability="fsync")
    world.append("orders", [world.entry(size=10)])
    world.disk.fail("write", 2, errno=errno.EIO, short=33_000)  # the first is a file's header
    world.propose("orders", [world.entry(size=LARGE)])
    with pytest.raises(StrandlineError):
        world.topic("orders").append(b"\xff" * LARGE)
    world.withdraw("orders")

    world.propose("orders", [entry := world.entry(size=3000)])
    world.topic("orders").append_nowait(entry.data, key=entry.key, tag=entry.tag)

    for after in power_losses(world.disk, random.Random(1), 300):
        world.check(after, power_loss=True)


def test_a_refused_reservation_of_seqs_is_made_again():
    for size in range(0, 800, 8):
        world = World(1)
        topic = world.create("events", durability="disk")
        for _ in range(128):  # from here on the next append reserves more
            topic.append(b"x" * 20)
        world.create("filler", durability="fsync")
        world.store.topic("filler").append(b"x" * size)
        world.disk.capacity = 0
        for _ in range(20):
            try:
                topic.append(b"x" * 20)
            except DiskFull:
                break

        world.disk.capacity = None
        for _ in range(300):
            topic.append(b"x" * 20)

        assert topic.head_seq >= 428


def test_an_interrupted_sync_leaves_nothing_unsynced_behind():
    for nth in range(1, 200):
        world = World(1)
        world.create("orders", durability="fsync")
        calls = iter(range(1, 10_000))

        def interrupt(operation: str, path: str, calls=calls, nth=nth) -> None:
            del path
            if "sync" in operation and next(calls) == nth:
                raise KeyboardInterrupt

        waiting = []
        for number in range(1, 5):
            world.propose("orders", [entry := world.entry(size=3000)])
            waiting.append(
                world.topic("orders").append_nowait(entry.data, key=entry.key, tag=entry.tag)
            )
            del number
        world.disk.on_call = interrupt
        interrupted = 0
        for pending in waiting:
            try:
                pending.wait()
            except KeyboardInterrupt:
                interrupted += 1
                pending.wait()
        world.disk.on_call = None
        world.lineages["orders"].settle(kept=True, durable=True)

        world.check(world.disk.crash(Oldest()), power_loss=True)
        if not interrupted:
            break
    assert nth > 1
