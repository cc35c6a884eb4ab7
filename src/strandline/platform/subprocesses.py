"""Processes that we start and end: with a log, with a lock that they keep, as a group of their own.

A group, because ``spark-submit`` is a script that starts Java that starts Python: to end one is to
end all of them.
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


class Child:
    """A process of ours. Owned by one thread."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: str, keeps: Lock
    ) -> None:
        """What it prints goes to the log, which begins anew. It shares the lock."""
        self._log = log
        descriptor = keeps.fileno()
        with open(log, "wb") as out:
            self._process = subprocess.Popen(  # noqa: S603 - a program of ours
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

    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """End it and all that it has started; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        self._process.wait()

    def last_words(self) -> str:
        """The end of what it printed."""
        with open(self._log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
