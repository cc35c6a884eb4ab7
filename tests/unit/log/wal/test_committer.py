"""Promise (D1, E1, E9): a commit returns only after its sync; those who wait share one.

A failed sync is final and reaches everybody who waits: threads, coroutines, on any loop.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet

import pytest

from strandline.config.settings import WalSettings
from strandline.errors import Closed, StoreFailed
from strandline.testing.crash_choices import Oldest
from tests.unit.log.wal.log import Log

DEADLINE_S = 30
CALLERS = 8
LARGE = WalSettings(file_size_first=1 << 20)


class SlowDisk:
    """Stops every sync of a log file until it is let go."""

    def __init__(self, log: Log) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        log.disk.on_call = self._on_call

    def _on_call(self, operation: str, _: str) -> None:
        if operation == "sync":
            self.entered.release()
            assert self.let_go.acquire(timeout=DEADLINE_S)


@pytest.fixture
def log() -> Log:
    made = Log(settings=LARGE)
    made.single(b"the first record of a term syncs its file")
    made.committer.sync_now()
    return made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CALLERS) as pool:
        yield pool


def _commit(log: Log) -> int:
    log.single(b"x")
    lsn = log.writer.end_lsn
    log.committer.wait_synced(lsn)
    return lsn


def _until(condition: Callable[[], bool]) -> None:
    """Wait for another thread to get somewhere."""
    for _ in range(DEADLINE_S * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


def test_commit_returns_only_after_sync(log, threads):
    disk = SlowDisk(log)

    commit: Future[int] = threads.submit(_commit, log)
    assert disk.entered.acquire(timeout=DEADLINE_S)
    with pytest.raises(NotYet):
        commit.result(timeout=0.05)
    disk.let_go.release()

    assert commit.result(DEADLINE_S) <= log.committer.synced


def test_what_was_waited_for_survives_a_power_loss(log):
    for _ in range(5):
        _commit(log)

        survivors = log.scanned(log.disk.crash(Oldest()))
        assert [seq for seq, _ in survivors] == list(range(1, log.next_seq))


def test_waiting_callers_share_one_sync(log, threads):
    disk = SlowDisk(log)
    before = log.committer.rounds
    first = threads.submit(_commit, log)
    assert disk.entered.acquire(timeout=DEADLINE_S)

    others = [threads.submit(_commit, log) for _ in range(CALLERS - 1)]
    _until(lambda: log.next_seq == CALLERS + 2)
    for _ in range(CALLERS):
        disk.let_go.release()

    wait([first, *others], DEADLINE_S)
    assert all(commit.done() for commit in (first, *others))
    assert log.committer.rounds - before == 2


def test_records_are_published_after_the_sync_and_in_order(log):
    published = []
    disk_calls = log.disk.calls

    def publish(number: int) -> Callable[[], None]:
        return lambda: published.append((number, disk_calls["sync"]))

    before = disk_calls["sync"]
    for number in range(3):
        log.single(b"x")
        log.locked(log.committer.publish_when_synced, publish(number))
    assert published == []
    log.committer.sync_now()

    assert published == [(0, before + 1), (1, before + 1), (2, before + 1)]


def test_what_is_placed_during_a_sync_waits_for_the_next(log, threads):
    disk = SlowDisk(log)
    published = []
    first = threads.submit(_commit, log)
    assert disk.entered.acquire(timeout=DEADLINE_S)

    log.single(b"late")
    log.locked(log.committer.publish_when_synced, lambda: published.append("late"))
    disk.let_go.release()
    first.result(DEADLINE_S)

    assert published == []
    assert log.committer.synced < log.writer.end_lsn


def test_a_failed_sync_reaches_every_waiter_and_nothing_is_published(log, threads):
    disk = SlowDisk(log)
    published = []
    first = threads.submit(_commit, log)
    assert disk.entered.acquire(timeout=DEADLINE_S)
    others = [threads.submit(_commit, log) for _ in range(CALLERS - 1)]
    _until(lambda: log.next_seq == CALLERS + 2)
    log.locked(log.committer.publish_when_synced, lambda: published.append("never"))

    log.disk.fail("sync", errno=errno.EIO)
    for _ in range(CALLERS):
        disk.let_go.release()

    for commit in (first, *others):
        with pytest.raises(StoreFailed):
            commit.result(DEADLINE_S)
    assert published == []


def test_a_failed_sync_is_final(log):
    log.disk.fail("sync", errno=errno.EIO)

    with pytest.raises(StoreFailed):
        _commit(log)
    before = log.disk.calls["sync"]
    for _ in range(3):
        with pytest.raises(StoreFailed):
            log.committer.wait_synced(log.writer.end_lsn)
    with pytest.raises(StoreFailed):
        log.single(b"x")

    assert log.disk.calls["sync"] == before


def test_a_failed_sync_of_the_directory_is_final_too():
    log = Log()
    log.single(b"x")
    log.batch([b"y" * 10_000])
    log.disk.fail("sync_dir", errno=errno.EIO)

    with pytest.raises(StoreFailed):
        log.committer.sync_now()


def test_the_old_file_and_the_directory_are_synced_before_the_new_file():
    log = Log()
    log.single(b"x")
    log.committer.sync_now()
    log.batch([b"y" * 10_000])
    order = []
    log.disk.on_call = lambda operation, path: order.append((operation, path.rpartition("/")[2]))

    log.committer.sync_now()

    (first, old), (second, folder), (third, new) = order
    assert (first, second, third, folder) == ("sync", "sync_dir", "sync", "shard-03")
    assert old < new


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def submit(self, log: Log, lsn: int) -> Future[None]:
        async def wait() -> None:
            await log.committer.synced_future(lsn, None)

        return asyncio.run_coroutine_threadsafe(wait(), self.loop)

    def submit_waiting(self, log: Log) -> Future[None]:
        """The same once the coroutine has lined up for all that is placed."""
        log.committer.kick.clear()
        future = self.submit(log, log.writer.end_lsn)
        assert log.committer.kick.wait(DEADLINE_S)
        return future

    def settle(self) -> None:
        """Return after all that was to be done on the loop is done."""
        for _ in range(3):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(DEADLINE_S)

    def close(self) -> None:
        self.settle()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


@pytest.fixture
def loops() -> Iterator[list[LoopThread]]:
    made = [LoopThread(), LoopThread()]
    yield made
    for loop in made:
        if not loop.loop.is_closed():
            loop.close()


def test_coroutines_on_two_loops_are_woken_by_one_sync(log, loops):
    log.single(b"x")
    futures = [loop.submit_waiting(log) for loop in loops for _ in range(3)]
    before = log.committer.rounds

    log.committer.run_once()

    assert [future.result(DEADLINE_S) for future in futures] == [None] * 6
    assert log.committer.rounds == before + 1


def test_a_coroutine_does_not_wait_for_what_is_durable(log, loops):
    log.committer.sync_now()

    assert loops[0].submit(log, log.committer.synced).result(DEADLINE_S) is None


def test_a_failed_sync_reaches_coroutines(log, loops):
    log.single(b"x")
    futures = [loop.submit_waiting(log) for loop in loops]
    log.disk.fail("sync", errno=errno.EIO)

    with pytest.raises(StoreFailed):
        log.committer.run_once()
    log.committer.fail_waiters()

    for future in futures:
        with pytest.raises(StoreFailed):
            future.result(DEADLINE_S)
    with pytest.raises(StoreFailed):
        loops[0].submit(log, log.writer.end_lsn).result(DEADLINE_S)


def test_a_loop_that_was_closed_meanwhile_harms_nobody(log, loops):
    log.single(b"x")
    abandoned, waiting = (loop.submit_waiting(log) for loop in loops)
    abandoned.cancel()
    loops[0].close()

    log.committer.run_once()

    assert waiting.result(DEADLINE_S) is None
    assert log.writer.failure is None


def test_a_closed_writer_lets_nobody_wait(log, threads):
    log.single(b"x")
    log.writer.close()

    commit = threads.submit(log.committer.wait_synced, log.writer.end_lsn + 8)

    with pytest.raises(Closed):
        commit.result(DEADLINE_S)
