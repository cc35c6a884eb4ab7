"""Publishes over WebSocket: their bodies, and their acks, which are sent in order.

An append that waits for a sync is acknowledged when ``server/commit_waiters.py`` reports it as
durable; acks after it wait for it. Acks that are due together are written together.
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
from strandline.api.errors import wire_error_of
from strandline.server.commit_waiters import CommitWaiters
from strandline.server.handlers.append import AppendOutcome

_DRAIN_S = 1.0

RequestId = str | int | None


class _PendingAck:
    """An append whose ack is not sent yet."""

    __slots__ = ("message", "placed", "request_id")

    def __init__(self, request_id: RequestId, placed: AppendOutcome) -> None:
        self.request_id = request_id
        self.placed = placed
        self.message = b""
        """The ack or error message, once it is known."""


class PublishAcks:
    """The acks of one connection. Owned by the loop's thread."""

    def __init__(self, durable: CommitWaiters, write: Callable[..., None]) -> None:
        self._durable = durable
        self._write = write
        self._pending: deque[_PendingAck] = deque()  # the first one waits for a sync
        self._ready: list[bytes] = []
        self._sent_some: asyncio.Future[None] | None = None  # done when some acks were sent
        self._is_ended = False

    @property
    def count(self) -> int:
        """How many acks are not sent yet."""
        return len(self._pending)

    def add(self, request_id: RequestId, placed: AppendOutcome) -> None:
        """Acknowledge an append once it and those before it are durable. Call ``flush`` after."""
        if placed.pending is None and not self._pending:
            self._ready.append(_ack(request_id, placed))
            return
        pending_ack = _PendingAck(request_id, placed)
        self._pending.append(pending_ack)
        if placed.pending is None:
            pending_ack.message = _ack(request_id, placed)
        else:
            self._durable.wait(placed.pending, self, pending_ack)

    def on_durable(self, append: _PendingAck, error: BaseException | None) -> None:
        """Called when an append is durable, or never will be."""
        if error is None:
            append.message = _ack(append.request_id, append.placed)
        else:
            append.message = error_message(error, append.request_id)

    def flush(self) -> None:
        """Send the acks that are not after a waiting one."""
        pending, ready = self._pending, self._ready
        if self._is_ended:
            pending.clear()
            ready.clear()
        while pending and pending[0].message:
            ready.append(pending.popleft().message)
        if ready:
            self._write(*ready)
            ready.clear()
        if self._sent_some is not None and not self._sent_some.done():
            self._sent_some.set_result(None)

    async def wait_for_fewer(self) -> None:
        """Return when some acks were sent."""
        self._sent_some = asyncio.get_running_loop().create_future()
        await self._sent_some

    async def drain(self) -> None:
        """Wait up to ``_DRAIN_S`` for the remaining acks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                while self._pending:
                    await self.wait_for_fewer()

    def discard(self) -> None:
        """Discard the remaining acks: the connection is closed."""
        self._is_ended = True


def body_of(message: live.Publish) -> bytes:
    """The body of an equal append request."""
    if (
        message.create is UNSET
        and message.config is UNSET
        and message.idempotency_key is UNSET
        and message.node is UNSET
        and message.disable_backpressure is UNSET
    ):
        return b'{"records":%b}' % bytes(message.records)
    fields = {
        "records": message.records,
        "create": message.create,
        "config": message.config,
        "idempotency_key": message.idempotency_key,
        "node": message.node,
        "disable_backpressure": message.disable_backpressure,
    }
    sent = {name: value for name, value in fields.items() if value is not UNSET}
    return msgspec.json.encode(sent)


def _ack(request_id: RequestId, placed: AppendOutcome) -> bytes:
    _, response = placed.response()
    return b'{"op":"ack","request_id":%b,%b' % (msgspec.json.encode(request_id), response[1:])


def error_message(error: BaseException, request_id: RequestId) -> bytes:
    """The error message for a request that failed."""
    problem = wire_error_of(error)
    fields: dict[str, Any] = {"op": "error", "request_id": request_id, "status": problem.status}
    fields |= {"code": problem.code, "message": problem.message}
    if problem.detail:
        fields["detail"] = problem.detail
    return msgspec.json.encode(fields)
