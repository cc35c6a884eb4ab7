"""The WebSocket protocol of the server: uvicorn's, which also shows its transport.

Frames to many watchers are built once and written straight to their transports (``frames.py``);
the handshake, reading, pings and closing stay with uvicorn.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from strandline.server.transports import NAME


class LiveWebSocket(WebSocketsSansIOProtocol):
    """One connection. Owned by the loop's thread."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        # A handshake that was refused has no scope; the application starts after this.
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][NAME] = self.transport

    def shutdown(self) -> None:
        """The server goes down: the hub tells the application, which closes with a word."""
        if not self.handshake_complete:
            super().shutdown()
