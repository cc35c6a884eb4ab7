"""Prints rows in the shape that was asked for: table, json or jsonl.

A table is drawn by rich on a terminal and is plain aligned text elsewhere. Rows come in chunks and
are printed as they come, so that a long read or a live tail shows what it has; a chunk with other
columns than the one before gets a header of its own. JSON is one value, jsonl one value per line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strandline.cli.cells import Row
from strandline.cli.options import Shape

_encoder = msgspec.json.Encoder()


class Output(Protocol):
    """Where rows go. Owned by one command."""

    def rows(self, rows: Sequence[Row]) -> None:
        """Print the next rows of a list."""
        ...

    def notice(self, row: Row) -> None:
        """Say something in the middle of a list that is not one of its rows."""
        ...

    def one(self, row: Row) -> None:
        """Print a single thing, alone."""
        ...

    def end(self) -> None:
        """The list is complete."""
        ...


def output(shape: Shape, *, live: bool = False) -> Output:
    """The printer for a shape. Rows that come one by one are plain lines on a terminal too."""
    if shape == "json":
        return JsonOutput()
    if shape == "jsonl":
        return JsonLinesOutput()
    return TerminalOutput() if sys.stdout.isatty() and not live else PlainOutput()


class JsonOutput:
    """One JSON value: an array for a list, an object for a single thing."""

    def __init__(self) -> None:
        self._begun = False

    def rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            sys.stdout.write(",\n " if self._begun else "[")
            sys.stdout.write(_json(row))
            self._begun = True

    def notice(self, row: Row) -> None:
        self.rows([row])

    def one(self, row: Row) -> None:
        sys.stdout.write(msgspec.json.format(_json(row), indent=2) + "\n")

    def end(self) -> None:
        sys.stdout.write("]\n" if self._begun else "[]\n")


class JsonLinesOutput:
    """One JSON object per line, each written at once."""

    def rows(self, rows: Sequence[Row]) -> None:
        sys.stdout.write("".join(_json(row) + "\n" for row in rows))
        sys.stdout.flush()

    def notice(self, row: Row) -> None:
        self.rows([row])

    def one(self, row: Row) -> None:
        self.rows([row])

    def end(self) -> None:
        pass


class PlainOutput:
    """Aligned text without decoration, for pipes and files."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def rows(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        names = column_names(rows)
        if names != list(self._widths):
            self._widths = {name: len(name) for name in names}
            self._fit(rows)
            self._line({name: name.upper() for name in names})
        else:
            self._fit(rows)
        for row in rows:
            self._line(row.cells)
        sys.stdout.flush()

    def notice(self, row: Row) -> None:
        sys.stdout.write(f"-- {row.cells['notice']} --\n")
        sys.stdout.flush()

    def one(self, row: Row) -> None:
        width = max(map(len, row.cells))
        for name, cell in row.cells.items():
            sys.stdout.write(f"{name.ljust(width)}  {cell}\n")

    def end(self) -> None:
        pass

    def _fit(self, rows: Sequence[Row]) -> None:
        for name, width in self._widths.items():
            widest = max(len(row.cells.get(name, "-")) for row in rows)
            self._widths[name] = max(width, widest)

    def _line(self, cells: dict[str, str]) -> None:
        texts = [cells.get(name, "-").ljust(width) for name, width in self._widths.items()]
        sys.stdout.write("  ".join(texts).rstrip() + "\n")


class TerminalOutput:
    """Tables drawn by rich."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=False)
        self._names: list[str] = []

    def rows(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        names = column_names(rows)
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_header=names != self._names,
            header_style="bold",
        )
        for name in names:
            table.add_column(name, overflow="fold", style="cyan" if name == names[0] else "")
        for row in rows:
            table.add_row(*(Text(row.cells.get(name, "-")) for name in names))
        self._console.print(table)
        self._names = names

    def notice(self, row: Row) -> None:
        self._console.print(Text(f"-- {row.cells['notice']} --", style="bold yellow"))

    def one(self, row: Row) -> None:
        table = Table.grid(padding=(0, 2))
        for name, cell in row.cells.items():
            table.add_row(Text(name, style="bold"), Text(cell))
        self._console.print(table)

    def end(self) -> None:
        pass


def column_names(rows: Sequence[Row]) -> list[str]:
    """The columns that some row has, in the order in which the fullest rows have them."""
    names: list[str] = []
    for row in rows:
        place = 0
        for name in row.cells:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names


def _json(row: Row) -> str:
    return _encoder.encode(row.json).decode()
