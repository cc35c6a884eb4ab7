"""Where the bytes of a stream go: to a transport, or through an ASGI ``send``.

A transport accepts bytes at once and buffers what the socket does not accept; ``waiting`` is the
size of that buffer. Before an ASGI ``send`` there is a queue and a task that sends from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol


class ByteSink(Protocol):
    """Accepts bytes. Owned by the loop's thread."""

    write: Callable[[bytes], None]
    """Never waits."""
    waiting: Callable[[], int]
    """Bytes that the socket has not accepted yet."""

    def abort(self) -> None:
        """Abort the connection, without sending what waits."""
        ...


class TransportSink:
    """Writes to the transport of a connection whose response has started."""

    __slots__ = ("abort", "waiting", "write")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.write: Callable[[bytes], None] = transport.write
        self.waiting: Callable[[], int] = transport.get_write_buffer_size
        self.abort: Callable[[], None] = transport.abort


class QueueSink:
    """Sends from a queue, for servers that do not expose their transport."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._has_data = asyncio.Event()
        self._is_last = False
        self.write: Callable[[bytes], None] = self._write
        self.waiting: Callable[[], int] = self._waiting
        self._sender = asyncio.get_running_loop().create_task(self._run())

    def abort(self) -> None:
        self._sender.cancel()

    async def finish(self) -> None:
        """Return once everything was sent, or sending failed."""
        self._is_last = True
        self._has_data.set()
        await asyncio.wait([self._sender])

    def _write(self, data: bytes) -> None:
        if not self._sender.done():
            self._queue.append(data)
            self._size += len(data)
            self._has_data.set()

    def _waiting(self) -> int:
        return self._size

    async def _run(self) -> None:
        try:
            await self._send_all()
        except Exception:  # noqa: BLE001 - the client has disconnected; its own task notices
            self._queue.clear()

    async def _send_all(self) -> None:
        while not self._is_last:
            await self._has_data.wait()
            self._has_data.clear()
            while self._queue:
                data = self._queue[0]
                await self._send(data)
                self._queue.popleft()
                self._size -= len(data)
