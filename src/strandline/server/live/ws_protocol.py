"""The WebSocket protocol of the server: uvicorn's, which shows its transport, with a short way in.

Frames to many watchers are built once and written straight to their transports (``frames.py``);
the handshake, pings and closing stay with uvicorn. So does reading, but for plain messages: a
whole text frame of moderate size is unmasked here and offered to whoever answers (``Taker``). What
he does not take, and all that is not so plain, is handed to uvicorn, frame by frame.

Until the application sets ``hold``, a connection may send ``EARLY_BYTES_MAX`` in all:
its first message has a token, and everything after that can wait for the reply.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.speedups import apply_mask

from strandline.api.errors import Refused
from strandline.server.limits.byte_budget import Hold
from strandline.server.transports import NAME, TAKING

EARLY_BYTES_MAX = 4096
_PLAIN = 0x80 | Opcode.TEXT  # a whole message in one frame
_MASKED = 0x80
_SIZE_MAX = 256 * 1024
_QUEUE_MAX = 64  # messages that wait before the rest of what came is left undecoded
_MESSAGE_SIZE = 256  # what a message takes besides its bytes
_NO_MASK = bytes(4)


class Taker(Protocol):
    """Answers messages at once. Owned by the loop's thread."""

    def take(self, message: bytes) -> bool:
        """Answer this one; False when it has to wait for its turn."""
        ...

    def flush(self) -> None:
        """There are no more for now."""
        ...


class LiveWebSocket(WebSocketsSansIOProtocol):
    """One connection. Owned by the loop's thread."""

    hold: Hold | None = None
    """What its messages hold of the budget. The application sets it, once it is authenticated."""
    taker: Taker | None = None
    _queued = 0  # bytes of messages that are whole and not answered
    _current = 0  # of the one that is being answered
    _early = 0  # bytes that came before it was authenticated
    _heads = 0  # times that something came before the handshake was answered
    _rest = b""  # the beginning of a frame
    _owed = 0  # bytes that uvicorn needs to end the frame that it has begun

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._message = bytearray()  # an unfinished one

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A handshake that was refused has no scope; the application starts after this.
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][NAME] = self.transport
            scope["extensions"][TAKING] = self

    def shutdown(self) -> None:
        """The server goes down: the hub tells the application, which closes with a word."""
        if not self.handshake_complete:
            super().shutdown()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused; else uvicorn logs that it was not answered

    async def receive(self) -> ASGIReceiveEvent:
        self._queued -= self._current  # it is answered
        self._current = 0
        self._count()
        if self._rest and self.queue.empty():
            self.data_received(b"")
        message = await super().receive()
        if message["type"] == "websocket.receive":
            data = message.get("text") or message.get("bytes") or b""
            self._current = len(data) + _MESSAGE_SIZE
        return message

    def handle_text(self, event: Frame) -> None:
        self.curr_msg_data_type = "text"
        self._begin_message(event)

    def handle_bytes(self, event: Frame) -> None:
        self.curr_msg_data_type = "bytes"
        self._begin_message(event)

    def _begin_message(self, event: Frame) -> None:
        self._message += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def handle_cont(self, event: Frame) -> None:
        self._begin_message(event)

    def send_receive_event_to_app(self) -> None:
        data, self._message = bytes(self._message), bytearray()
        if self.close_sent:
            return
        if self.curr_msg_data_type == "text":
            try:
                text = data.decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "a text message is not UTF-8")
                return
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
            self._queued += len(text) + _MESSAGE_SIZE
        else:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
            self._queued += len(data) + _MESSAGE_SIZE
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _is_full(self) -> bool:
        """Whether the rest is left for when the messages that wait are answered."""
        return self.queue.qsize() >= _QUEUE_MAX and not self.disconnected

    def _count(self) -> None:
        """Hold in the budget what is unfinished or not answered; close when there is no room."""
        hold = self.hold
        if hold is None:
            return
        unfinished = len(self._rest) + len(self._message) + len(self.conn.reader.buffer)
        try:
            hold.resize(unfinished + self._queued)
        except Refused:
            if not self.close_sent:
                self._fail(CloseCode.TRY_AGAIN_LATER, "the server is overloaded: retry later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.disconnected = True
        if self._rest:
            self.data_received(b"")  # all that came, before the end is told
        if self.hold is not None:
            self.hold.release()
            self.hold = None
        super().connection_lost(exc)

    def _is_too_early(self, size: int) -> bool:
        """Count bytes of a connection that is not authenticated; close it after too many."""
        if self.handshake_initiated:
            self._early += size
        if self._early <= EARLY_BYTES_MAX:
            return False
        if not self.close_sent:
            reason = f"authenticate before sending more than {EARLY_BYTES_MAX} bytes"
            self._fail(CloseCode.MESSAGE_TOO_BIG, reason)
        return True

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close, with nothing more read."""
        self._message.clear()
        self.conn.fail(code, reason)
        if self.handshake_complete:
            self.handle_parser_exception()
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.hold is None and self._is_too_early(len(data)):
            return
        if not self.handshake_complete:
            self._heads += 1
        if not self.handshake_complete or self._heads > 1:
            # Who sends frames before the answer is there has uvicorn read all of them.
            super().data_received(data)
            self._count()
            return
        data = self._rest + data if self._rest else data
        self._rest = b""
        at = self._owed
        if at:
            super().data_received(data[:at])
            self._owed = max(0, at - len(data))
        while at < len(data):
            behind = 0 if self._is_full() else self._frame(data, at)
            if not behind:
                self._rest = data[at:]
                break
            at = behind
        self._count()
        if self.taker is not None:
            self.taker.flush()

    def _frame(self, data: bytes, at: int) -> int:
        """Deal with the frame that begins here; where it ends, 0 when it has to wait for more."""
        head_size, size = _head(data, at)
        if not head_size:
            return 0
        behind = at + head_size + size
        if self._is_plain(data, at, size):
            if behind > len(data):
                return 0
            taker = self.taker
            if taker is not None and self.queue.empty() and not self.close_sent:
                message = data[at + head_size : behind]
                mask = data[at + head_size - 4 : at + head_size]
                if taker.take(message if mask == _NO_MASK else apply_mask(message, mask)):
                    return behind
        super().data_received(data[at:behind])
        self._owed = max(0, behind - len(data))
        return behind

    def _is_plain(self, data: bytes, at: int, size: int) -> bool:
        return (
            data[at] == _PLAIN
            and data[at + 1] >= _MASKED
            and size <= _SIZE_MAX
            and self.conn.current_size is None  # no message is under way in pieces
        )


def _head(data: bytes, at: int) -> tuple[int, int]:
    """Sizes of a frame's head and of what follows it; a head of 0 when it is not all there."""
    if len(data) < at + 2:
        return 0, 0
    mask_size = 4 if data[at + 1] >= _MASKED else 0
    size = data[at + 1] & 0x7F
    head_size = 2 + mask_size + (2 if size == 126 else 8 if size == 127 else 0)
    if len(data) < at + head_size:
        return 0, 0
    if size == 126:
        (size,) = struct.unpack_from("!H", data, at + 2)
    elif size == 127:
        (size,) = struct.unpack_from("!Q", data, at + 2)
    return head_size, size
