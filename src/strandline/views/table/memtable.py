"""Rows of a table that are in no file yet: as they came, and as columns once somebody asked.

Rows come in as records. Making columns of them pays for many at once, not for one, so they wait
until somebody needs them: a question, a save, a flush. An append never does it.

A passive one no longer grows. It is turned into a file without the view's lock, so columns are made
under a lock of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec
import pyarrow as pa

from strandline.schema import Schema
from strandline.views.table.rows import fold_rows
from strandline.views.view import Rows

_ROW_RAM = 200
"""What a record takes that waits, besides its data: about."""
_FEW = 4096


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as columns, of one version of the schema, in order of seq."""

    table: pa.Table
    schema: Schema
    first_seq: int
    last_seq: int
    """The seqs that it answers for: each is a row, or is none."""
    page: int = 0
    """The page of the reservoir that has it; 0 for none."""


class MemTable:
    """Rows in order of seq. Filled by whoever holds the view's lock; read by many threads."""

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        """It answers for the seqs from here on."""
        self.last_seq = first_seq - 1
        self.rows = 0
        """Rows and misfits: what came in."""
        self.misfits = 0
        self._waiting_ram = 0
        self._chunks_ram = 0
        self._chunks: tuple[Chunk, ...] = ()
        self._waiting: list[tuple[Schema, Rows]] = []
        self._making = threading.Lock()

    @property
    def ram(self) -> int:
        """What it takes of memory, about."""
        return self._waiting_ram + self._chunks_ram

    def add(self, schema: Schema, rows: Rows, last_seq: int) -> None:
        """Take rows that follow on all before."""
        self._waiting_ram += sum(map(len, rows.data)) + _ROW_RAM * len(rows.seqs)
        self._waiting.append((schema, rows))
        self.rows += len(rows.seqs)
        self.last_seq = last_seq

    def adopt(self, chunk: Chunk) -> None:
        """Take columns that were made before and saved."""
        self._chunks += (chunk,)
        self._chunks_ram += chunk.table.nbytes
        self.rows += chunk.table.num_rows
        self.last_seq = chunk.last_seq

    def chunks(self) -> tuple[Chunk, ...]:
        """All rows as columns. Those that fit no schema are left out and counted."""
        with self._making:
            if self._waiting:
                waiting, self._waiting, self._waiting_ram = self._waiting, [], 0
                for schema, together in _runs(waiting):
                    self._make(schema, together)
            return self._chunks

    def paged(self, chunks: Iterable[Chunk]) -> None:
        """The same chunks, which know their pages now."""
        with self._making:
            self._chunks = tuple(chunks)

    def _make(self, schema: Schema, rows: Rows) -> None:
        table, misfits = fold_rows(schema, rows)
        self.misfits += len(misfits)
        if not table.num_rows:
            return
        last = self._chunks[-1] if self._chunks else None
        first_seq = self.first_seq if last is None else last.last_seq + 1
        self._chunks_ram += table.nbytes
        if last is not None and last.schema is schema and not last.page and len(last.table) < _FEW:
            # Questions between single events would make a chunk of each.
            table = pa.concat_tables([last.table, table]).unify_dictionaries().combine_chunks()
            first_seq, self._chunks = last.first_seq, self._chunks[:-1]
        chunk = Chunk(table=table, schema=schema, first_seq=first_seq, last_seq=rows.seqs[-1])
        self._chunks += (chunk,)


def _runs(waiting: list[tuple[Schema, Rows]]) -> Iterable[tuple[Schema, Rows]]:
    """Neighbours of the same schema together."""
    start = 0
    for place in range(1, len(waiting) + 1):
        if place == len(waiting) or waiting[place][0] is not waiting[start][0]:
            yield waiting[start][0], _joined([rows for _, rows in waiting[start:place]])
            start = place


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    columns = ([value for part in parts for value in part[place]] for place in range(6))
    return Rows._make(columns)
