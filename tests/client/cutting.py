"""A proxy on loopback that cuts connections after so many bytes, in either direction."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Sequence

PIECE = 4096
_RESET = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Passes bytes to a port and back. Used by one test at a time."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.cuts = 0
        self.is_away = False
        """Whether connections are refused, as by a server that is being restarted."""
        self.asked: list[str] = []
        """What was asked: methods and paths, as far as a request began a piece."""
        self._budgets: list[tuple[int, bool]] = []
        self._answers_to_lose: tuple[bytes, int] = (b"", 0)
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self, budgets: Sequence[tuple[int, bool]]) -> None:
        """The next connections end after so many bytes, with a reset or politely; later ones do
        not."""
        with self._lock:
            self._budgets, self.cuts = list(reversed(budgets)), 0

    def lose_answers(self, beginning: str, count: int) -> None:
        """The next requests that begin so are passed on, and their connections end instead of the
        answer."""
        with self._lock:
            self._answers_to_lose = (beginning.encode(), count)

    def cut_all(self) -> None:
        """End what is open."""
        with self._lock:
            for each in self._sockets:
                _end(each, reset=True)
            self._sockets.clear()

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
            if self.is_away:
                _end(client, reset=True)
                continue
            try:
                upstream = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                budget, reset = self._budgets.pop() if self._budgets else (-1, False)
                self._sockets += [client, upstream]
            left = _Budget(budget, reset=reset)
            for source, target in ((client, upstream), (upstream, client)):
                thread = threading.Thread(target=self._pass, args=(source, target, left))
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, target: socket.socket, left: _Budget) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                self._note(data)
                if self._loses_answer(data):
                    left.has_answer_to_lose = True
                elif left.has_answer_to_lose and data.startswith(b"HTTP/"):
                    break
                fits = left.take(len(data))
                target.sendall(data[:fits])
                if fits < len(data):
                    with self._lock:
                        self.cuts += 1
                    break
        for each in (source, target):
            _end(each, reset=left.reset)

    def _note(self, data: bytes) -> None:
        method, _, rest = data.partition(b" ")
        if method in (b"GET", b"POST"):
            with self._lock:
                self.asked.append(f"{method.decode()} {rest.partition(b' ')[0].decode()}")

    def _loses_answer(self, data: bytes) -> bool:
        with self._lock:
            beginning, count = self._answers_to_lose
            if not count or not data.startswith(beginning):
                return False
            self._answers_to_lose = (beginning, count - 1)
            return True


class _Budget:
    def __init__(self, size: int, *, reset: bool) -> None:
        self._left = size
        self.reset = reset
        self.has_answer_to_lose = False
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        with self._lock:
            if self._left < 0:
                return wanted
            taken = min(wanted, self._left)
            self._left -= taken
            return taken


def _end(connection: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
