"""A snapshot of a table: rows in memory, and files, which stay while the snapshot is held.

All rows in memory are returned, except hidden ones and those after the position: there are few of
them. Zones of files are excluded by their indexes (``views/table/files/row_reader.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import Invalid
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import ExternalScan
from strandline.views.table.files.row_reader import FileRead, PinnedFiles, read_files
from strandline.views.table.memtable import ColumnChunk
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ, ReadStatistics, Top
from strandline.views.table.upcast import upcast


class PinnedTable:
    """A snapshot of a table. Immutable; safe to use from many threads."""

    def __init__(
        self,
        *,
        name: str,
        schema: Schema,
        chunks: Sequence[ColumnChunk],
        files: PinnedFiles,
        hidden: BitMap64,
        position: int,
        deletes: int,
        now: Callable[[], float],
    ) -> None:
        self.name = name
        self.schema = schema
        self.position = position
        self.deletions = deletes
        """Rises when older rows are deleted."""
        self._chunks = chunks
        self._files = files
        self._hidden = hidden
        self._now = now

    @cached_property
    def columns(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @cached_property
    def rows(self) -> int:
        return sum(map(len, self.read([SEQ]).tables()))

    def read(
        self,
        columns: Sequence[str],
        where: Condition | None = None,
        *,
        after: int = 0,
        top: Top | None = None,
    ) -> PinnedTableRead:
        """All rows that fulfil a bound condition, and possibly others."""
        unknown = [name for name in columns if name not in self.columns.names]
        if unknown:
            raise Invalid(
                f"table {self.name!r} has no column {unknown[0]!r}: it has "
                f"{', '.join(self.columns.names)}"
            )
        facts = ReadStatistics(seconds={}, indexes=[])
        chunks = [
            chunk
            for chunk in self._chunks
            if chunk.last_seq > after and chunk.first_seq <= self.position
        ]
        files = read_files(
            self._files,
            self._hidden,
            self.schema,
            columns,
            where,
            after=after,
            until=self.position,
            top=top,
            facts=facts,
            now=self._now,
        )
        return PinnedTableRead(self, chunks, files, list(columns), after, facts)

    def stored_bytes(self, after: int = 0) -> int:
        """The size of the files that have rows after a seq."""
        return sum(file.size for file in self._files.files if file.last_seq > after)

    def exclude_newer_files(self, version: int) -> None:
        """Leave out files that were written in a newer version of the schema than this."""
        files = self._files.files
        self._files.files = tuple(file for file in files if file.schema_version <= version)

    def visible_rows(self, chunk: ColumnChunk, columns: Sequence[str], after: int) -> pa.Table:
        """The visible rows of a chunk in the newest schema."""
        table = chunk.table
        visible = self._visible(table[SEQ].to_numpy(), after)
        if visible is not None:
            table = table.filter(pa.array(visible))
        return upcast(table, chunk.schema, self.schema, columns)

    def _visible(self, seqs: np.ndarray, after: int) -> np.ndarray | None:
        """A mask of the visible rows; None for all."""
        if not len(seqs):
            return None
        first, last = int(seqs[0]), int(seqs[-1])
        hidden = self._hidden.range_cardinality(first, last + 1)
        if not hidden and first > after and last <= self.position:
            return None
        visible = (seqs > after) & (seqs <= self.position)
        if hidden:
            deleted = BitMap64(range(first, last + 1)) & self._hidden
            visible &= ~np.isin(seqs, np.fromiter(deleted, dtype=np.uint64, count=len(deleted)))
        return visible


class PinnedTableRead:
    """Rows of a snapshot. Owned by one thread."""

    def __init__(
        self,
        view: PinnedTable,
        chunks: Sequence[ColumnChunk],
        files: FileRead,
        columns: list[str],
        after: int,
        facts: ReadStatistics,
    ) -> None:
        self.facts = facts
        self._view = view
        self._chunks = chunks
        self._files = files
        self._columns = columns
        self._after = after

    @property
    def rows_max(self) -> int:
        rows: int = sum(chunk.table.num_rows for chunk in self._chunks)
        return self._files.rows_max + rows

    @property
    def bytes_max(self) -> int:
        size: int = sum(
            chunk.table.select(self._stored_columns(chunk)).nbytes for chunk in self._chunks
        )
        return self._files.bytes_max + size

    def tables(self) -> list[pa.Table]:
        """All rows, unordered."""
        return [*map(_nullable, self._files.tables()), *map(_nullable, self._memory())]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in batches."""
        for batch in self._files.batches():
            yield from _nullable(pa.Table.from_batches([batch])).to_batches()
        for table in self._memory():
            yield from _nullable(table).to_batches()

    def external_scan(self) -> ExternalScan:
        """The same rows as names of files and rows in memory."""
        request = self._files.request
        files = self._files.file_rows()
        self.facts.rows += sum(file.rows for file in files)
        return ExternalScan(
            files=files,
            memory=[_nullable(table) for table in self._memory()],
            first_seq=request.first_seq,
            last_seq=request.last_seq,
            hidden=request.hidden,
        )

    def _stored_columns(self, chunk: ColumnChunk) -> list[str]:
        return [name for name in self._columns if name in chunk.table.column_names]

    def _memory(self) -> Iterator[pa.Table]:
        for chunk in self._chunks:
            part = self._view.visible_rows(chunk, self._columns, self._after)
            self.facts.memory_rows += part.num_rows
            self.facts.rows += part.num_rows
            yield part


def _nullable(table: pa.Table) -> pa.Table:
    """The same rows with nullable columns: files and memory declare nullability differently."""
    fields = [field.with_nullable(True).remove_metadata() for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))
