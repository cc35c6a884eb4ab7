"""Progress of long operations, on stderr: a bar on a terminal, elsewhere a line at times."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

_DELAY_S = 0.5
_LINE_S = 10.0  # between two lines


class Bar:
    """Shows a progress bar. Owned by one thread; use it as a context manager."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._started_at = time.monotonic()
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Update the progress of the operation of this name; ``total`` None if unknown."""
        if not self._is_terminal or time.monotonic() - self._started_at < _DELAY_S:
            return
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
        task = self._tasks.get(what)
        if task is None:
            task = self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(task, completed=done, total=total)


class Steps(Bar):
    """A bar, or without a terminal a line every 10 s: for operations of minutes and more."""

    def __init__(self) -> None:
        super().__init__()
        self._printed_at = time.monotonic()
        self._unfinished: set[str] = set()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Update the progress of the operation of this name; ``total`` None if unknown.

        The end of an operation is printed if one of its lines was.
        """
        super().show(what, done, total)
        if self._is_terminal:
            return
        is_end = total is not None and done >= total
        if (is_end and what in self._unfinished) or time.monotonic() - self._printed_at >= _LINE_S:
            self._printed_at = time.monotonic()
            (self._unfinished.discard if is_end else self._unfinished.add)(what)
            share = f"{100 * done // total} %" if total else str(done)
            print(f"{what}: {share}", file=sys.stderr, flush=True)
