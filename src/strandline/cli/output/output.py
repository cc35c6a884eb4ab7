"""Prints rows in the requested format: table, json, jsonl, csv or arrow.

A table is drawn by rich on a terminal and is plain aligned text elsewhere. Every column is
printed, also one without values. Rows arrive in chunks and each chunk is printed at once, for long
reads and live tails; a chunk whose columns differ from those of the chunk before gets a header of
its own. JSON is one value, jsonl one value per line; CSV and Arrow are in
``cli/output/columnar.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strandline.cli.options import OutputFormat
from strandline.cli.output.columnar import ArrowOutput, CsvOutput
from strandline.cli.output.formatting import Cells, OutputRow

_LISTED_MAX = 20
_encoder = msgspec.json.Encoder()


class RowPrinter(Protocol):
    """A printer of rows. Owned by one command."""

    def rows(self, rows: Sequence[OutputRow]) -> None:
        """Print the next rows of a list."""
        ...

    def notice(self, row: OutputRow) -> None:
        """Print a message between the rows of a list."""
        ...

    def one(self, row: OutputRow) -> None:
        """Print a single row."""
        ...

    def end(self) -> None:
        """Finish the list."""
        ...


def output(shape: OutputFormat, *, live: bool = False) -> RowPrinter:
    """The printer for a format. With ``live``, rows are plain lines on a terminal too."""
    if shape == "json":
        return JsonOutput()
    if shape == "jsonl":
        return JsonLinesOutput()
    if shape == "csv":
        return CsvOutput()
    if shape == "arrow":
        return ArrowOutput()
    return TerminalOutput() if sys.stdout.isatty() and not live else PlainOutput()


def print_report(
    shape: OutputFormat, facts: OutputRow, lists: Mapping[str, Sequence[OutputRow]]
) -> None:
    """Print facts, and as tables the first rows of each list; JSON has whole lists in the facts."""
    output(shape).one(facts)
    if shape != "table":
        return
    for name, rows in lists.items():
        if rows:
            more = f" (the first {_LISTED_MAX} of {len(rows)})" if len(rows) > _LISTED_MAX else ""
            sys.stdout.write(f"\n{name}{more}\n")
            sys.stdout.flush()
            output(shape).rows(rows[:_LISTED_MAX])


class JsonOutput:
    """One JSON value: an array for a list, an object for a single row."""

    def __init__(self) -> None:
        self._begun = False

    def rows(self, rows: Sequence[OutputRow]) -> None:
        for row in rows:
            sys.stdout.write(",\n " if self._begun else "[")
            sys.stdout.write(_json(row))
            self._begun = True

    def notice(self, row: OutputRow) -> None:
        self.rows([row])

    def one(self, row: OutputRow) -> None:
        sys.stdout.write(msgspec.json.format(_json(row), indent=2) + "\n")

    def end(self) -> None:
        sys.stdout.write("]\n" if self._begun else "[]\n")


class JsonLinesOutput:
    """One JSON object per line, each written at once."""

    def rows(self, rows: Sequence[OutputRow]) -> None:
        sys.stdout.write("".join(_json(row) + "\n" for row in rows))
        sys.stdout.flush()

    def notice(self, row: OutputRow) -> None:
        self.rows([row])

    def one(self, row: OutputRow) -> None:
        self.rows([row])

    def end(self) -> None:
        pass


class PlainOutput:
    """Aligned text without decoration, for pipes and files."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def rows(self, rows: Sequence[OutputRow]) -> None:
        if not rows:
            return
        lines = [row.cells for row in rows]
        names = list(lines[0])
        known = names == list(self._widths)
        if not known:
            self._widths = {name: len(name) for name in names}
        for name, width in self._widths.items():
            self._widths[name] = max(width, *(len(_cell_text(cells[name])) for cells in lines))
        if not known:
            self._line({name: name.upper() for name in names})
        for cells in lines:
            self._line(cells)
        sys.stdout.flush()

    def notice(self, row: OutputRow) -> None:
        sys.stdout.write(f"-- {row.cells['notice']} --\n")
        sys.stdout.flush()

    def one(self, row: OutputRow) -> None:
        cells = row.cells
        width = max(map(len, cells))
        for name, cell in cells.items():
            sys.stdout.write(f"{name.ljust(width)}  {_cell_text(cell)}\n")

    def end(self) -> None:
        pass

    def _line(self, cells: Cells) -> None:
        texts = [_cell_text(cells[name]).ljust(width) for name, width in self._widths.items()]
        sys.stdout.write("  ".join(texts).rstrip() + "\n")


class TerminalOutput:
    """Tables drawn by rich."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=False)
        self._names: list[str] = []

    def rows(self, rows: Sequence[OutputRow]) -> None:
        if not rows:
            return
        lines = [row.cells for row in rows]
        names = list(lines[0])
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_header=names != self._names,
            header_style="bold",
        )
        for name in names:
            table.add_column(name, overflow="fold", style="cyan" if name == names[0] else "")
        for cells in lines:
            table.add_row(*(Text(_cell_text(cells[name])) for name in names))
        self._console.print(table)
        self._names = names

    def notice(self, row: OutputRow) -> None:
        self._console.print(Text(f"-- {row.cells['notice']} --", style="bold yellow"))

    def one(self, row: OutputRow) -> None:
        table = Table.grid(padding=(0, 2))
        for name, cell in row.cells.items():
            table.add_row(Text(name, style="bold"), Text(_cell_text(cell)))
        self._console.print(table)

    def end(self) -> None:
        pass


def _cell_text(cell: str | None) -> str:
    return "-" if cell is None else cell


def _json(row: OutputRow) -> str:
    return _encoder.encode(row.json).decode()
