"""Attacks on a server, each in a thread of its own, again and again until the process is killed.

    python -m tests.hostile.attacks PORT TOKEN [NAME ...]

TOKEN may write to the topic ``small`` and nothing else; attacks run without it, with it and with
tokens that do not exist. An attack is a function of a ``Target`` that does one round. To add one,
for example on SQL, append it to ``ATTACKS``.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

MIB = 1 << 20
SIZE = 60 * MIB
"""Of a body or message: just within the limit of one."""
ROUND_S = 2.0
"""How long a round holds what it has begun."""
_PAUSE_S = 0.05
_DEADLINE_S = 5.0
_PIECE = b" " * 65536
_NUMBERS = itertools.count(1)


class Target(NamedTuple):
    """The server, and what is known of it."""

    port: int
    token: str

    def authorizations(self) -> Iterator[str]:
        """No token, and a small one."""
        yield ""
        yield f"Authorization: Bearer {self.token}\r\n"


Attack = Callable[[Target], None]


@functools.cache
def bombs() -> tuple[bytes, ...]:
    """Gzip of about 64 KB each, and 60 MB unpacked: spaces, many small values, many records."""
    plain = (
        b" " * SIZE,
        b'{"records":[{"data":[' + b"[]," * (SIZE // 3) + b"0]}]}",
        b'{"records":[' + b'{"data":0},' * (SIZE // 11) + b'{"data":0}]}',
    )
    return tuple(gzip.compress(each, 9) for each in plain)


def gzip_bombs(target: Target) -> None:
    """Small bodies that are large when they are unpacked."""
    for path in ("/v0/sql", "/v0/command", "/v0/watch", "/v0/topics/small", "/v0/topics/orders"):
        for authorization in target.authorizations():
            with connections(target, len(bombs())) as opened:
                for connected, bomb in zip(opened, bombs(), strict=False):
                    more = f"{authorization}Content-Encoding: gzip\r\n"
                    send(connected, head("POST", path, len(bomb), more) + bomb)
                for connected in opened:
                    receive(connected)


def unfinished_bodies(target: Target) -> None:
    """Bodies of 60 MB whose last byte never comes, on both paths of an append and elsewhere."""
    for authorization in target.authorizations():
        for path, size in (("/v0/topics/small", SIZE), ("/v0/sql", SIZE), ("/v0/watch", SIZE)):
            with connections(target, 20) as opened:
                for connected in opened:
                    send(connected, head("POST", path, size, authorization))
                fill(opened, size - 1)
        with connections(target, 100) as opened:
            for connected in opened:
                send(connected, head("POST", "/v0/topics/small", 256 * 1024, authorization))
            fill(opened, 256 * 1024 - 1)


def unfinished_messages(target: Target) -> None:
    """WebSocket messages of 60 MB whose last byte never comes, whole and in fragments."""
    frame = struct.pack("!BBQ", 0x82, 0x80 | 127, SIZE) + bytes(4)
    fragments = b"\x01\x80\0\0\0\0" + b"\x00\x81\0\0\0\0x" * 100_000
    for authorization in target.authorizations():
        for begun in (frame, fragments):
            with connections(target, 26) as opened:
                for connected in opened:
                    send(connected, upgrade(authorization))
                for connected in opened:
                    receive(connected)
                    send(connected, begun)
                fill(opened, SIZE - 1)


def queued_messages(target: Target) -> None:
    """Many small messages that come at once."""
    for authorization in target.authorizations():
        with connections(target, 20) as opened:
            for connected in opened:
                send(connected, upgrade(authorization))
                receive(connected)
                send(connected, b'\x81\x8d\0\0\0\0{"op":"ping"}' * 50_000)


def slow_heads(target: Target) -> None:
    """Heads that grow a little at a time and never end."""
    with connections(target, 200) as opened:
        for connected in opened:
            send(connected, b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(30):
            for connected in opened:
                send(connected, b"A: " + b"a" * 900 + b"\r\n")
            wait(ROUND_S / 30)


def many_connections(target: Target) -> None:
    """Connections that say nothing."""
    with connections(target, 500):
        wait(ROUND_S)


def wrong_tokens(target: Target) -> None:
    """Tokens that do not exist, each another one, and passwords of users that do not exist."""
    with connections(target, 1) as opened:
        for number, connected in zip(range(200), opened * 200, strict=True):
            scheme = "Basic" if number % 10 == 0 else "Bearer"
            more = f"Authorization: {scheme} strand1_{next(_NUMBERS)}\r\n"
            send(connected, head("GET", "/v0/topics/orders", 0, more))
            receive(connected)


def unread_answers(target: Target) -> None:
    """Many requests at once, by a client that does not read their answers."""
    request = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connections(target, 20) as opened:
        for connected in opened:
            send(connected, request * 20_000)
        wait(ROUND_S)


ATTACKS: tuple[Attack, ...] = (
    gzip_bombs,
    unfinished_bodies,
    unfinished_messages,
    queued_messages,
    slow_heads,
    many_connections,
    wrong_tokens,
    unread_answers,
    # SQL: queries that are too large to be answered come here, with a token that may read.
)


@contextlib.contextmanager
def connections(target: Target, count: int) -> Iterator[list[socket.socket]]:
    """So many connections; those that cannot be opened are left out."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                connected = socket.create_connection(("127.0.0.1", target.port), _DEADLINE_S)
                opened.append(stack.enter_context(connected))
        yield opened


def head(method: str, path: str, size: int, more: str) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def upgrade(authorization: str) -> bytes:
    return (
        "GET /v0/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"{authorization}\r\n"
    ).encode()


def fill(opened: list[socket.socket], size: int) -> None:
    """Send as much as the server takes of each, up to a size, in pieces and in turn."""
    for connected in opened:
        connected.setblocking(False)
    left = dict.fromkeys(opened, size)
    for _ in range(round(ROUND_S / _PAUSE_S)):
        for connected in list(left):
            try:
                while left[connected] > 0:
                    left[connected] -= connected.send(_PIECE[: left[connected]])
            except BlockingIOError:
                continue
            except OSError:
                del left[connected]
        wait(_PAUSE_S)


def send(connected: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connected.sendall(data)


def receive(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.recv(65536)


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def repeat(attack: Attack, target: Target) -> None:
    while True:
        with contextlib.suppress(OSError):
            attack(target)


def main() -> None:
    target = Target(int(sys.argv[1]), sys.argv[2])
    bombs()
    names = sys.argv[3:] or [attack.__name__ for attack in ATTACKS]
    for attack in (each for each in ATTACKS if each.__name__ in names):
        threading.Thread(target=repeat, args=(attack, target), daemon=True).start()
    print("attacking", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
