"""The columns of a file that has just been written, one at a time: for its indexes.

Indexes are built column by column, so no more than one has to be in memory. What is small is kept
as it came; the rest is read back from the spool.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.platform.disk import ReadFile

KEPT_ROWS_MAX = 1024 * 1024
"""Rows that are kept in memory until the indexes are built."""


class Columns:
    """Sorted rows of a file that is being written. Owned by one thread."""

    def __init__(self, columns: pa.Schema) -> None:
        self.column_names: list[str] = columns.names
        self._kept: list[pa.Table] | None = [columns.empty_table()]
        self._rows = 0
        self._file: ReadFile | None = None

    def __len__(self) -> int:
        return self._rows

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        if self._rows > KEPT_ROWS_MAX:
            self._kept = None
        if self._kept is not None:
            self._kept.append(table)

    def read_from(self, file: ReadFile) -> None:
        """Everything is in this file now."""
        self._file = file

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A column, all of it."""
        if self._kept is not None:
            return pa.concat_tables(self._kept)[name]
        assert self._file is not None
        source = pa.PythonFile(_Bytes(self._file), mode="r")
        return pq.read_table(source, columns=[name], page_checksum_verification=True)[name]


class _Bytes(io.RawIOBase):
    """A file of the disk as Arrow reads it. Owned by one thread."""

    def __init__(self, file: ReadFile) -> None:
        self._file = file
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._file.size()}
        self._offset = before[whence] + offset
        return self._offset

    def read(self, size: int = -1) -> bytes:
        left = self._file.size() - self._offset
        data = self._file.pread(left if size < 0 else min(size, left), self._offset)
        self._offset += len(data)
        return data
