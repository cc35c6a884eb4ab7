"""Connections of a TLS port from the moment they are accepted: counted, and bounded in time.

The loop's own TLS servers show a connection only once its handshake is over: whoever begins
handshakes and does not end them would be counted by nobody. So connections are accepted here and
counted, then the loop makes the handshake, and the protocol takes their place.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from socket import socket

from strandline.api.errors import Refused
from strandline.server.connection.connections import Connections
from strandline.server.connection.protocol import Protocol

_BACKLOG = 2048
_PAUSE_S = 0.1
"""When no more files may be opened: until some are closed."""


class Arriving:
    """A connection in its handshake. Owned by the loop's thread."""

    def __init__(self, connections: Connections, address: str, now: float) -> None:
        self._connections = connections
        self._address = address
        self._since = now
        self.task: asyncio.Task[None] | None = None

    def count(self) -> None:
        """Refused, when there are too many."""
        self._connections.add(self, self._address)

    def leave(self) -> None:
        """It is no longer in its handshake. Twice is fine."""
        self._connections.remove(self, self._address)

    def overdue(self, now: float) -> bool:
        """Whether the handshake takes too long."""
        return now - self._since > self._connections.limits.receive_s_max

    def give_up(self) -> None:
        """The handshake is overdue."""
        self.cut()

    def cut(self) -> None:
        """Close it now."""
        self.leave()
        if self.task is not None:
            self.task.cancel()


class Handshakes:
    """Accepts connections of a TLS port. Owned by the loop's thread."""

    def __init__(
        self,
        context: ssl.SSLContext,
        connections: Connections,
        make_protocol: Callable[[], Protocol],
    ) -> None:
        self._context = context
        self._connections = connections
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[tuple[asyncio.Task[None], socket]] = []

    def start(self, listening: socket) -> None:
        """Accept connections from now on."""
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._accepting.append((self._loop.create_task(self._accept(listening)), listening))

    def close(self) -> None:
        """Accept nothing more. Twice is fine."""
        for task, listening in self._accepting:
            task.cancel()
            listening.close()

    async def _accept(self, listening: socket) -> None:
        while True:
            try:
                connected, peer = await self._loop.sock_accept(listening)
            except OSError:  # too many files, or it was gone before we looked
                await asyncio.sleep(_PAUSE_S)
                continue
            address = peer[0] if isinstance(peer, tuple) else ""
            arriving = Arriving(self._connections, address, self._loop.time())
            try:
                arriving.count()
            except Refused:
                # An answer would need the handshake, and of those there are too many.
                arriving.leave()
                connected.close()
                continue
            arriving.task = self._loop.create_task(self._shake_hands(connected, arriving))
            self._tasks.add(arriving.task)
            arriving.task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connected: socket, arriving: Arriving) -> None:
        def protocol() -> Protocol:
            made = self._make_protocol()
            made.arrived = arriving.leave
            return made

        try:
            await self._loop.connect_accepted_socket(
                protocol,
                connected,
                ssl=self._context,
                ssl_handshake_timeout=self._connections.limits.receive_s_max,
            )
        except (OSError, asyncio.CancelledError):  # SSLError is one; the loop has closed it
            pass
        finally:
            arriving.leave()
