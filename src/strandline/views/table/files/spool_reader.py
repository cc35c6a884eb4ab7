"""Columns of a file that was just written, one at a time, to build its indexes.

Indexes are built column by column, so only one column has to be in memory. The rows of a small file
stay in memory; those of a larger file are read back from the spool.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.platform.disk import ReadFile

MEMORY_ROWS_MAX = 1024 * 1024
"""Rows that stay in memory until the indexes are built."""


class SpooledColumns:
    """Sorted rows of a file that is being written. Owned by one thread."""

    def __init__(self, columns: pa.Schema) -> None:
        self.column_names: list[str] = columns.names
        self._in_memory: list[pa.Table] | None = [columns.empty_table()]
        self._rows = 0
        self._file: ReadFile | None = None

    def __len__(self) -> int:
        return self._rows

    def add(self, table: pa.Table) -> None:
        self._rows += table.num_rows
        if self._rows > MEMORY_ROWS_MAX:
            self._in_memory = None
        if self._in_memory is not None:
            self._in_memory.append(table)

    def read_from(self, file: ReadFile) -> None:
        """Use this file, which has all rows now."""
        self._file = file

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A whole column."""
        if self._in_memory is not None:
            return pa.concat_tables(self._in_memory)[name]
        assert self._file is not None
        source = pa.PythonFile(_ArrowInput(self._file), mode="r")
        return pq.read_table(source, columns=[name], page_checksum_verification=True)[name]


class _ArrowInput(io.RawIOBase):
    """Adapts a file of the disk to Arrow. Owned by one thread."""

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
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._file.size()}
        self._offset = bases[whence] + offset
        return self._offset

    def read(self, size: int = -1) -> bytes:
        remaining = self._file.size() - self._offset
        data = self._file.pread(remaining if size < 0 else min(size, remaining), self._offset)
        self._offset += len(data)
        return data
