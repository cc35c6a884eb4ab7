"""The ASGI app in front of the application: responds before the store is open.

Opening a store replays its log, which may take long. The server listens from the start:
``/v0/health`` returns 200, ``/v0/ready`` returns the progress, and all other requests get 503 with
``Retry-After``. It also replaces the address of a trusted proxy by that of its client.
"""

from __future__ import annotations

import importlib.metadata
import math
from typing import Any, TypeAlias

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from strandline.api.errors import WireError
from strandline.platform.clock import Clock
from strandline.server.http.proxies import TrustedProxies

_HEALTH = frozenset({"/v0/health", "/healthz"})
_RETRY_S = 1.0
_Headers: TypeAlias = list[tuple[bytes, bytes]]


class _OpeningProgress:
    """The progress of opening the store. One thread writes, others read."""

    def __init__(self) -> None:
        self._progress = ("", 0, 0)

    def update(self, what: str, done: int, total: int) -> None:
        """A ``Progress`` for the store."""
        self._progress = (what, done, total)

    def problem(self) -> WireError:
        """The 503 error until the store is open."""
        what, done, total = self._progress
        share = min(1.0, done / total) if total else 0.0
        message = "the store is being opened" + (f": {what}" if what else "")
        return WireError(503, "not_ready", message, {"replay_progress": round(share, 4)}, _RETRY_S)


class StartupApp:
    """The application that connections call. Owned by the loop's thread."""

    def __init__(self, clock: Clock, proxies: TrustedProxies) -> None:
        self._clock = clock
        self._proxies = proxies
        self._since = clock.monotonic()
        self.opening = _OpeningProgress()
        self.app: ASGIApp | None = None
        """The application, once the store is open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._apply_proxy_headers(scope)
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await _answer(send, self.opening.problem(), "websocket.http.response")
        elif scope["path"] in _HEALTH and scope["method"] in ("GET", "HEAD"):
            await _send(send, "http.response", 200, [], self._health())
        else:
            await _answer(send, self.opening.problem(), "http.response")

    def _apply_proxy_headers(self, scope: Scope) -> None:
        client = scope.get("client")
        peer = client[0] if client else ""
        if self._proxies.trusts(peer):
            headers = scope["headers"]
            scope["client"] = (self._proxies.client(peer, headers), 0)
            https = self._proxies.scheme(headers, scope["scheme"]) in ("https", "wss")
            plain, safe = ("ws", "wss") if scope["type"] == "websocket" else ("http", "https")
            scope["scheme"] = safe if https else plain

    def _health(self) -> bytes:
        uptime_ms = int((self._clock.monotonic() - self._since) * 1000)
        version = importlib.metadata.version("strandline")
        return msgspec.json.encode({"status": "ok", "version": version, "uptime_ms": uptime_ms})


async def _answer(send: Send, problem: WireError, kind: str) -> None:
    headers: _Headers = []
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(problem.retry_after_s))))
    await _send(send, kind, problem.status, headers, problem.body())


async def _send(send: Send, kind: str, status: int, headers: _Headers, body: bytes) -> None:
    all_headers: _Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *headers,
    ]
    start: dict[str, Any] = {"type": f"{kind}.start", "status": status, "headers": all_headers}
    await send(start)
    await send({"type": f"{kind}.body", "body": body})
