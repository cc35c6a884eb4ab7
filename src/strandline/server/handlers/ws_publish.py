"""Publishes over WebSocket: what they ask for, and their acks, which come in their order.

An append that waits for a sync is acknowledged when ``server/commit_waiters.py`` says so; those
behind it wait for it. Acks that are due together leave in one piece.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from strandline.api import live
from strandline.api.errors import problem_of
from strandline.server.commit_waiters import Durable
from strandline.server.handlers.append import Placed

_DRAIN_S = 1.0

RequestId = str | int | None


class _Owed:
    """An append whose ack is not told yet."""

    __slots__ = ("placed", "request_id", "told")

    def __init__(self, request_id: RequestId, placed: Placed) -> None:
        self.request_id = request_id
        self.placed = placed
        self.told = b""
        """What to tell, once it is known."""


class Acks:
    """The acks of one connection. Owned by the loop's thread."""

    def __init__(self, durable: Durable, write: Callable[..., None]) -> None:
        self._durable = durable
        self._write = write
        self._owed: deque[_Owed] = deque()  # the first one waits for a sync
        self._ready: list[bytes] = []
        self._fewer: asyncio.Future[None] | None = None  # done when some were told
        self._is_over = False

    @property
    def count(self) -> int:
        """How many are not told yet."""
        return len(self._owed)

    def owe(self, request_id: RequestId, placed: Placed) -> None:
        """Acknowledge an append once it is durable, and those before it are; then ``flush``."""
        if placed.pending is None and not self._owed:
            self._ready.append(_ack(request_id, placed))
            return
        owed = _Owed(request_id, placed)
        self._owed.append(owed)
        if placed.pending is None:
            owed.told = _ack(request_id, placed)
        else:
            self._durable.wait(placed.pending, self, owed)

    def settled(self, append: _Owed, error: BaseException | None) -> None:
        """An append is durable, or will never be."""
        if error is None:
            append.told = _ack(append.request_id, append.placed)
        else:
            append.told = refusal(error, append.request_id)

    def flush(self) -> None:
        """Send the acks that are not behind one that waits."""
        owed, ready = self._owed, self._ready
        if self._is_over:
            owed.clear()
            ready.clear()
        while owed and owed[0].told:
            ready.append(owed.popleft().told)
        if ready:
            self._write(*ready)
            ready.clear()
        if self._fewer is not None and not self._fewer.done():
            self._fewer.set_result(None)

    async def wait_for_fewer(self) -> None:
        """Return when some were told."""
        self._fewer = asyncio.get_running_loop().create_future()
        await self._fewer

    async def drain(self) -> None:
        """Give what was placed a moment to be acknowledged."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                while self._owed:
                    await self.wait_for_fewer()

    def end(self) -> None:
        """Nobody hears of them any more."""
        self._is_over = True


def body_of(message: live.Publish) -> bytes:
    """What the route would get as its body."""
    if (
        message.create is UNSET
        and message.config is UNSET
        and message.idempotency_key is UNSET
        and message.node is UNSET
        and message.disable_backpressure is UNSET
    ):
        return b'{"records":%b}' % bytes(message.records)
    told = {
        "records": message.records,
        "create": message.create,
        "config": message.config,
        "idempotency_key": message.idempotency_key,
        "node": message.node,
        "disable_backpressure": message.disable_backpressure,
    }
    given = {name: value for name, value in told.items() if value is not UNSET}
    return msgspec.json.encode(given)


def _ack(request_id: RequestId, placed: Placed) -> bytes:
    _, answer = placed.answer()
    return b'{"op":"ack","request_id":%b,%b' % (msgspec.json.encode(request_id), answer[1:])


def refusal(error: BaseException, request_id: RequestId) -> bytes:
    """What is told about a message that failed."""
    problem = problem_of(error)
    told: dict[str, Any] = {"op": "error", "request_id": request_id, "status": problem.status}
    told |= {"code": problem.code, "message": problem.message}
    if problem.detail:
        told["detail"] = problem.detail
    return msgspec.json.encode(told)
