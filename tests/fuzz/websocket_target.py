"""WebSocket frames: what is taken the short way and what is handed to uvicorn are, put together,
the messages of the whole input, wherever it is cut into pieces."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from strandline.server.live.ws_protocol import LiveWebSocket


def _frame(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin=fin).serialize(mask=True)


SEEDS = (
    b"\x03" + _frame(Opcode.TEXT, b'{"op":"publish"}') * 2,
    b"\x01" + _frame(Opcode.TEXT, b"a", fin=False) + _frame(Opcode.CONT, b"b"),
    b"\x05" + _frame(Opcode.PING, b"p") + _frame(Opcode.BINARY, b"x" * 200),
    b"\x09" + _frame(Opcode.TEXT, b"y" * 70_000) + _frame(Opcode.CLOSE, b"\x03\xe8"),
    b"\x02\x81\x05hello",
)


class _Handed(WebSocketsSansIOProtocol):
    """Keeps what LiveWebSocket hands on, and tells the protocol below of it."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self.conn = ServerProtocol(max_size=1 << 20)
        self.conn.state = OPEN
        self.handshake_initiated = False  # the bound before authentication is not what is tested
        self.handshake_complete = True
        self.disconnected = False
        self.close_sent = False
        self.queue: asyncio.Queue[Any] = asyncio.Queue()

    def data_received(self, data: bytes) -> None:
        self.seen += data
        self.conn.receive_data(bytes(data))


class _Socket(LiveWebSocket, _Handed):
    """One connection whose messages are all taken, but for long ones."""

    def __init__(self) -> None:
        _Handed.__init__(self)
        self.handler = self

    def handle(self, message: bytes) -> bool:
        if len(message) % 7 == 6:
            return False
        self.seen += _frame(Opcode.TEXT, bytes(message))
        return True

    def flush(self) -> None:
        pass


def check(data: bytes) -> None:
    step, stream = data[0] if data else 0, data[1:]
    socket = _Socket()
    for at in range(0, len(stream), step or len(stream) or 1):
        socket.data_received(stream[at : at + (step or len(stream))])
    assert _events(bytes(socket.seen) + bytes(socket._incomplete)) == _events(stream)


def _events(stream: bytes) -> list[tuple[Opcode, bytes, bool]]:
    protocol = ServerProtocol(max_size=1 << 20)
    protocol.state = OPEN
    try:
        protocol.receive_data(stream)
    except WebSocketException:
        pass
    return [
        (event.opcode, bytes(event.data), event.fin)
        for event in protocol.events_received()
        if isinstance(event, Frame)
    ]
