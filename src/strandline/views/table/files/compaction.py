"""Merges files of a table into one, step by step, with bounded memory.

Every file is sorted. A few zones of each are in memory. All files are read up to the smallest of
their last rows, so all rows up to it can be sorted together and written; then files without rows in
memory read their next zones. A step writes a bounded number of rows; the next step continues.

Hidden rows and those below the floor are left out and removed from the hidden seqs. This applies
only to rows that were hidden when the merge began: later ones may have been written already.

A merge is not visible before its commit. One that is cancelled, or ended by a crash, leaves at most
objects that no manifest refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.schema import Schema
from strandline.views.table.dictionary import with_dictionaries
from strandline.views.table.files.file_snapshot import PinnedFiles
from strandline.views.table.files.layout import columns_of
from strandline.views.table.files.row_order import ORDER, sort_rows
from strandline.views.table.files.table_file import TableFile
from strandline.views.table.files.writer import FileTarget, FileWriter
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast

BUFFER_ROWS = 524_288
"""Approximate number of rows of all files together that are in memory at a time."""


class FileMerge:
    """A merge in progress. Owned by one thread at a time."""

    def __init__(
        self,
        where: FileTarget,
        pinned: PinnedFiles,
        files: Sequence[LakeFile],
        schema: Schema,
        attempt: str,
        *,
        buffer_rows: int = BUFFER_ROWS,
    ) -> None:
        """Holds ``pinned`` until it is closed; ``schema`` is the newest of its manifest."""
        self.files = files
        self.purged = pinned.hidden & _seq_range(files)
        """Hidden seqs that the new file does not have."""
        self._pinned = pinned
        self._schema = schema
        zones = max(1, buffer_rows // (len(files) * where.zone_rows))
        self._sources = [self._source(file, zones) for file in files if file.rows]
        self._tables = merge_rows(self._sources)
        self._writer = FileWriter(where, schema, attempt)

    def step(self, rows: int) -> bool:
        """Write about so many rows; False if there are no more."""
        written = 0
        for table in self._tables:
            self._writer.add(table)
            written += table.num_rows
            if written >= rows:
                return True
        return False

    def finish(self) -> LakeFile:
        """Upload the new file and return its entry."""
        return self._writer.finish(self.files[0].first_seq, self.files[-1].last_seq)

    def close(self) -> None:
        """Release the files: cancels a merge that is not finished."""
        self._writer.abandon()
        self._pinned.close()

    def _source(self, file: LakeFile, zones: int) -> _MergeInput:
        written = self._pinned.schema_of(file)
        opened = self._pinned.open(file)
        return _MergeInput(self._read(opened, written, zones))

    def _read(self, opened: TableFile, written: Schema, zones: int) -> Iterator[pa.Table]:
        columns = columns_of(self._schema).names
        purged_seqs = np.fromiter(self.purged, dtype="<u8", count=len(self.purged))
        for first in range(0, opened.zones, zones):
            chosen = np.arange(first, min(first + zones, opened.zones))
            table = with_dictionaries(opened.read(opened.columns, chosen), ())
            seqs = table[SEQ].to_numpy()
            keep = (seqs >= np.uint64(self._pinned.floor)) & ~np.isin(seqs, purged_seqs)
            if not keep.all():
                table = table.filter(pa.array(keep))
            yield upcast(table, written, self._schema, columns)


class _MergeInput:
    """The rows of one file: some in memory, then the remaining ones. Owned by one thread."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables = tables
        self._rows: pa.Table | None = None
        self._load_next()

    @property
    def last(self) -> Any:
        """The key of the last row in memory; None if there are no more rows."""
        return None if self._rows is None else _key(self._rows, self._rows.num_rows - 1)

    def pop_up_to(self, key: Any) -> pa.Table | None:
        """Remove and return the rows up to a key."""
        if self._rows is None:
            return None
        count = _count_up_to(self._rows, key)
        rows, remaining = self._rows.slice(0, count), self._rows.slice(count)
        self._rows = remaining
        if not remaining.num_rows:
            self._load_next()
        return rows

    def _load_next(self) -> None:
        self._rows = next((table for table in self._tables if table.num_rows), None)


def merge_rows(sources: Sequence[_MergeInput]) -> Iterator[pa.Table]:
    """The rows of all sources in order, as a sequence of tables."""
    while lasts := [source.last for source in sources if source.last is not None]:
        bound = min(lasts)  # every source has all its rows up to here in memory
        parts = [part for source in sources if (part := source.pop_up_to(bound)) is not None]
        yield sort_rows(pa.concat_tables(parts))


def _key(table: pa.Table, row: int) -> Any:
    context, ts, seq = (table[name][row] for name in ORDER)
    return context.as_py(), ts.value, seq.as_py()


def _count_up_to(table: pa.Table, key: Any) -> int:
    low, high = 0, table.num_rows
    while low < high:
        middle = (low + high) // 2
        if _key(table, middle) <= key:
            low = middle + 1
        else:
            high = middle
    return low


def _seq_range(files: Sequence[LakeFile]) -> BitMap64:
    return BitMap64(range(files[0].first_seq, files[-1].last_seq + 1))
