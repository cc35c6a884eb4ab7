"""The result of a query: rows with named columns, which can be read any number of times.

    rows(), iteration    a dict a row, of plain Python values
    tuples()             the same without names
    arrow()              a pyarrow.Table
    batches()            the same, in parts
    df(), pl()           a DataFrame of pandas or polars, if they are installed
    results              of a BATCH: the result of each command
    notes                remarks about the rows

Plain values are str, int, float, bool, None, ``datetime.date``, and ``datetime.datetime`` in UTC. A
date or time that is infinite or beyond the years of Python is the first or last one of Python.
A total of whole numbers is an int of any size; in Arrow it is decimal128(38, 0).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa

from strandline.errors import NotInstalled
from strandline.query.execute import time_values
from strandline.query.execute.profile import Profile
from strandline.query.execute.time_values import PYTHON, TimeForm, python_day, python_moment

NOTHING_FOUND = "No matching events found"

_BATCH_ROWS = 1000
_UTC = TimeForm(python_day, lambda micros, _: python_moment(micros, "UTC"))


class Result:
    """The result of a query. Immutable; safe from many threads."""

    results: tuple[Result, ...] = ()
    """Of a BATCH: the result of each command, in the order of the commands."""

    notes: tuple[str, ...] = ()
    """Remarks about the rows, for example values of a topic that do not fit its schema."""

    def __init__(
        self, table: pa.Table, *, profile: Profile | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self._table = table
        self.notes = notes
        self.profile = profile
        """The cost of the query, for EXPLAIN."""

    @property
    def columns(self) -> list[str]:
        names: list[str] = self._table.column_names
        return names

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types, also of an empty result."""
        return self._table.schema

    @property
    def message(self) -> str:
        """The number of rows as text."""
        return message_of(len(self))

    def rows(self) -> list[dict[str, Any]]:
        return list(self)

    def tuples(self) -> list[tuple[Any, ...]]:
        return [row for batch in self.batches() for row in _tuples(batch)]

    def arrow(self) -> pa.Table:
        return self._table

    def batches(self, rows_max: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Batches of at most ``rows_max`` rows; none when the result is empty."""
        yield from self._table.to_batches(max_chunksize=rows_max)

    def df(self) -> Any:
        """A DataFrame of pandas."""
        _library("pandas")
        return self._table.to_pandas(timestamp_as_object=False)

    def pl(self) -> Any:
        """A DataFrame of polars."""
        return _library("polars").from_arrow(self._table)

    def __len__(self) -> int:
        count: int = self._table.num_rows
        return count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        for batch in self.batches():
            for row in _tuples(batch):
                yield dict(zip(names, row, strict=True))

    def __repr__(self) -> str:
        return f"<Result {', '.join(self.columns)}: {self.message}>"


def message_of(count: int) -> str:
    """The number of rows as text."""
    return NOTHING_FOUND if not count else f"{count} row{'s' * (count != 1)}"


def _tuples(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    values = time_values.values(column, _UTC if pa.types.is_timestamp(kind) else PYTHON)
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotInstalled(
            f"{name} is not installed: pip install {name}, or use arrow()"
        ) from error
