"""Output of the demo: titles, lines, bars and tables, and the checks that decide the exit code.

On a terminal it is drawn by rich, with bars that move; elsewhere it is plain lines, one per fact.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

Update = Callable[[int], None]


class Stage:
    """Prints the demo and counts failed checks. Owned by one thread."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.failures: list[str] = []
        self._started_at = time.monotonic()
        self._chapter = 0

    def title(self, text: str) -> None:
        """Print the title of the next chapter."""
        self._chapter += 1
        self.console.print()
        self.console.print(f"[bold cyan]{self._chapter}. {escape(text)}[/]")

    def print_line(self, text: str) -> None:
        self.console.print(f"   {escape(text)}", soft_wrap=True)

    def check(self, good: bool, text: str) -> None:  # noqa: FBT001 - the condition of the check
        """Print a check; the demo fails if it is false."""
        mark = "[green]ok  [/]" if good else "[bold red]FAIL[/]"
        self.console.print(f"   {mark} {escape(text)}", soft_wrap=True)
        if not good:
            self.failures.append(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows under a header: the first column is text, the others are numbers."""
        table = Table(box=None, padding=(0, 1), header_style="dim")
        for index, name in enumerate(columns):
            table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        self.console.print(Padding(table, (0, 0, 0, 2)))

    @contextlib.contextmanager
    def bar(self, label: str, total: int) -> Iterator[Update]:
        """A progress bar; yields the function that updates it."""
        if not self.console.is_terminal:
            yield lambda done: None
            return
        columns = (
            TextColumn("   {task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(label, total=total)
            yield lambda done: progress.update(task, completed=done)

    def end(self) -> int:
        """Print the result and return the exit code."""
        seconds = time.monotonic() - self._started_at
        self.console.print()
        if self.failures:
            self.console.print(
                f"[bold red]{len(self.failures)} checks failed[/] in {seconds:.0f} s:"
            )
            for failure in self.failures:
                self.print_line(failure)
            return 1
        self.console.print(f"[bold green]All checks passed.[/] {seconds:.0f} s")
        return 0
