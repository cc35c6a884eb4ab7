"""Group commit: many waiting appends, one sync.

Appending threads place frames (``log/wal/writer.py``). An append that must be durable then waits
here until the log is synced past its frame. The first waiter leads: it syncs everything placed so
far, publishes what became durable, and wakes the others; of those whose frames came too late for
the round it wakes one, which leads the next. While one round waits for the disk the next group
forms, so there is no timer: the sync in flight is the window.

Coroutines do not lead. They add a future and kick the shard's sync job, whose round resolves all
of them with one call into their loop. A server under load may delay the kick (``window_s``), so
that a round covers more. The same job syncs ``disk`` and ``memory`` topics after their appends.

A failed sync is final. Linux discards a page that could not be written and reports the error once,
so a second sync may succeed while the bytes are gone: the shard is poisoned, every waiter fails,
and nothing that waited for the failed round is ever published.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from strandline.log.wal.spin_lock import SpinLock
from strandline.log.wal.stats import SlowSyncs, SyncTimes
from strandline.log.wal.writer import Writer
from strandline.platform.system_errors import as_unavailable

_TRIES_FOR_COROUTINES = 8  # a loop places many appends in a row: a round should cover them
_CHECK_INTERVAL_S = 0.5  # how often a waiter checks whether the shard has failed

_Result = TypeVar("_Result")
_Waiting = tuple[int, asyncio.Future[Any], object]


class Committer:
    """Makes one shard durable. Safe from many threads."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.synced = writer.end_lsn
        self.rounds = 0
        self.times = SyncTimes()
        self.waiting_most = 0
        """The most appends that waited when a round began."""
        self.kick = threading.Event()
        self.window_s = 0.0
        """How long a round for coroutines waits for more of them. 0 unless the load is high."""
        self._is_kicking = False
        self._lead_lock = SpinLock()
        self._wake_lock = SpinLock()  # one round may end while the one before still wakes
        self._waiters: deque[tuple[int, threading.Lock]] = deque()
        self._pending: deque[tuple[int, Callable[[], None]]] = deque()
        self._futures: list[_Waiting] = []
        self._futures_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of appends that wait for a sync."""
        return max(len(self._pending), len(self._futures))

    @property
    def slow_syncs(self) -> SlowSyncs | None:
        """The slow syncs of the last minute; None when the disk is not slow."""
        return self.times.slow(self.writer.files.shard, self.writer.monotonic())

    def publish_when_synced(self, publish: Callable[[], None]) -> int:
        """Call ``publish`` once all placed frames are durable; returns the lsn. Lock held."""
        lsn = self.writer.end_lsn
        self._pending.append((lsn, publish))
        return lsn

    def wait_synced(self, lsn: int) -> None:
        """Return once the log is durable up to an lsn; raises when it never will be."""
        while self.synced < lsn:
            self._check()
            if not self._try_lead(lsn):
                self._follow(lsn)

    def synced_future(self, lsn: int, result: _Result) -> asyncio.Future[_Result]:
        """As ``wait_synced``, for a coroutine: a future that the shard's sync job resolves."""
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        if self.synced >= lsn:
            future.set_result(result)
            return future
        self._check()
        with self._futures_lock:
            self._futures.append((lsn, future, result))
        if self.window_s and not self._is_kicking:
            self._is_kicking = True
            future.get_loop().call_later(self.window_s, self._kick_late)
        elif not self.window_s and not self.kick.is_set():
            self.kick.set()
        return future

    def _kick_late(self) -> None:
        self._is_kicking = False
        self.kick.set()

    def run_once(self) -> None:
        """Sync what is not yet durable: one run of the background job."""
        if self.synced < self.writer.end_lsn or self._pending or self._futures:
            self.wait_synced(self.writer.end_lsn)
            self._resolve_futures()

    def sync_now(self) -> None:
        """Make everything placed so far durable."""
        self.wait_synced(self.writer.end_lsn)

    def refuse_reentry(self) -> None:
        """Raise in a signal handler that interrupted a step or a round of the same thread."""
        self.writer.lock.refuse_reentry()
        self._lead_lock.refuse_reentry()
        self._wake_lock.refuse_reentry()

    def fail_waiters(self) -> None:
        """Wake all waiters, which then raise the failure of the shard."""
        self._wake()
        self._resolve_futures()

    def _try_lead(self, lsn: int) -> bool:
        claim: list[object] = [None]
        try:
            if self._lead_lock.claims.setdefault(0, claim) is not claim:
                return False
            if self.synced < lsn:
                self._check()  # the leader before this one may have failed a moment ago
                self._round()
            self._lead_lock.release()
        except BaseException:
            self._lead_lock.drop(claim)
            self._wake()
            raise
        self._wake()
        return True

    def _follow(self, lsn: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._waiters.append((lsn, gate))
        # A leader releases the lead before it wakes waiters. If the lead is held now, that leader's
        # wake follows and will see this gate; if not, return, and try to lead again.
        if self._lead_lock.claims and not gate.acquire(timeout=_CHECK_INTERVAL_S):
            self.refuse_reentry()

    def _round(self) -> None:
        writer = self.writer
        self.waiting_most = max(self.waiting_most, self.waiting)
        writer.acquire_first(_TRIES_FOR_COROUTINES if self._futures else 1)
        try:
            target, files, names_dirty = writer.take_dirty()
        finally:
            writer.release()
        self.times.begin_sync(writer.monotonic())
        synced = False
        try:
            for file in files[:-1]:
                file.sync()
            if names_dirty:
                writer.files.disk.sync_dir(writer.files.directory)
            if files:
                files[-1].sync()
            synced = True
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # The directory could not be opened: nothing was synced, and the log is intact.
                writer.restore_dirty(files[:-1], names_dirty=names_dirty)
                raise as_unavailable(error, "the log") from error
            writer.poison(f"a sync of shard {writer.files.shard} failed ({error})")
            self._pending.clear()
            self._check()
        except BaseException:
            writer.restore_dirty(files[:-1], names_dirty=names_dirty)
            raise
        finally:
            self.times.end_sync(writer.monotonic(), synced=synced)
        self.rounds += 1
        self._advance(target)

    def _advance(self, target: int) -> None:
        writer, pending = self.writer, self._pending
        writer.acquire_first()
        try:
            while pending and pending[0][0] <= target:
                pending.popleft()[1]()
            # Last: readers without the lock take it as the sign that all is published.
            self.synced = writer.durable_upto = target
        except BaseException as error:
            writer.poison(f"a publication was interrupted ({error!r})")
            raise
        finally:
            writer.release()

    def _wake(self) -> None:
        """Release the waiters whose lsn is decided, and one of the others to lead."""
        waiters = self._waiters
        next_leader: threading.Lock | None = None
        self._wake_lock.acquire()
        try:
            for _ in range(len(waiters)):
                lsn, gate = waiters.popleft()
                if self._is_decided(lsn):
                    gate.release()
                elif next_leader is None:
                    next_leader = gate
                else:
                    waiters.append((lsn, gate))
        finally:
            self._wake_lock.release()
        if next_leader is not None:
            next_leader.release()

    def _resolve_futures(self) -> None:
        done: list[_Waiting] = []
        waiting: list[_Waiting] = []
        with self._futures_lock:
            for entry in self._futures:
                (done if self._is_decided(entry[0]) else waiting).append(entry)
            self._futures = waiting
        by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        for entry in done:
            by_loop.setdefault(entry[1].get_loop(), []).append(entry)
        for loop, entries in by_loop.items():
            # A closed loop has no waiters.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._resolve, entries)
        if self._futures:
            self.kick.set()

    def _is_decided(self, lsn: int) -> bool:
        return lsn <= self.synced or self.writer.failure is not None

    def _resolve(self, entries: list[_Waiting]) -> None:
        for lsn, future, result in entries:
            if future.done():
                continue
            if lsn <= self.synced:
                future.set_result(result)
            elif self.writer.failure is not None:
                future.set_exception(self.writer.failure)

    def _check(self) -> None:
        if self.writer.failure is not None:
            raise self.writer.failure
