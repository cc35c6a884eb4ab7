"""Promise: who waits for a sync is told once, together with all whom it covers, and never of an
append that is not on the disk; a sync that fails is told to everybody who waits."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator

import pytest

from strandline.errors import StoreFailed
from strandline.server.commit_waiters import CommitWaiters
from strandline.store import Store
from strandline.testing.sim_disk import SimDisk

DEADLINE_S = 60


class Waiter:
    """Whoever waits: what it was told, and how often it could speak."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: dict[object, BaseException | None] = {}
        self.flushed = 0
        self.spoke = asyncio.Event()
        self._fails = fails

    def on_durable(self, append: object, error: BaseException | None) -> None:
        assert append not in self.told
        self.told[append] = error
        if self._fails:
            raise ZeroDivisionError

    def flush(self) -> None:
        self.flushed += 1
        self.spoke.set()


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


@pytest.fixture
def store(disk: SimDisk) -> Iterator[Store]:
    with Store("/data", disk=disk) as opened:
        opened.topic("safe", durability="fsync").append(b"first")
        yield opened


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await work()

    asyncio.run(bounded())


def test_all_who_came_in_one_turn_of_the_loop_are_told_by_one_sync(store, disk):
    async def work() -> None:
        durable, waiters = CommitWaiters(), [Waiter() for _ in range(5)]
        before = disk.calls["sync"]
        for number, waiter in enumerate(waiters):
            for part in range(2):
                pending = store.topic("safe").append_nowait(b"%d" % number)
                durable.wait(pending, waiter, part)
        assert not any(waiter.told for waiter in waiters)

        for waiter in waiters:
            await waiter.spoke.wait()

        assert [waiter.told for waiter in waiters] == [{0: None, 1: None}] * 5
        assert [waiter.flushed for waiter in waiters] == [1] * 5
        assert disk.calls["sync"] == before + 1

    run(work)


def test_what_is_durable_when_it_comes_is_told_without_a_sync(store, disk):
    async def work() -> None:
        durable, waiter = CommitWaiters(), Waiter()
        topic = store.topic("safe")
        known = topic.place_many([b"once"], idempotency_key="k")
        known.wait()
        synced = topic.append_nowait(b"second")
        synced.wait()
        again = topic.place_many([b"once"], idempotency_key="k")
        before = disk.calls["sync"]

        durable.wait(synced, waiter, "synced")
        durable.wait(again, waiter, "known")
        assert not waiter.told  # never before it returns
        await waiter.spoke.wait()

        assert waiter.told == {"synced": None, "known": None}
        assert disk.calls["sync"] == before

    run(work)


def test_a_sync_that_fails_is_told_to_everybody_who_waits_and_to_all_who_come_later(store, disk):
    async def work() -> None:
        durable, waiters, late = CommitWaiters(), [Waiter() for _ in range(4)], Waiter()
        topic = store.topic("safe")
        disk.fail("sync", errno=errno.EIO)
        placed = [topic.append_nowait(b"lost") for _ in waiters]
        for pending, waiter in zip(placed, waiters, strict=True):
            durable.wait(pending, waiter, "x")
        for waiter in waiters:
            await waiter.spoke.wait()
        durable.wait(placed[-1], late, "x")
        assert not late.told
        await late.spoke.wait()

        assert [type(waiter.told["x"]) for waiter in [*waiters, late]] == [StoreFailed] * 5
        assert topic.head_seq == 1

    run(work)


def test_what_was_synced_before_the_disk_failed_is_acknowledged_all_the_same(store, disk):
    async def work() -> None:
        durable, early, later = CommitWaiters(), Waiter(), Waiter()
        topic = store.topic("safe")
        kept = topic.append_nowait(b"kept")
        kept.wait()
        disk.fail("sync", errno=errno.EIO)
        lost = topic.append_nowait(b"lost")

        durable.wait(kept, early, "kept")
        durable.wait(lost, later, "lost")
        await early.spoke.wait()
        await later.spoke.wait()

        assert early.told == {"kept": None}
        assert isinstance(later.told["lost"], StoreFailed)

    run(work)


def test_a_bug_in_telling_one_keeps_nobody_else_from_being_told(store):
    async def work() -> None:
        durable, broken, good = CommitWaiters(), Waiter(fails=True), Waiter()
        for waiter in (broken, good):
            durable.wait(store.topic("safe").append_nowait(b"x"), waiter, 1)
        await good.spoke.wait()

        assert broken.told == good.told == {1: None}

    run(work)
