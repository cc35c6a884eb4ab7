"""A snapshot of Arrow tables in memory.

It has the interface of a table's snapshot, without files or indexes: a read returns all rows after
``after``, and the caller filters them; ``where`` and ``top`` are ignored. It is used for stored
results of materialized queries, and for tests that need a table but no store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Invalid
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import ExternalScan
from strandline.views.table.snapshot import SEQ, ReadStatistics, Top


def columns_of(schema: Schema) -> pa.Schema:
    """The columns of a table with this schema: those of every table, then its fields."""
    return typed_columns_of(schema, is_table=True).columns


class _ArrowReading:
    """Rows in memory. Immutable; safe from many threads."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self._tables = list(tables)
        self.facts = ReadStatistics(memory_rows=self.rows_max, rows=self.rows_max)

    def tables(self) -> list[pa.Table]:
        return list(self._tables)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for table in self._tables:
            yield from table.to_batches()

    def external_scan(self) -> ExternalScan:
        return ExternalScan(memory=self.tables())

    @property
    def rows_max(self) -> int:
        return sum(table.num_rows for table in self._tables)

    @property
    def bytes_max(self) -> int:
        return sum(table.nbytes for table in self._tables)


class ArrowSnapshot:
    """Tables of rows as a snapshot. Immutable; safe from many threads.

    Each table has the columns of ``CORE`` and the schema's fields; strings may be dictionaries.
    """

    def __init__(
        self, name: str, schema: Schema, tables: Sequence[pa.Table], *, position: int | None = None
    ) -> None:
        self.name = name
        self.schema = schema
        self.columns = columns_of(schema)
        for table in tables:
            missing = sorted(set(self.columns.names) - set(table.column_names))
            if missing:
                raise Invalid(f"rows of {name!r} lack columns of their schema: {missing}")
        self._tables = [table for table in tables if table.num_rows]
        self.rows = sum(table.num_rows for table in self._tables)
        self.position = self._last_seq() if position is None else position

    def read(
        self,
        columns: Sequence[str],
        where: Condition | None = None,
        *,
        after: int = 0,
        top: Top | None = None,
    ) -> _ArrowReading:
        tables = [_rows_after(table, after).select(list(columns)) for table in self._tables]
        empty = pa.schema([self.columns.field(name) for name in columns]).empty_table()
        return _ArrowReading([table for table in tables if table.num_rows] or [empty])

    def _last_seq(self) -> int:
        lasts = [pc.max(table[SEQ]).as_py() for table in self._tables]
        return max(lasts, default=0)


def _rows_after(table: pa.Table, after: int) -> pa.Table:
    if after == 0:
        return table
    return table.filter(pc.greater(table[SEQ], pa.scalar(after, pa.uint64())))
