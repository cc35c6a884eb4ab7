"""A client of the simulated server: one connection, one request at a time, JSON in and out.

A request ends in an answer, or in ``Lost``: then it may have happened or not. A client that
has waited too long hangs up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import httptools
import msgspec

from strandline.testing.sim_network import SimTransport

WAIT_S_MAX = 20.0


class Lost(Exception):
    """No answer came."""


class Answer(NamedTuple):
    """What the server answered."""

    status: int
    body: Any

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.body["error"]["code"])


Connect = Callable[[asyncio.Protocol], SimTransport]


class Client(asyncio.Protocol):
    """One client. Owned by the loop's thread."""

    def __init__(self, name: str, connect: Connect) -> None:
        self.name = name
        self._connect = connect
        self._transport: SimTransport | None = None
        self._parser: Any = None
        self._body = b""
        self._waiting: asyncio.Future[Answer] | None = None

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The answer to a request; Lost when there is none."""
        self._open()
        assert self._transport is not None
        content = b"" if body is None else msgspec.json.encode(body)
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1:4000"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        loop = asyncio.get_running_loop()
        self._waiting = waiting = loop.create_future()
        self._transport.write("\r\n".join([*lines, "", ""]).encode() + content)
        try:
            return await asyncio.wait_for(waiting, WAIT_S_MAX)
        except TimeoutError:
            self.hang_up()
            raise Lost(f"no answer to {method} {path}") from None

    def hang_up(self) -> None:
        """Close the connection, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()
            self.connection_lost(None)

    def _open(self) -> None:
        if self._transport is None:
            self._parser = httptools.HttpResponseParser(self)
            try:
                self._transport = self._connect(self)
            except ConnectionRefusedError as error:
                raise Lost("nothing listens") from error

    # -- what the transport and the parser tell

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(Lost("the connection was lost"))

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        waiting, self._waiting = self._waiting, None
        status = self._parser.get_status_code()
        if waiting is not None and not waiting.done():
            body = msgspec.json.decode(self._body) if self._body else None
            waiting.set_result(Answer(status, body))
        if not self._parser.should_keep_alive():
            self.hang_up()
