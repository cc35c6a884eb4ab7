"""Where bytes for a watcher go: straight to a transport, or through an ASGI ``send``.

A transport takes bytes at once and keeps what the socket does not take; ``waiting`` is how much
that is. Behind an ASGI ``send`` there is a queue of our own and a task that empties it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol


class Outlet(Protocol):
    """Takes bytes. Owned by the loop's thread."""

    write: Callable[[bytes], None]
    """Never waits."""
    waiting: Callable[[], int]
    """Bytes that were not taken by the socket yet."""

    def abort(self) -> None:
        """Cut the connection, whatever waits."""
        ...


class TransportOutlet:
    """Writes to the transport of a connection whose answer has begun."""

    __slots__ = ("abort", "waiting", "write")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.write: Callable[[bytes], None] = transport.write
        self.waiting: Callable[[], int] = transport.get_write_buffer_size
        self.abort: Callable[[], None] = transport.abort


class QueueOutlet:
    """Sends from a queue, for servers that do not show their transport."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._is_last = False
        self.write: Callable[[bytes], None] = self._write
        self.waiting: Callable[[], int] = self._waiting
        self._pump = asyncio.get_running_loop().create_task(self._run())

    def abort(self) -> None:
        self._pump.cancel()

    async def finish(self) -> None:
        """Return once everything was sent, or cannot be."""
        self._is_last = True
        self._news.set()
        await asyncio.wait([self._pump])

    def _write(self, data: bytes) -> None:
        if not self._pump.done():
            self._queue.append(data)
            self._size += len(data)
            self._news.set()

    def _waiting(self) -> int:
        return self._size

    async def _run(self) -> None:
        try:
            await self._send_all()
        except Exception:  # noqa: BLE001 - the client has gone, and its own task hears of it
            self._queue.clear()

    async def _send_all(self) -> None:
        while not self._is_last:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                data = self._queue[0]
                await self._send(data)
                self._queue.popleft()
                self._size -= len(data)
