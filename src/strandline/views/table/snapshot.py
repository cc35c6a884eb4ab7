"""What a table holds at one position of its log, for whoever asks: rows by column, zones skipped.

A snapshot never changes. It may be read by many threads and for as long as it is held: files that
leave the table meanwhile stay as long as a snapshot names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from strandline.schema import Schema
from strandline.views.table.condition import Condition
from strandline.views.table.external_scan import Apart

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
    """Only the first rows by one column are wanted: zones without a chance may be left out."""

    field: str
    descending: bool
    rows: int
    """LIMIT and OFFSET together."""


class Facts(msgspec.Struct, kw_only=True):
    """What a reading has cost, for EXPLAIN. Filled while it is read."""

    files: int = 0
    files_kept: int = 0
    zones: int = 0
    zones_kept: int = 0
    memory_rows: int = 0
    """Rows that are not in files yet."""
    rows: int = 0
    """Rows that were handed out."""
    bytes_read: int = 0
    """Of files; what the cache had costs nothing."""
    indexes: list[str] = []
    """Which indexes ruled zones out, as ``field: kind``."""
    seconds: dict[str, float] = {}
    """Time by step."""


class Reading(Protocol):
    """Rows of a snapshot: all that fulfil the condition, and maybe others of the same zones."""

    facts: Facts

    def tables(self) -> list[pa.Table]:
        """All rows, in no order, with the columns that were asked for in that order."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same, bit by bit: for more than fits in memory."""
        ...

    def apart(self) -> Apart:
        """The same as files and rows in memory, for engines that read files by themselves."""
        ...

    @property
    def rows_max(self) -> int:
        """How many rows there may be, known before they are read."""
        ...

    @property
    def bytes_max(self) -> int:
        """What their tables take of memory, about, known before they are read."""
        ...


class Snapshot(Protocol):
    """A table at one position. Immutable; safe from many threads."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema:
        """The newest version: all rows are told in it, those of older versions upcast."""
        ...

    @property
    def columns(self) -> pa.Schema:
        """CORE and the fields, with their Arrow types."""
        ...

    @property
    def position(self) -> int:
        """The seq of the last record that it shows."""
        ...

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def read(
        self,
        columns: Sequence[str],
        where: Condition | None = None,
        *,
        after: int = 0,
        top: Top | None = None,
    ) -> Reading:
        """Rows that may fulfil a bound condition, with a seq above ``after``. Hidden ones are left
        out, and every row that fulfils the condition is there, but for what ``top`` allows to
        leave out."""
        ...
