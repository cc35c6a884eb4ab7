"""A server as a process of its own, for tests that stop or kill it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.server.running import DEADLINE_S, Raw

PROGRAM = [sys.executable, "-c", "from strandline.cli.main import main; main()", "serve"]


class Process:
    """A process that runs ``strandline serve``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.said = b""
        """What it wrote to stderr until it was ready."""

    @property
    def port(self) -> int:
        found = re.search(rb"serving https?://[^:]+:(\d+)", self.said)
        assert found is not None
        return int(found[1])

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, bytes]:
        """Exit code and the rest of stderr, once it has ended."""
        _, said = self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode, said

    def raw(self) -> Raw:
        return Raw(socket.create_connection(("127.0.0.1", self.port), DEADLINE_S))

    def wait_ready(self) -> None:
        """Until it serves, or has ended instead."""
        stderr = self._process.stderr
        assert stderr is not None
        deadline = time.monotonic() + DEADLINE_S
        while b"serving " not in self.said and time.monotonic() < deadline:
            if select.select([stderr], [], [], 0.1)[0]:
                data = os.read(stderr.fileno(), 65536)
                if not data:
                    return
                self.said += data
        assert b"serving " in self.said, self.said


@contextlib.contextmanager
def served(path: Path, *flags: str) -> Iterator[Process]:
    """A server on a free port, over the folder ``data`` of a path."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")
    }
    tokens = [*PROGRAM, "--data", str(path / "data"), "--bind", "127.0.0.1:0", *flags]
    with subprocess.Popen(tokens, stderr=subprocess.PIPE, env=environment) as process:
        try:
            server = Process(process)
            server.wait_ready()
            yield server
        finally:
            if process.poll() is None:
                process.kill()
