"""The network side of the server: accepts connections, sweeps them, updates the date, drains.

It uses uvicorn's protocol and ASGI code, but not its server: that starts with the application and
ends with a signal; this one starts before the store is open, and ends after an error event was sent
to the streams.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl
from collections.abc import Coroutine, Iterable
from socket import socket

import structlog
from uvicorn.config import Config
from uvicorn.server import ServerState

from strandline.platform.clock import Clock
from strandline.server.app_state import AppState
from strandline.server.auth.host_origin import HostPolicy
from strandline.server.connection.connections import Connections
from strandline.server.connection.fast_append import FastAppend, ResponseHeads
from strandline.server.connection.protocol import HttpConnection
from strandline.server.connection.tls_handshakes import TlsListener
from strandline.server.http.proxies import TrustedProxies
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.live.ws_protocol import LiveWebSocket
from strandline.server.settings import ServerSettings
from strandline.server.startup_app import StartupApp

_LOG = structlog.get_logger("strandline.server")
_POLL_S = 0.01
_CLOSE_S_MAX = 0.5


class Listener:
    """The network side of a server. Owned by the loop's thread."""

    def __init__(
        self,
        door: StartupApp,
        settings: ServerSettings,
        clock: Clock,
        proxies: TrustedProxies,
        budget: ByteBudget,
        context: ssl.SSLContext | None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._proxies = proxies
        self._budget = budget
        self._context = context
        self._state = ServerState()
        self.connections = Connections(settings.limits)
        """The open connections."""
        self._servers: list[asyncio.Server | TlsListener] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._hot: FastAppend | None = None
        self._heads = ResponseHeads(clock.now_us())
        self._config = Config(
            app=door,
            http=HttpConnection,
            ws=LiveWebSocket,
            ws_max_size=settings.limits.body_bytes_max,
            ws_per_message_deflate=False,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()

    async def start(self, sockets: Iterable[socket]) -> None:
        """Accept connections from now on."""
        self._update_date()
        loop = asyncio.get_running_loop()
        for listening in sockets:
            if self._context is None:
                server = await loop.create_server(self.make_protocol, sock=listening)
                self._servers.append(server)
            else:
                handshakes = TlsListener(self._context, self.connections, self.make_protocol)
                handshakes.start(listening)
                self._servers.append(handshakes)
        self._sweeper = loop.create_task(self._sweep())

    def serve(self, parts: AppState) -> None:
        """Enable the fast path: the store is open."""
        self._hot = FastAppend(parts, HostPolicy(self._settings), self._heads)
        for connection in self.connections.open:
            if isinstance(connection, HttpConnection):  # every one is; the set's type is a protocol
                connection.fast_append = self._hot

    async def drain(self, streams: Coroutine[None, None, None]) -> None:
        """Stop accepting, end the streams, and wait up to ``drain_s`` for requests."""
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.drain_s
        ending = loop.create_task(streams)
        await asyncio.wait({ending}, timeout=self._settings.drain_s)
        await self._wait_closed(deadline - loop.time())
        ending.cancel()  # no effect when it is done
        for failure in await asyncio.gather(ending, return_exceptions=True):
            if isinstance(failure, Exception):
                _LOG.error("ending the streams failed", exc_info=failure)

    async def end(self) -> None:
        """Close all connections that are still open."""
        for server in self._servers:
            server.close()
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self.connections.open):
            connection.abort()
        await self._wait_closed(_CLOSE_S_MAX)
        if self._sweeper is not None:
            self._sweeper.cancel()

    def make_protocol(self) -> HttpConnection:
        """The protocol of a new connection; called by whatever accepts it."""
        protocol = HttpConnection(
            self._config,
            self._state,
            self.connections,
            self._proxies,
            self._budget,
            self._settings,
            self._heads,
        )
        protocol.fast_append = self._hot
        return protocol

    async def _wait_closed(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        # Polled: connections end in many ways, and only this code waits for all of them.
        while (self._state.connections or self._state.tasks) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.connections.sweep_s)
            self._update_date()
            self.connections.sweep(loop.time())

    def _update_date(self) -> None:
        date = email.utils.formatdate(self._clock.now_us() / 1e6, usegmt=True).encode()
        self._state.default_headers = [(b"date", date)]
