"""Protocols of a table's snapshot: its rows at one position of the log, read by column.

A snapshot never changes. Many threads may read it for as long as they hold it: files that leave the
table in the meantime are not deleted until no snapshot refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import ExternalScan

SEQ, TS, CONTEXT = "seq", "ts", "context"

CORE = pa.schema(
    [
        pa.field(SEQ, pa.uint64(), nullable=False),
        pa.field(TS, pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field(CONTEXT, pa.string(), nullable=False),
    ]
)
"""Columns that every table has, in front of those of its schema."""


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """Only the first rows by one column are needed: zones that cannot have one may be skipped."""

    field: str
    descending: bool
    rows: int
    """The sum of LIMIT and OFFSET."""


class ReadStatistics(msgspec.Struct, kw_only=True):
    """The cost of a read, for EXPLAIN. Filled while the rows are read."""

    files: int = 0
    files_kept: int = 0
    zones: int = 0
    zones_kept: int = 0
    memory_rows: int = 0
    """Rows that are not in a file yet."""
    rows: int = 0
    """Rows that were returned."""
    bytes_read: int = 0
    """Bytes read from files; data from the cache does not count."""
    indexes: list[str] = []
    """The indexes that excluded zones, as ``field: kind``."""
    seconds: dict[str, float] = {}
    """Seconds by step."""


class TableRead(Protocol):
    """Rows of a snapshot: all that fulfil the condition, and possibly others of their zones."""

    facts: ReadStatistics

    def tables(self) -> list[pa.Table]:
        """All rows, unordered, with the requested columns in the requested order."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in batches, for results larger than memory."""
        ...

    def external_scan(self) -> ExternalScan:
        """The same rows as files and rows in memory, for engines that read files themselves."""
        ...

    @property
    def rows_max(self) -> int:
        """An upper bound of the number of rows, known before they are read."""
        ...

    @property
    def bytes_max(self) -> int:
        """Approximate bytes of memory for the tables, known before they are read."""
        ...


class EventTableSnapshot(Protocol):
    """A table at one position. Immutable; safe to use from many threads."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema:
        """The newest version: all rows are returned in it, those of older versions upcast."""
        ...

    @property
    def columns(self) -> pa.Schema:
        """CORE and the fields, with their Arrow types."""
        ...

    @property
    def position(self) -> int:
        """The seq of the last record that it includes."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def read(
        self,
        columns: Sequence[str],
        where: Condition | None = None,
        *,
        after: int = 0,
        top: Top | None = None,
    ) -> TableRead:
        """Rows with a seq above ``after`` that may fulfil a bound condition. Hidden rows are left
        out. Every row that fulfils the condition is returned, except those that ``top`` allows to
        skip."""
        ...
