"""How far long work is, on stderr: a bar on a terminal, elsewhere a line now and then."""

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

_PATIENCE_S = 0.5
_LINE_S = 10.0  # between two lines


class Bar:
    """Shows how far something is. Owned by one thread; use it as a context manager."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty()
        self._begun = time.monotonic()
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
        """Work of this name is so far; None when its end is not known."""
        if not self._wanted or time.monotonic() - self._begun < _PATIENCE_S:
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
    """A bar, or without a terminal a line now and then: for work that takes minutes and more."""

    def __init__(self) -> None:
        super().__init__()
        self._told = time.monotonic()
        self._unfinished: set[str] = set()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Work of this name is so far; None when its end is not known.

        The end of work of which a line was printed is printed, too.
        """
        super().show(what, done, total)
        if self._wanted:
            return
        is_end = total is not None and done >= total
        if (is_end and what in self._unfinished) or time.monotonic() - self._told >= _LINE_S:
            self._told = time.monotonic()
            (self._unfinished.discard if is_end else self._unfinished.add)(what)
            share = f"{100 * done // total} %" if total else str(done)
            print(f"{what}: {share}", file=sys.stderr, flush=True)
