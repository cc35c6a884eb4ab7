"""Sockets that a server listens on, TCP or a file that only its owner may open, and how many."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import stat

_BACKLOG = 2048


def listen_tcp(host: str, port: int) -> list[socket.socket]:
    """A socket for every address of a host, all on one port; port 0 takes a free one."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # The IPv4 address has a socket of its own.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address[0], port, *address[2:]))
            port = port or listening.getsockname()[1]
            _ready(listening)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def listen_unix(path: str) -> list[socket.socket]:
    """A socket file with mode 0600; one that a dead server left behind is replaced."""
    _remove_left_behind(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # from the first moment, not from a chmod on
    try:
        listening.bind(path)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    _ready(listening)
    return [listening]


def remove_unix(path: str) -> None:
    """Take the socket's file away when the server is done."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def allow_open_files(count: int) -> None:
    """Let this process have so many files and connections open, or as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _ready(listening: socket.socket) -> None:
    listening.listen(_BACKLOG)
    listening.setblocking(False)


def _remove_left_behind(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} is there and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise FileExistsError(f"another server listens on {path}")
