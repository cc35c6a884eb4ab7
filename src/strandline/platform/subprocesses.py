"""Child processes with a log file, a shared lock and a process group of their own.

The group is needed because ``spark-submit`` is a script that starts Java, which starts Python: all
of them have to be ended together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from strandline.platform.disk import Lock

_GRACE_S = 5.0
_TAIL_BYTES = 2_000


class ChildProcess:
    """A child process. Owned by one thread."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: str, lock: Lock
    ) -> None:
        """Start it. Its output replaces the content of the log. It inherits the lock."""
        self._log = log
        descriptor = lock.fileno()
        with open(log, "wb") as out:
            self._process = subprocess.Popen(  # noqa: S603 - a trusted program
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                pass_fds=[descriptor] if descriptor >= 0 else [],
                start_new_session=True,
            )

    @property
    def id(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """End it and all processes of its group; returns when it has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        self._process.wait()

    def output_tail(self) -> str:
        """The end of its output."""
        with open(self._log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
