"""One open file of a table: its verified footer, its indexes, and its columns by zones.

The footer is read once, in one request, and checked against the manifest. Columns are then read for
the selected zones only, and all their bytes are verified (``checksums.py``) before they are
decoded. Damage raises ``Corrupt`` with the name of the file. Bits can flip in transfer, too, so a
read that fails its checksum is repeated once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, Invalid, NotFound, StrandlineError, UnsupportedFormat
from strandline.lake import object_keys
from strandline.lake.manifest.file_entry import LakeFile
from strandline.platform.objectstore.protocol import Objects
from strandline.views.table.files import checksums, index_file, layout
from strandline.views.table.files.buffered_input import FetchedRanges, Range
from strandline.views.table.files.checksums import span_of, sum_of
from strandline.views.table.index.index_reader import Indexes
from strandline.views.table.snapshot import SEQ

_NAMES = msgspec.json.Decoder(list[str])
_PARSED = 6
"""Approximate size of a parsed footer in memory, as a multiple of its bytes."""


class TableFile:
    """One immutable file. Safe to call from many threads."""

    def __init__(self, objects: Objects, table_id: int, file: LakeFile) -> None:
        """Read the footer, and the catalogue of the indexes."""
        self.file = file
        self.lake = objects.name
        self.key = object_keys.data_key(table_id, file.name())
        self.path = f"{self.lake}/{self.key}"
        self._objects = objects
        self._table_id = table_id
        self._side_key = layout.index_key(table_id, file.name())
        self._metadata = self._footer()
        properties = self._metadata.metadata
        self.coded = frozenset(_NAMES.decode(properties[layout.CODED_KEY.encode()]))
        """Text columns that are read with their dictionary."""
        self.columns: list[str] = self._metadata.schema.names
        self.zones: int = self._metadata.num_row_groups
        self._sums = checksums.decode(
            properties[checksums.KEY.encode()], self.zones, len(self.columns)
        )
        groups = (self._metadata.row_group(zone).num_rows for zone in range(self.zones))
        self.starts = np.cumsum([0, *groups])
        """The first row of each zone, and the number of rows at the end."""
        self.indexes: Indexes | None = index_file.open_indexes(
            objects, table_id, file, self._parquet_bounds
        )
        self._spans: dict[str, np.ndarray] = {}
        self._bounds: tuple[np.ndarray, np.ndarray] | None = None
        self._lock = threading.Lock()

    @property
    def ram(self) -> int:
        """Approximate bytes of memory."""
        indexes = self.indexes.ram if self.indexes is not None else 0
        return _PARSED * int(self._metadata.serialized_size) + indexes

    def seq_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest seq by zone."""
        if self._bounds is None:
            self._bounds = self._index_bounds() or self._parquet_bounds()
        return self._bounds

    def disable_indexes(self, error: StrandlineError) -> None:
        """Stop using the indexes, which are damaged, and log the reason."""
        if self.indexes is not None:
            self.indexes = None
            index_file.log_unusable(self._objects, self._side_key, error)

    def size_of(self, columns: Sequence[str], zones: np.ndarray) -> int:
        """Bytes of columns in the file."""
        return sum(int(self._spans_of(name)[zones, 1].sum()) for name in columns)

    def ram_of(self, columns: Sequence[str], zones: np.ndarray) -> int:
        """Approximate bytes in memory: the size before compression, according to Parquet."""
        return sum(int(self._spans_of(name)[zones, 2].sum()) for name in columns)

    def read(self, columns: Sequence[str], zones: np.ndarray) -> pa.Table:
        """These columns of these zones, in order."""
        try:
            return self._read(columns, zones)
        except Corrupt:
            return self._read(columns, zones)

    def _read(self, columns: Sequence[str], zones: np.ndarray) -> pa.Table:
        with self._converted_errors(f"zones {_format_zones(zones)}", 0):
            file = pq.ParquetFile(
                self._fetch(columns, zones).file(),
                metadata=self._metadata,
                read_dictionary=[name for name in columns if name in self.coded],
                pre_buffer=False,
            )
            table = file.read_row_groups(zones.tolist(), columns=list(columns))
        return table.select(list(columns))

    def _fetch(self, columns: Sequence[str], zones: np.ndarray) -> FetchedRanges:
        """The verified bytes of columns in zones."""
        ranges: list[Range] = []
        expected: list[int] = []
        for name in columns:
            ranges += map(tuple, self._spans_of(name)[zones, :2].tolist())
            expected += self._sums[zones, self.columns.index(name)].tolist()
        fetched = FetchedRanges(self._objects, self.key, self.file.size, ranges)
        for index, ((start, size), checksum) in enumerate(zip(ranges, expected, strict=True)):
            if sum_of(fetched.part(start, size), self._table_id) != checksum:
                name, zone = columns[index // len(zones)], zones[index % len(zones)]
                raise self._damaged(f"column {name!r} of zone {zone} fails its checksum", start)
        return fetched

    def _spans_of(self, column: str) -> np.ndarray:
        """Offset, bytes in the file and bytes before compression of a column, by zone."""
        by_zone = self._spans.get(column)
        if by_zone is None:
            column_index = self.columns.index(column)
            spans = [
                _span(self._metadata.row_group(zone).column(column_index))
                for zone in range(self.zones)
            ]
            by_zone = self._spans[column] = np.array(spans, dtype="<i8").reshape(-1, 3)
        return by_zone

    def _index_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        if self.indexes is None:
            return None
        try:
            return self.indexes.seq_bounds()
        except index_file.UNUSABLE as error:
            self.disable_indexes(error)
            return None

    def _parquet_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        column_index = self.columns.index(SEQ)
        groups = [
            self._metadata.row_group(zone).column(column_index).statistics
            for zone in range(self.zones)
        ]
        lows = np.array([group.min for group in groups], dtype="<u8")
        return lows, np.array([group.max for group in groups], dtype="<u8")

    def _footer(self) -> Any:
        try:
            return self._read_footer()
        except Corrupt:
            return self._read_footer()

    def _read_footer(self) -> Any:
        file = self.file
        with self._converted_errors("the footer", file.tail_offset):
            tail = self._objects.get_range(self.key, file.tail_offset, file.size - file.tail_offset)
            if xxh3_64_intdigest(tail, self._table_id) != file.tail_checksum:
                raise self._damaged("the footer fails its checksum", file.tail_offset)
            metadata = pq.read_metadata(pa.BufferReader(tail))
        version = int(metadata.metadata[layout.FORMAT_KEY.encode()])
        if version > layout.FORMAT_VERSION:
            raise UnsupportedFormat(f"{self.path} has table format {version}: upgrade to read it")
        return metadata

    @contextmanager
    def _converted_errors(self, what: str, offset: int) -> Iterator[None]:
        """Convert errors of Arrow and of the object store to ``Corrupt``."""
        try:
            yield
        except NotFound as error:
            raise self._damaged("a file of a table is missing", 0) from error
        except Invalid as error:  # the object is shorter than the range
            raise self._damaged(str(error), offset) from error
        except (OSError, pa.ArrowException, ValueError) as error:
            raise self._damaged(f"{what} cannot be read ({error})", offset) from error

    def _damaged(self, reason: str, offset: int) -> Corrupt:
        return Corrupt(
            reason,
            path=self.path,
            offset=offset,
            topic_id=self._table_id,
            first_seq=self.file.first_seq,
            last_seq=self.file.last_seq,
        )


def _span(chunk: Any) -> tuple[int, int, int]:
    return *span_of(chunk), chunk.total_uncompressed_size


def _format_zones(zones: np.ndarray) -> str:
    text = ", ".join(map(str, zones[:8].tolist()))
    return f"{text} and {len(zones) - 8} more" if len(zones) > 8 else text
