"""The WebSocket protocol of the server: uvicorn's, with access to its transport and a fast path.

Frames to many streams are built once and written directly to their transports (``frames.py``);
uvicorn handles the handshake, pings and closing. It also reads, except for plain messages: a
complete text frame of moderate size is unmasked here and offered to the application
(``_MessageHandler``). Messages that it does not accept, and all other frames, are passed to
uvicorn, frame by frame.

Until the application sets ``hold``, a connection may send ``EARLY_BYTES_MAX`` in all:
its first message has a token, and everything after that can wait for the response.
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
from strandline.server.limits.byte_budget import BudgetHold
from strandline.server.transports import NAME, WEBSOCKET

EARLY_BYTES_MAX = 4096
_PLAIN = 0x80 | Opcode.TEXT  # a whole message in one frame
_MASKED = 0x80
_SIZE_MAX = 256 * 1024
_QUEUE_MAX = 64  # waiting messages, beyond which received bytes are not decoded
_MESSAGE_SIZE = 256  # memory of a message besides its bytes
_NO_MASK = bytes(4)


class _MessageHandler(Protocol):
    """Handles messages without waiting. Owned by the loop's thread."""

    def handle(self, message: bytes) -> bool:
        """Handle this message; False when it has to be queued."""
        ...

    def flush(self) -> None:
        """Called after the last message of the received bytes."""
        ...


class LiveWebSocket(WebSocketsSansIOProtocol):
    """One connection. Owned by the loop's thread."""

    hold: BudgetHold | None = None
    """The bytes of its messages in the budget. The application sets it after authentication."""
    handler: _MessageHandler | None = None
    _queued_size = 0  # bytes of complete messages that are not handled yet
    _current_size = 0  # of the one that is being handled
    _early_size = 0  # bytes received before it was authenticated
    _early_chunks = 0  # chunks received before the response to the handshake
    _incomplete = b""  # the start of an incomplete frame
    _missing_size = 0  # bytes that uvicorn needs to complete its current frame

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._message = bytearray()  # an unfinished one

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A rejected handshake has no scope; the application starts after this.
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][NAME] = self.transport
            scope["extensions"][WEBSOCKET] = self

    def shutdown(self) -> None:
        """The server shuts down: the hub ends the stream, then the application closes."""
        if not self.handshake_complete:
            super().shutdown()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # rejected; otherwise uvicorn logs a missing response

    async def receive(self) -> ASGIReceiveEvent:
        self._queued_size -= self._current_size  # it was handled
        self._current_size = 0
        self._count()
        if self._incomplete and self.queue.empty():
            self.data_received(b"")
        message = await super().receive()
        if message["type"] == "websocket.receive":
            data = message.get("text") or message.get("bytes") or b""
            self._current_size = len(data) + _MESSAGE_SIZE
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
            self._queued_size += len(text) + _MESSAGE_SIZE
        else:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
            self._queued_size += len(data) + _MESSAGE_SIZE
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _is_full(self) -> bool:
        """Whether received bytes are not decoded until waiting messages were handled."""
        return self.queue.qsize() >= _QUEUE_MAX and not self.disconnected

    def _count(self) -> None:
        """Count incomplete and waiting messages in the budget; close when it is exhausted."""
        hold = self.hold
        if hold is None:
            return
        unfinished = len(self._incomplete) + len(self._message) + len(self.conn.reader.buffer)
        try:
            hold.resize(unfinished + self._queued_size)
        except Refused:
            if not self.close_sent:
                self._fail(CloseCode.TRY_AGAIN_LATER, "the server is overloaded: retry later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.disconnected = True
        if self._incomplete:
            self.data_received(b"")  # all received messages come before the disconnect
        if self.hold is not None:
            self.hold.release()
            self.hold = None
        super().connection_lost(exc)

    def _is_too_early(self, size: int) -> bool:
        """Count bytes of a connection that is not authenticated; close it after too many."""
        if self.handshake_initiated:
            self._early_size += size
        if self._early_size <= EARLY_BYTES_MAX:
            return False
        if not self.close_sent:
            reason = f"authenticate before sending more than {EARLY_BYTES_MAX} bytes"
            self._fail(CloseCode.MESSAGE_TOO_BIG, reason)
        return True

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close, and read nothing more."""
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
            self._early_chunks += 1
        if not self.handshake_complete or self._early_chunks > 1:
            # If a client sends frames before the response, uvicorn reads all of them.
            super().data_received(data)
            self._count()
            return
        data = self._incomplete + data if self._incomplete else data
        self._incomplete = b""
        at = self._missing_size
        if at:
            super().data_received(data[:at])
            self._missing_size = max(0, at - len(data))
        while at < len(data):
            end = 0 if self._is_full() else self._frame(data, at)
            if not end:
                self._incomplete = data[at:]
                break
            at = end
        self._count()
        if self.handler is not None:
            self.handler.flush()

    def _frame(self, data: bytes, at: int) -> int:
        """Process the frame that starts at ``at``; returns its end, 0 when it is incomplete."""
        head_size, size = _frame_header(data, at)
        if not head_size:
            return 0
        end = at + head_size + size
        if self._is_plain(data, at, size):
            if end > len(data):
                return 0
            handler = self.handler
            if handler is not None and self.queue.empty() and not self.close_sent:
                message = data[at + head_size : end]
                mask = data[at + head_size - 4 : at + head_size]
                if handler.handle(message if mask == _NO_MASK else apply_mask(message, mask)):
                    return end
        super().data_received(data[at:end])
        self._missing_size = max(0, end - len(data))
        return end

    def _is_plain(self, data: bytes, at: int, size: int) -> bool:
        return (
            data[at] == _PLAIN
            and data[at + 1] >= _MASKED
            and size <= _SIZE_MAX
            and self.conn.current_size is None  # no fragmented message is in progress
        )


def _frame_header(data: bytes, at: int) -> tuple[int, int]:
    """Sizes of a frame's header and payload; 0 and 0 when the header is incomplete."""
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
