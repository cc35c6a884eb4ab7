"""A proxy on loopback that passes a request on and then loses its reply."""

from __future__ import annotations

import contextlib
import socket
import threading

PIECE = 64 * 1024


class Proxy:
    """Passes bytes to a port and back. Used by one test at a time."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.lost = 0
        self._method = b""
        self._to_lose = 0
        self._behind = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def lose_replies(self, method: str, count: int, *, behind: int = 0) -> None:
        """Of the next requests by this method so many replies are cut off, the first ones not."""
        with self._lock:
            self._method, self._to_lose, self._behind, self.lost = method.encode(), count, behind, 0

    def close(self) -> None:
        with self._lock:
            sockets = [self._server, *self._sockets]
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                upstream = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            asked = _Asked()
            with self._lock:
                self._sockets += [client, upstream]
            for work in (
                lambda c=client, u=upstream, a=asked: self._requests(c, u, a),
                lambda c=client, u=upstream, a=asked: self._replies(c, u, a),
            ):
                self._threads.append(threading.Thread(target=work))
                self._threads[-1].start()

    def _requests(self, client: socket.socket, upstream: socket.socket, asked: _Asked) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(PIECE):
                if data.split(b" ", 1)[0] in (b"GET", b"PUT", b"HEAD", b"POST", b"DELETE"):
                    asked.method, asked.answered = data.split(b" ", 1)[0], False
                upstream.sendall(data)
        _shut(client, upstream)

    def _replies(self, client: socket.socket, upstream: socket.socket, asked: _Asked) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(PIECE):
                if not asked.answered and self._loses(asked.method):
                    break
                asked.answered = True
                client.sendall(data)
        _shut(client, upstream)

    def _loses(self, method: bytes) -> bool:
        with self._lock:
            if method != self._method or not self._to_lose:
                return False
            if self._behind:
                self._behind -= 1
                return False
            self._to_lose -= 1
            self.lost += 1
            return True


class _Asked:
    method = b""
    answered = True


def _shut(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
