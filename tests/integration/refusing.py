"""A proxy on loopback that answers some requests itself: with a status, or with a reset."""

from __future__ import annotations

import contextlib
import re
import socket
import struct

from tests.integration.proxy import PIECE, Proxy

METHODS = (b"GET", b"PUT", b"HEAD", b"POST", b"DELETE")
RESET = 0
"""In place of a status: the connection is reset."""


class Refusing(Proxy):
    """Passes bytes to a port and back, but for every nth request. Used by one test at a time."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.refused = 0
        self._status = 503
        self._every = 0
        self._seen = 0

    def refuse(self, status: int, every: int) -> None:
        """From now on every so many requests get this answer, and do not reach the store."""
        self._status, self._every, self._seen, self.refused = status, every, 0, 0

    def _requests(self, client: socket.socket, upstream: socket.socket, asked: object) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(PIECE):
                if data.split(b" ", 1)[0] in METHODS and self._is_turn():
                    self._answer(client, data)
                    break
                upstream.sendall(data)
        for each in (client, upstream):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _is_turn(self) -> bool:
        with self._lock:
            self._seen += 1
            is_turn = bool(self._every) and self._seen % self._every == 0
            self.refused += is_turn
            return is_turn

    def _answer(self, client: socket.socket, data: bytes) -> None:
        if self._status == RESET:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            return
        _take_whole(client, data)
        head = f"HTTP/1.1 {self._status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode())


def _take_whole(client: socket.socket, data: bytes) -> None:
    """Read the rest of a request, so that closing does not reset it."""
    while b"\r\n\r\n" not in data and (more := client.recv(PIECE)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    told = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    left = (int(told[1]) if told else 0) - len(body)
    while left > 0 and (more := client.recv(PIECE)):
        left -= len(more)
