"""A server that answers as a script says, one line of it for each request."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec


class Line(NamedTuple):
    """One answer; status 0 hangs up after the request instead."""

    status: int
    body: bytes = b"{}"
    headers: Sequence[tuple[str, str]] = ()


class Asked(NamedTuple):
    """One request."""

    head: str
    body: bytes

    @property
    def keys(self) -> list[str]:
        """The idempotency keys in it."""
        return [msgspec.json.decode(self.body)["idempotency_key"]] if self.body else []


def problem(code: str, **detail: object) -> bytes:
    return msgspec.json.encode({"error": {"code": code, "message": code, "detail": detail}})


class Scripted:
    """Owned by one test."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.asked: list[Asked] = []
        self._lines: list[Line] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def says(self, *lines: Line) -> None:
        self._lines = list(lines)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        read = b""
        while b"\r\n\r\n" not in read:
            read += client.recv(65536)
        head, _, body = read.partition(b"\r\n\r\n")
        size = next(
            (
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if b"-length" in line
            ),
            0,
        )
        while len(body) < size:
            body += client.recv(65536)
        self.asked.append(Asked(head.decode(), body))
        line = self._lines.pop(0) if self._lines else Line(0)
        if not line.status:
            return
        headers = "".join(f"{name}: {value}\r\n" for name, value in line.headers)
        said = f"HTTP/1.1 {line.status} X\r\nContent-Length: {len(line.body)}\r\n{headers}"
        client.sendall(said.encode() + b"Connection: close\r\n\r\n" + line.body)


@contextlib.contextmanager
def scripted() -> Iterator[Scripted]:
    made = Scripted()
    try:
        yield made
    finally:
        made.close()
