"""Command lines in processes of their own, for the price of a fork: imports are made once.

    with Forking() as forking:
        process = forking.start(["topic", "ls"], folder=..., environment=...)
        code, out, err = process.ended(stdin=b"")

A process imports the program, and waits. For each command line it is told folder, environment and
descriptors, and forks: the child runs the entry point of the program, and ends as any program does.
All but the start of the interpreter is as it would be; that is tried beside this, for a few lines.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

_MESSAGE_MAX = 1 << 20
_SECONDS_MAX = 120
_ROOT = Path(__file__).parents[2]


class Forked:
    """One command line that runs."""

    def __init__(self, forking: Forking, pid: int, pipes: Sequence[int]) -> None:
        self.pid = pid
        self._forking = forking
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(pipe, mode) for pipe, mode in zip(pipes, ("wb", "rb", "rb"), strict=True)
        )

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def ended(self, stdin: bytes = b"") -> tuple[int, str, str]:
        """Exit code and what it printed, once it has ended by itself."""
        said: dict[str, bytes] = {}
        readers = [
            threading.Thread(target=_read, args=(said, name, stream))
            for name, stream in (("out", self.stdout), ("err", self.stderr))
        ]
        for reader in readers:
            reader.start()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(stdin)
            self.stdin.close()
        for reader in readers:
            reader.join(_SECONDS_MAX)
            assert not reader.is_alive(), "the command did not end in time"
        return self._forking.wait(self.pid), said["out"].decode(), said["err"].decode()


class Forking:
    """The process that has imported everything. Owned by one thread."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.settimeout(_SECONDS_MAX)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forking", str(number)],
                pass_fds=[number],
                cwd=_ROOT,
            )

    def __enter__(self) -> Forking:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)  # a test has failed before it ended
        self._asking.close()
        self._process.wait(_SECONDS_MAX)

    def start(
        self, tokens: Sequence[str], *, folder: str, environment: Mapping[str, str]
    ) -> Forked:
        """Run a command line."""
        pairs = [os.pipe() for _ in range(3)]
        theirs = [pairs[0][0], pairs[1][1], pairs[2][1]]
        wish = {"tokens": list(tokens), "folder": folder, "environment": dict(environment)}
        socket.send_fds(self._asking, [msgspec.json.encode(wish)], theirs)
        for each in theirs:
            os.close(each)
        pid = msgspec.json.decode(self._asking.recv(_MESSAGE_MAX))["pid"]
        self._running.add(pid)
        return Forked(self, pid, [pairs[0][1], pairs[1][0], pairs[2][0]])

    def wait(self, pid: int) -> int:
        """The exit code of a process that ends."""
        self._asking.sendall(msgspec.json.encode({"wait": pid}))
        code: int = msgspec.json.decode(self._asking.recv(_MESSAGE_MAX))["code"]
        self._running.discard(pid)
        return code


def _read(said: dict[str, bytes], name: str, stream: IO[bytes]) -> None:
    with stream:
        said[name] = stream.read()


def _serve(asked: socket.socket) -> dict[str, Any] | None:
    """Fork for whoever asks: what to do, in a child; None when nobody asks any more."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(asked, _MESSAGE_MAX, 3)
        if not data:
            return None
        wish = msgspec.json.decode(data)
        if "wait" in wish:
            code = os.waitstatus_to_exitcode(os.waitpid(wish["wait"], 0)[1])
            asked.sendall(msgspec.json.encode({"code": code}))
            continue
        pid = os.fork()
        if not pid:
            asked.close()
            return {**wish, "descriptors": descriptors}
        for each in descriptors:
            os.close(each)
        asked.sendall(msgspec.json.encode({"pid": pid}))


def _become(wish: dict[str, Any]) -> None:
    """Be a process that was started so."""
    for number, descriptor in enumerate(wish["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode) for number, mode in enumerate("rww")
    )
    os.chdir(wish["folder"])
    os.environ.clear()
    os.environ.update(wish["environment"])
    sys.argv = ["strandline", *wish["tokens"]]


if __name__ == "__main__":
    from strandline.cli.main import COMMANDS, main
    from tests.mutants.catalogue import plant

    for _where in COMMANDS.values():
        __import__(f"strandline.cli.{_where.partition(':')[0]}")
    if "STRANDLINE_MUTANT" in os.environ:
        plant(os.environ["STRANDLINE_MUTANT"])
    gc.collect()
    gc.freeze()  # or each child would copy all that was imported, to see whether it is garbage
    _wish = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _wish is not None:
        _become(_wish)
        main()
