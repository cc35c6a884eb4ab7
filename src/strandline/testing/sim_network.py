"""Connections in memory: two protocols, what they write to each other, and how that can end.

    network = SimNetwork(loop, delays)
    transport = network.connect(client, server, life)

What one side writes arrives at the other after a delay, in order. ``cut`` breaks a connection: of
what is on its way each side still gets a first part, as long as the caller lets it, and then
``connection_lost`` with an error. The server's side runs as a process of its own (``Life``).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Any

from strandline.testing.sim_loop import Life, SimLoop

HIGH_WATER = 64 * 1024
_APART_S = 1e-7


class SimTransport(asyncio.Transport):
    """One end of a connection. Owned by the loop's thread."""

    def __init__(
        self,
        loop: SimLoop,
        protocol: asyncio.Protocol,
        delay_s: Callable[[], float],
        life: Life | None,
    ) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 4000)})
        self.peer: SimTransport | None = None
        self.life = life
        """The process at this end."""
        self._loop = loop
        self._protocol = protocol
        self._delay_s = delay_s
        self._closing = False
        self._ended = False
        self._sent: deque[bytes] = deque()
        self._sent_size = 0
        self._last_s = 0.0
        self._paused = False
        self._held: list[bytes] = []
        self._is_end_held = False
        self._is_writing_paused = False

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing or not data or self._is_dead:
            return
        self._sent.append(bytes(data))
        self._sent_size += len(data)
        self._later(self._arrive)
        if self._sent_size > HIGH_WATER and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._sent_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Always ``HIGH_WATER``."""

    def close(self) -> None:
        if not self._closing and not self._is_dead:
            self._closing = True
            self._later(self._finish)

    def abort(self) -> None:
        if not self._is_dead:
            self._closing = True
            self._sent.clear()
            self._later(self._finish)

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        held, self._held = self._held, []
        for data in held:
            self._tell(self._protocol.data_received, data)
        if self._is_end_held:
            self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The other side is gone."""
        if error is None and self._held:
            self._is_end_held = True
            return
        if not self._ended:
            self._ended = self._closing = True
            self._tell(self._protocol.connection_lost, error)

    @property
    def _is_dead(self) -> bool:
        return self.life is not None and self.life.is_over

    def _later(self, callback: Callable[[], None]) -> None:
        # Timers of one time may run in any order, and these must not.
        self._last_s = max(self._last_s + _APART_S, self._loop.time() + self._delay_s())
        # In no process: what is on its way arrives though its sender may be gone.
        self._loop.call_at(self._last_s, callback, context=contextvars.Context())

    def _arrive(self) -> None:
        if not self._sent or self.peer is None:
            return
        data = self._sent.popleft()
        self._sent_size -= len(data)
        if self._is_writing_paused and self._sent_size < HIGH_WATER // 4:
            self._is_writing_paused = False
            self._tell(self._protocol.resume_writing)
        if self.peer._paused:
            self.peer._held.append(data)
        elif not self.peer._ended:
            self.peer._tell(self.peer._protocol.data_received, data)

    def _finish(self) -> None:
        self.lose(None)
        if self.peer is not None:
            self.peer.lose(None)

    def cut(self, keep: Callable[[int], int]) -> None:
        """This end is gone. Of its writes on their way the first ``keep(count)`` arrive."""
        self._closing = self._ended = True
        for _ in range(len(self._sent) - keep(len(self._sent) + 1)):
            self._sent.pop()
        if self.peer is not None:
            self._later(lambda: self.peer.lose(ConnectionResetError()) if self.peer else None)

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        if self.life is None:
            callback(*args)
        elif not self.life.is_over:
            self.life.run(callback, *args)


class SimNetwork:
    """Connects. Owned by the loop's thread."""

    def __init__(self, loop: SimLoop, delays: Callable[[], Callable[[], float]]) -> None:
        """``delays`` is called for each connection: those of one do not depend on the others, which
        a server may close in any order."""
        self._loop = loop
        self._delays = delays

    def connect(
        self, client: asyncio.Protocol, server: asyncio.Protocol, life: Life
    ) -> tuple[SimTransport, SimTransport]:
        """The client's end and the server's, both told that they are connected."""
        delay_s = self._delays()
        near = SimTransport(self._loop, client, delay_s, None)
        far = SimTransport(self._loop, server, delay_s, life)
        near.peer, far.peer = far, near
        life.run(server.connection_made, far)
        client.connection_made(near)
        return near, far
