"""Simulated connections in memory between two protocols, with delays and broken connections.

    network = SimNetwork(loop, delays)
    transport = network.connect(client, server, life)

Data that one side writes arrives at the other after a delay, in order. ``cut`` breaks a connection:
each side still receives a first part of the data in transit, of a length that the caller chooses,
and then ``connection_lost`` with an error. The server's side runs as a process of its own
(``SimProcess``).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any

from strandline.testing.sim_loop import SimLoop, SimProcess

HIGH_WATER = 64 * 1024
_SPACING_S = 1e-7


class SimTransport(asyncio.Transport):
    """One end of a connection. Owned by the loop's thread."""

    def __init__(
        self,
        loop: SimLoop,
        protocol: asyncio.Protocol,
        delay_s: Callable[[], float],
        life: SimProcess | None,
    ) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 4000)})
        self.peer: SimTransport | None = None
        self.life = life
        """The process at this end."""
        self._loop = loop
        self._protocol = protocol
        self._delay_s = delay_s
        self._closing = False
        self._is_lost = False
        self._in_transit: deque[bytes] = deque()
        self._in_transit_size = 0
        self._last_s = 0.0
        self._paused = False
        self._received: list[bytes] = []
        self._is_end_received = False
        self._is_writing_paused = False

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing or not data or self._is_dead:
            return
        self._in_transit.append(bytes(data))
        self._in_transit_size += len(data)
        self._schedule(self._arrive)
        if self._in_transit_size > HIGH_WATER and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._in_transit_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Always ``HIGH_WATER``."""

    def close(self) -> None:
        if not self._closing and not self._is_dead:
            self._closing = True
            self._schedule(self._finish)

    def abort(self) -> None:
        if not self._is_dead:
            self._closing = True
            self._in_transit.clear()
            self._schedule(self._finish)

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        received, self._received = self._received, []
        for data in received:
            self._call(self._protocol.data_received, data)
        if self._is_end_received:
            self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """Close this end, because the other one has closed or is lost."""
        if error is None and self._received:
            self._is_end_received = True
            return
        if not self._is_lost:
            self._is_lost = self._closing = True
            self._call(self._protocol.connection_lost, error)

    @property
    def _is_dead(self) -> bool:
        return self.life is not None and self.life.is_over

    def _schedule(self, callback: Callable[[], None]) -> None:
        # Timers with equal times may run in any order; deliveries must stay in order.
        self._last_s = max(self._last_s + _SPACING_S, self._loop.time() + self._delay_s())
        # In no process: data in transit arrives although its sender may have ended.
        self._loop.call_at(self._last_s, callback, context=contextvars.Context())

    def _arrive(self) -> None:
        if not self._in_transit or self.peer is None:
            return
        data = self._in_transit.popleft()
        self._in_transit_size -= len(data)
        if self._is_writing_paused and self._in_transit_size < HIGH_WATER // 4:
            self._is_writing_paused = False
            self._call(self._protocol.resume_writing)
        if self.peer._paused:
            self.peer._received.append(data)
        elif not self.peer._is_lost:
            self.peer._call(self.peer._protocol.data_received, data)

    def _finish(self) -> None:
        self.lose(None)
        if self.peer is not None:
            self.peer.lose(None)

    def cut(self, keep: Callable[[int], int]) -> None:
        """Break this end. Of its ``count`` writes in transit the first ``keep(count)`` arrive."""
        self._closing = self._is_lost = True
        for _ in range(len(self._in_transit) - keep(len(self._in_transit) + 1)):
            self._in_transit.pop()
        if self.peer is not None:
            self._schedule(lambda: self.peer.lose(ConnectionResetError()) if self.peer else None)

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        if self.life is None:
            callback(*args)
        elif not self.life.is_over:
            self.life.run(callback, *args)


class SimNetwork:
    """Creates connections. Owned by the loop's thread."""

    def __init__(self, loop: SimLoop, delays: Callable[[], Callable[[], float]]) -> None:
        """``delays`` is called for each connection, so that its delays are independent of the
        others, which a server may close in any order."""
        self._loop = loop
        self._delays = delays

    def connect(
        self, client: asyncio.Protocol, server: asyncio.Protocol, life: SimProcess
    ) -> tuple[SimTransport, SimTransport]:
        """Connect two protocols; returns the client's and the server's transport."""
        delay_s = self._delays()
        client_end = SimTransport(self._loop, client, delay_s, None)
        server_end = SimTransport(self._loop, server, delay_s, life)
        client_end.peer, server_end.peer = server_end, client_end
        life.run(server.connection_made, server_end)
        client.connection_made(client_end)
        return client_end, server_end
