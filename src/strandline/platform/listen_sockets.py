"""Opens listening sockets, TCP or a Unix socket for its owner only, and raises the file limit."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import stat

_BACKLOG = 2048


def listen_tcp(host: str, port: int) -> list[socket.socket]:
    """A socket for every address of a host, all on one port; port 0 selects a free one."""
    addresses = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # The IPv4 address has its own socket.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address[0], port, *address[2:]))
            port = port or listening.getsockname()[1]
            _listen(listening)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def listen_unix(path: str) -> list[socket.socket]:
    """A socket file with mode 0600; replaces the file of a server that has ended."""
    _remove_stale_socket(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous_umask = os.umask(
        0o177
    )  # a chmod after bind would leave the socket open to others until then
    try:
        listening.bind(path)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(previous_umask)
    _listen(listening)
    return [listening]


def remove_unix(path: str) -> None:
    """Remove the socket's file after the server has stopped."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def allow_open_files(count: int) -> None:
    """Let this process open this many files and connections, or as many as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def _listen(listening: socket.socket) -> None:
    listening.listen(_BACKLOG)
    listening.setblocking(False)


def _remove_stale_socket(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise FileExistsError(f"another server listens on {path}")
