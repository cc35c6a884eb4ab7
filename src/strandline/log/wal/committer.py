"""Group commit: many waiting appends, one sync.

Frames are placed by whoever appends (``log/wal/writer.py``). An append that must be durable then
waits
here for the log to be synced past its frame. The first that waits leads: it syncs everything placed
so far, publishes what became durable, and wakes the others; of those that came too late it wakes
one, which leads the next round. While one round waits for the disk the next group forms, so there
is no timer: the sync in flight is the window.

Coroutines do not lead. They leave a future and kick the shard's sync job, whose round resolves all
of them with one call into their loop. A server under load may let the kick wait (``window_s``), so
that a round covers more. The same job syncs behind ``disk`` and ``memory`` topics.

A failed sync is final. Linux forgets a page that could not be written and reports it once, so a
second sync may succeed while the bytes are gone: the shard is poisoned, every waiter fails, and
nothing that waited for the failed round is ever published.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from strandline.log.wal.spin_lock import Baton
from strandline.log.wal.stats import SlowSyncs, SyncTimes
from strandline.log.wal.writer import Writer
from strandline.platform.system_errors import as_unavailable

_TRIES_FOR_COROUTINES = 8  # one loop places many appends in a row: a round should cover them
_PATIENCE_S = 0.5  # how often a waiter looks whether the shard has failed meanwhile

Answer = TypeVar("Answer")
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
        self._leading = Baton()
        self._waking = Baton()  # one round may end while the one before still wakes
        self._waiters: deque[tuple[int, threading.Lock]] = deque()
        self._pending: deque[tuple[int, Callable[[], None]]] = deque()
        self._futures: list[_Waiting] = []
        self._futures_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many appends wait for a sync."""
        return max(len(self._pending), len(self._futures))

    @property
    def slow_syncs(self) -> SlowSyncs | None:
        """The slow syncs of the last minute; None when the disk is not slow."""
        return self.times.slow(self.writer.files.shard, self.writer.monotonic())

    def publish_when_synced(self, publish: Callable[[], None]) -> int:
        """Call this once all that is placed is durable. Writer's lock held; returns the lsn."""
        lsn = self.writer.end_lsn
        self._pending.append((lsn, publish))
        return lsn

    def wait_synced(self, lsn: int) -> None:
        """Return once the log is durable up to an lsn; raises when it never will be."""
        while self.synced < lsn:
            self._check()
            if not self._try_lead(lsn):
                self._follow(lsn)

    def synced_future(self, lsn: int, answer: Answer) -> asyncio.Future[Answer]:
        """The same for a coroutine, which gets the answer: the shard's sync job does the work."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.synced >= lsn:
            future.set_result(answer)
            return future
        self._check()
        with self._futures_lock:
            self._futures.append((lsn, future, answer))
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
        """Sync whatever is not yet durable: the background job's turn."""
        if self.synced < self.writer.end_lsn or self._pending or self._futures:
            self.wait_synced(self.writer.end_lsn)
            self._resolve_futures()

    def sync_now(self) -> None:
        """Make everything placed so far durable."""
        self.wait_synced(self.writer.end_lsn)

    def refuse_reentry(self) -> None:
        """Raise in a signal handler that interrupted a step or a round of this very thread."""
        self.writer.baton.refuse_reentry()
        self._leading.refuse_reentry()
        self._waking.refuse_reentry()

    def fail_waiters(self) -> None:
        """Wake everybody so that they see why the shard stopped."""
        self._wake()
        self._resolve_futures()

    def _try_lead(self, lsn: int) -> bool:
        claim: list[object] = [None]
        try:
            if self._leading.claims.setdefault(0, claim) is not claim:
                return False
            if self.synced < lsn:
                self._check()  # the leader before this one may have failed a moment ago
                self._round()
            self._leading.release()
        except BaseException:
            self._leading.drop(claim)
            self._wake()
            raise
        self._wake()
        return True

    def _follow(self, lsn: int) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._waiters.append((lsn, gate))
        # A leader releases the lead before it wakes. If the lead is taken now, that leader's wake
        # is still to come and will see this gate; if not, go round and lead.
        if self._leading.claims and not gate.acquire(timeout=_PATIENCE_S):
            self.refuse_reentry()

    def _round(self) -> None:
        writer = self.writer
        self.waiting_most = max(self.waiting_most, self.waiting)
        writer.acquire_first(_TRIES_FOR_COROUTINES if self._futures else 1)
        try:
            target, files, names_dirty = writer.take_dirty()
        finally:
            writer.release()
        self.times.begin(writer.monotonic())
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
                # The directory could not be opened: nothing was tried, and nothing is in doubt.
                writer.give_back(files[:-1], names_dirty=names_dirty)
                raise as_unavailable(error, "the log") from error
            writer.poison(f"a sync of shard {writer.files.shard} failed ({error})")
            self._pending.clear()
            self._check()
        except BaseException:
            writer.give_back(files[:-1], names_dirty=names_dirty)
            raise
        finally:
            self.times.end(writer.monotonic(), synced=synced)
        self.rounds += 1
        self._advance(target)

    def _advance(self, target: int) -> None:
        writer, pending = self.writer, self._pending
        writer.acquire_first()
        try:
            while pending and pending[0][0] <= target:
                pending.popleft()[1]()
            # Last: who looks at it without the lock takes it as a sign that all is published.
            self.synced = writer.durable_upto = target
        except BaseException as error:
            writer.poison(f"a publication was interrupted ({error!r})")
            raise
        finally:
            writer.release()

    def _wake(self) -> None:
        """Let go those who are served, and one of the others to lead."""
        waiters = self._waiters
        next_leader: threading.Lock | None = None
        self._waking.acquire()
        try:
            for _ in range(len(waiters)):
                lsn, gate = waiters.popleft()
                if self._settled(lsn):
                    gate.release()
                elif next_leader is None:
                    next_leader = gate
                else:
                    waiters.append((lsn, gate))
        finally:
            self._waking.release()
        if next_leader is not None:
            next_leader.release()

    def _resolve_futures(self) -> None:
        done: list[_Waiting] = []
        waiting: list[_Waiting] = []
        with self._futures_lock:
            for entry in self._futures:
                (done if self._settled(entry[0]) else waiting).append(entry)
            self._futures = waiting
        by_loop: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        for entry in done:
            by_loop.setdefault(entry[1].get_loop(), []).append(entry)
        for loop, entries in by_loop.items():
            # A loop that was closed has nobody left who could wait.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, entries)
        if self._futures:
            self.kick.set()

    def _settled(self, lsn: int) -> bool:
        return lsn <= self.synced or self.writer.failure is not None

    def _settle(self, entries: list[_Waiting]) -> None:
        for lsn, future, answer in entries:
            if future.done():
                continue
            if lsn <= self.synced:
                future.set_result(answer)
            elif self.writer.failure is not None:
                future.set_exception(self.writer.failure)

    def _check(self) -> None:
        if self.writer.failure is not None:
            raise self.writer.failure
