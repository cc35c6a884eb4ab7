"""Rows of a table that are not in a file yet: as records first, then as columns.

Building columns is worthwhile for many rows at once, not for one, so records wait until a query, a
save or a flush needs columns. An append never builds columns.

A passive memtable does not grow. It is written to a file without the view's lock, so a separate
lock protects the building of columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec
import pyarrow as pa

from strandline.schema import Schema
from strandline.views.table.rows import fold_rows
from strandline.views.view import FoldColumns

_ROW_RAM = 200
"""Approximate bytes of a waiting record besides its data."""
_SMALL_ROWS = 4096


class ColumnChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as columns, of one version of the schema, in order of seq."""

    table: pa.Table
    schema: Schema
    first_seq: int
    last_seq: int
    """The chunk covers the seqs from first to last: each is a row, or not an event."""
    page: int = 0
    """The page of the reservoir that it is saved in; 0 for none."""


class MemTable:
    """Rows in order of seq. Filled by the thread with the view's lock; read by many threads."""

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        """It covers the seqs from this one on."""
        self.last_seq = first_seq - 1
        self.rows = 0
        """Rows and misfits: all records that were added."""
        self.misfits = 0
        self._waiting_ram = 0
        self._chunks_ram = 0
        self._chunks: tuple[ColumnChunk, ...] = ()
        self._waiting: list[tuple[Schema, FoldColumns]] = []
        self._chunks_lock = threading.Lock()

    @property
    def ram(self) -> int:
        """Approximate bytes of memory."""
        return self._waiting_ram + self._chunks_ram

    def add(self, schema: Schema, rows: FoldColumns, last_seq: int) -> None:
        """Add rows that follow all earlier ones."""
        self._waiting_ram += sum(map(len, rows.data)) + _ROW_RAM * len(rows.seqs)
        self._waiting.append((schema, rows))
        self.rows += len(rows.seqs)
        self.last_seq = last_seq

    def add_chunk(self, chunk: ColumnChunk) -> None:
        """Add columns that were built before and saved."""
        self._chunks += (chunk,)
        self._chunks_ram += chunk.table.nbytes
        self.rows += chunk.table.num_rows
        self.last_seq = chunk.last_seq

    def chunks(self) -> tuple[ColumnChunk, ...]:
        """All rows as columns. Records that do not fit the schema are left out and counted."""
        with self._chunks_lock:
            if self._waiting:
                waiting, self._waiting, self._waiting_ram = self._waiting, [], 0
                for schema, joined in _by_schema(waiting):
                    self._add_columns(schema, joined)
            return self._chunks

    def replace_chunks(self, chunks: Iterable[ColumnChunk]) -> None:
        """Replace the chunks by the same ones with their pages."""
        with self._chunks_lock:
            self._chunks = tuple(chunks)

    def _add_columns(self, schema: Schema, rows: FoldColumns) -> None:
        table, misfits = fold_rows(schema, rows)
        self.misfits += len(misfits)
        if not table.num_rows:
            return
        last = self._chunks[-1] if self._chunks else None
        first_seq = self.first_seq if last is None else last.last_seq + 1
        self._chunks_ram += table.nbytes
        if (
            last is not None
            and last.schema is schema
            and not last.page
            and len(last.table) < _SMALL_ROWS
        ):
            # Extend the last chunk: queries between single appends would make a chunk of each.
            table = pa.concat_tables([last.table, table]).unify_dictionaries().combine_chunks()
            first_seq, self._chunks = last.first_seq, self._chunks[:-1]
        chunk = ColumnChunk(table=table, schema=schema, first_seq=first_seq, last_seq=rows.seqs[-1])
        self._chunks += (chunk,)


def _by_schema(waiting: list[tuple[Schema, FoldColumns]]) -> Iterable[tuple[Schema, FoldColumns]]:
    """Neighbours of the same schema, joined."""
    start = 0
    for index in range(1, len(waiting) + 1):
        if index == len(waiting) or waiting[index][0] is not waiting[start][0]:
            yield waiting[start][0], _join([rows for _, rows in waiting[start:index]])
            start = index


def _join(parts: list[FoldColumns]) -> FoldColumns:
    if len(parts) == 1:
        return parts[0]
    columns = ([value for part in parts for value in part[index]] for index in range(6))
    return FoldColumns._make(columns)
