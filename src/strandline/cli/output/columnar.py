"""Rows as CSV and as an Arrow stream, for other programs.

CSV has a line of names, then a line for each row: text as it is, bytes that are not UTF-8 as
``base64:…``, lists and objects as JSON. In Arrow, records have the columns and types of the lake;
other rows have types inferred from their values, and are written when they are complete.

A notice that is not a row, such as lost records, goes to stderr.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec

from strandline.cli.output.formatting import Json, OutputRow, RecordRow
from strandline.errors import Invalid

_BASE64 = "_base64"
_encoder = msgspec.json.Encoder()


class CsvOutput:
    """Comma-separated values, each chunk written at once."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._writer = csv.writer(sys.stdout, lineterminator="\n")

    def rows(self, rows: Sequence[OutputRow]) -> None:
        if not rows:
            return
        lines = [_plain(row.json) for row in rows]
        if not self._names:
            self._names = _names(lines)
            self._writer.writerow(self._names)
        for line in lines:
            if not line.keys() <= set(self._names):
                raise _other_columns("csv", line, self._names)
            self._writer.writerow(_cell(line.get(name)) for name in self._names)
        sys.stdout.flush()

    def notice(self, row: OutputRow) -> None:
        _print_notice(row)

    def one(self, row: OutputRow) -> None:
        self.rows([row])

    def end(self) -> None:
        pass


class ArrowOutput:
    """An Arrow IPC stream on stdout."""

    def __init__(self) -> None:
        if sys.stdout.isatty():
            error = Invalid("an Arrow stream is not text for a terminal")
            error.add_note("write it to a file: … --output arrow > FILE")
            raise error
        self._pa: Any = import_module("pyarrow")
        self._stream: Any = None
        self._lines: list[Json] = []

    def rows(self, rows: Sequence[OutputRow]) -> None:
        records = [row.record for row in rows if isinstance(row, RecordRow)]
        if len(records) < len(rows):
            self._lines += [row.json for row in rows]
        elif records:
            schema = _record_schema()
            columns = {name: [getattr(record, name) for record in records] for name in schema.names}
            self._open(schema).write_batch(self._pa.RecordBatch.from_pydict(columns, schema))
            sys.stdout.buffer.flush()

    def notice(self, row: OutputRow) -> None:
        _print_notice(row)

    def one(self, row: OutputRow) -> None:
        self.rows([row])
        self.end()

    def end(self) -> None:
        if self._stream is None:
            self.table(_table(self._pa, self._lines))
        else:
            self._stream.close()

    def table(self, table: Any) -> None:
        """Write a whole table with its own types."""
        self._open(table.schema).write_table(table)
        self._stream.close()
        sys.stdout.buffer.flush()

    def _open(self, schema: Any) -> Any:
        if self._stream is None:
            sys.stdout.flush()
            self._stream = self._pa.ipc.new_stream(sys.stdout.buffer, schema)
        return self._stream


def _record_schema() -> Any:
    return import_module("strandline.lake.files.record_columns").SCHEMA


def _table(pa: Any, lines: Sequence[Json]) -> Any:
    """A table of values; a column of values without a common type holds them as JSON."""
    columns = {}
    for name in _names(lines):
        values = [line.get(name) for line in lines]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            columns[name] = pa.array([None if it is None else _cell(it) for it in values])
    return pa.table(columns)


def _names(lines: Sequence[Json]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line))


def _plain(json: Json) -> Json:
    """Put base64 values into the column without the suffix, with the marker ``base64:``."""
    if not any(name.endswith(_BASE64) for name in json):
        return json
    return {
        name.removesuffix(_BASE64): f"base64:{value}" if name.endswith(_BASE64) else value
        for name, value in json.items()
    }


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return _encoder.encode(value).decode()


def _other_columns(shape: str, line: Json, names: Sequence[str]) -> Invalid:
    more = ", ".join(name for name in line if name not in names)
    error = Invalid(f"{shape} cannot add columns after the first row: {more}")
    error.add_note("use --output jsonl")
    return error


def _print_notice(row: OutputRow) -> None:
    sys.stdout.flush()
    print(f"-- {row.cells['notice']} --", file=sys.stderr, flush=True)
