"""Connections of a TLS port during their handshake: counted, with a time limit.

The loop's own TLS servers create a protocol only after the handshake: unfinished handshakes would
not be counted. So connections are accepted and counted here, then the loop performs the handshake,
and the protocol is counted in their place.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from socket import socket

from strandline.api.errors import Refused
from strandline.server.connection.connections import Connections
from strandline.server.connection.protocol import HttpConnection

_BACKLOG = 2048
_PAUSE_S = 0.1
"""Pause after a failed accept, for instance because no more files may be opened."""


class _TlsHandshake:
    """A connection in its handshake. Owned by the loop's thread."""

    def __init__(self, connections: Connections, address: str, now: float) -> None:
        self._connections = connections
        self._address = address
        self._since = now
        self.task: asyncio.Task[None] | None = None

    def count(self) -> None:
        """Count the connection; Refused when there are too many."""
        self._connections.add(self, self._address)

    def uncount(self) -> None:
        """Remove it from the count. Repeated calls do nothing."""
        self._connections.remove(self, self._address)

    def overdue(self, now: float) -> bool:
        """Whether the handshake takes too long."""
        return now - self._since > self._connections.limits.receive_s_max

    def expire(self) -> None:
        """Close it: the handshake is overdue."""
        self.abort()

    def abort(self) -> None:
        """Close it now."""
        self.uncount()
        if self.task is not None:
            self.task.cancel()


class TlsListener:
    """Accepts connections of a TLS port. Owned by the loop's thread."""

    def __init__(
        self,
        context: ssl.SSLContext,
        connections: Connections,
        make_protocol: Callable[[], HttpConnection],
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
        """Stop accepting. Repeated calls do nothing."""
        for task, listening in self._accepting:
            task.cancel()
            listening.close()

    async def _accept(self, listening: socket) -> None:
        while True:
            try:
                connection, peer = await self._loop.sock_accept(listening)
            except OSError:  # too many open files, or the client has disconnected
                await asyncio.sleep(_PAUSE_S)
                continue
            address = peer[0] if isinstance(peer, tuple) else ""
            handshake = _TlsHandshake(self._connections, address, self._loop.time())
            try:
                handshake.count()
            except Refused:
                # A response would need a handshake, and there are too many of those.
                handshake.uncount()
                connection.close()
                continue
            handshake.task = self._loop.create_task(self._shake_hands(connection, handshake))
            self._tasks.add(handshake.task)
            handshake.task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: socket, handshake: _TlsHandshake) -> None:
        def create_protocol() -> HttpConnection:
            new_protocol = self._make_protocol()
            new_protocol.on_connected = handshake.uncount
            return new_protocol

        try:
            await self._loop.connect_accepted_socket(
                create_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._connections.limits.receive_s_max,
            )
        except (OSError, asyncio.CancelledError):  # SSLError is one; the loop has closed it
            pass
        finally:
            handshake.uncount()
