"""Processes that take their children with them, and do not outlive the tests.

Each is the head of a session of its own. Killing it kills whoever is in that session: a worker with
its executors and their Pythons, a driver with its JVM, as if the machine had gone. And the kernel
kills it when the process that started it dies, whichever way; Spark's own children then go by
themselves, because they watch the one that started them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

WAIT_S_MAX = 240.0
POLL_S = 0.05
LOG_LINES = 40
# Argument 1 is the parent: one that has died already sends no signal.
_LEASHED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Process:
    """A process and all that it starts. Owned by one thread."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        self._is_over = False
        leash = [sys.executable, "-ISc", _LEASHED, str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*leash, *command],
                env=environment,
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self, timeout_s: float = WAIT_S_MAX) -> int:
        """How it ended. One that does not end in time is killed, and that is a failure."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout_s} s:\n{self.said()}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL for the whole session, until nobody is left in it."""
        if self._is_over:
            return  # its number may be somebody else's by now
        deadline = time.monotonic() + WAIT_S_MAX
        while found := list(members(self.pid)):
            assert time.monotonic() < deadline, f"processes {found} do not die"
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._process.poll()
            time.sleep(POLL_S)
        self._process.wait()
        self._is_over = True

    def said(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


def members(session: int) -> Iterator[int]:
    """The processes of a session that are not dead."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                status = Path("/proc", entry, "stat").read_text(encoding="utf-8")
            except OSError:
                continue  # it ended meanwhile
            state, _, _, of_session = status.rpartition(")")[2].split()[:4]
            if int(of_session) == session and state not in "ZX":
                yield int(entry)
