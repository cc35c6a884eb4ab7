"""Appends that wait for a sync, and are told together when it is done.

A future for each of them would cost more than the append. So all that wait for one shard stand in
one line, which asks the shard for its next sync once for everybody, when the loop has taken what
had arrived: ``log/wal/committer.py`` then covers all of it with one sync. Whoever is told may be
told of several appends at once, and writes what it has to say afterwards, in one piece.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

import structlog

from strandline.log.append.append import Pending
from strandline.log.wal.committer import Committer

_LOG = structlog.get_logger("strandline.server")


class Waiter(Protocol):
    """Whoever waits for appends. Called on the loop."""

    def settled(self, append: Any, error: BaseException | None) -> None:
        """An append is durable, or why it never will be."""
        ...

    def flush(self) -> None:
        """All of this round was told."""
        ...


class Durable:
    """Those who wait, by shard. Owned by the loop's thread."""

    def __init__(self) -> None:
        self._lines: dict[Committer, _Line] = {}

    def wait(self, pending: Pending, waiter: Waiter, append: object) -> None:
        """Tell a waiter when an append is durable; never before this returns."""
        line = self._lines.get(pending.committer)
        if line is None:
            line = self._lines[pending.committer] = _Line(pending.committer)
        line.add(pending.lsn, waiter, append)


class _Line:
    """Those who wait for one shard."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, Waiter, object]] = deque()
        self._has_asked = False

    def add(self, lsn: int, waiter: Waiter, append: object) -> None:
        self._waiting.append((lsn, waiter, append))
        if not self._has_asked:
            self._has_asked = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        try:
            synced = self._committer.synced_future(self._waiting[-1][0], None)
        except Exception as error:  # noqa: BLE001 - whatever it is, they must hear of it
            self._tell(error)
        else:
            synced.add_done_callback(self._heard)

    def _heard(self, synced: asyncio.Future[None]) -> None:
        self._tell(synced.exception())

    def _tell(self, error: BaseException | None) -> None:
        """Tell those who are served, or everybody why nobody will be."""
        waiting, upto = self._waiting, self._committer.synced
        told: dict[Waiter, None] = {}
        # Appends are placed by the loop alone, so the line is in the order of the log but for
        # those that were durable when they came, and these may wait for a round.
        while waiting and (error is not None or waiting[0][0] <= upto):
            lsn, waiter, append = waiting.popleft()
            told[waiter] = None
            try:
                waiter.settled(append, None if lsn <= upto else error)
            except Exception as bug:  # noqa: BLE001 - the others must be told all the same
                _LOG.error("an acknowledgement met a bug", exc_info=bug)
        self._has_asked = bool(waiting)
        if waiting:
            self._ask()
        for waiter in told:
            waiter.flush()
