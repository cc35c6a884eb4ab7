"""Appends that wait for a sync, and are notified together when it is done.

A future for each of them would cost more than the append. So all appends that wait for one shard
are in one queue, which requests the next sync of the shard once, after the loop has read all
received requests: ``log/wal/committer.py`` then covers them with one sync. A waiter may be notified
of several appends in a round, and writes its responses afterwards, in one write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

import structlog

from strandline.log.append.append import PendingAppend
from strandline.log.wal.committer import Committer

_LOG = structlog.get_logger("strandline.server")


class Waiter(Protocol):
    """Waits for appends. Called on the loop."""

    def on_durable(self, append: Any, error: BaseException | None) -> None:
        """An append is durable, or never will be because of ``error``."""
        ...

    def flush(self) -> None:
        """All appends of this round were reported."""
        ...


class CommitWaiters:
    """The waiting appends, by shard. Owned by the loop's thread."""

    def __init__(self) -> None:
        self._queues: dict[Committer, _ShardQueue] = {}

    def wait(self, pending: PendingAppend, waiter: Waiter, append: object) -> None:
        """Notify a waiter when an append is durable; never before this returns."""
        queue = self._queues.get(pending.committer)
        if queue is None:
            queue = self._queues[pending.committer] = _ShardQueue(pending.committer)
        queue.add(pending.lsn, waiter, append)


class _ShardQueue:
    """The waiting appends of one shard, in the order of the log."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, Waiter, object]] = deque()
        self._is_requested = False

    def add(self, lsn: int, waiter: Waiter, append: object) -> None:
        self._waiting.append((lsn, waiter, append))
        if not self._is_requested:
            self._is_requested = True
            self._loop.call_soon(self._request_sync)

    def _request_sync(self) -> None:
        try:
            synced = self._committer.synced_future(self._waiting[-1][0], None)
        except Exception as error:  # noqa: BLE001 - waiters must get every error
            self._notify(error)
        else:
            synced.add_done_callback(self._on_synced)

    def _on_synced(self, synced: asyncio.Future[None]) -> None:
        self._notify(synced.exception())

    def _notify(self, error: BaseException | None) -> None:
        """Notify the waiters of synced appends; with an error, all waiters."""
        waiting, synced_lsn = self._waiting, self._committer.synced
        notified: dict[Waiter, None] = {}
        # Only the loop appends, so the queue is in the order of the log, except for appends that
        # were durable when they were added; these may wait for a round.
        while waiting and (error is not None or waiting[0][0] <= synced_lsn):
            lsn, waiter, append = waiting.popleft()
            notified[waiter] = None
            try:
                waiter.on_durable(append, None if lsn <= synced_lsn else error)
            except Exception as bug:  # noqa: BLE001 - the others must still be notified
                _LOG.error("internal error in an acknowledgement", exc_info=bug)
        self._is_requested = bool(waiting)
        if waiting:
            self._request_sync()
        for waiter in notified:
            waiter.flush()
