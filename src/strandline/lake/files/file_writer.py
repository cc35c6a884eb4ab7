"""Writes one lake file: rows of one topic in order of seq, as Parquet, hashed while written.

    bytes of the file        covered by
    "PAR1", row group 0      zone 0's checksum, in the footer
    row group 1, 2, ...      zone 1's, 2's, ...
    bloom filters, indexes   only the content hash: other engines use them, Strandline does not
    footer, "PAR1"           the tail checksum, in the manifest

A row group is a zone. It ends with the row that fills it (by count or by payload), or before a row
whose seq is too far from its first. So the cuts depend on the rows alone, not on the calls that
added them, and a zone with a slot for every seq stays small however many records were deleted.

docs/format/lake.md has the complete format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from xxhash import xxh3_64, xxh3_64_intdigest, xxh3_128

from strandline.lake.files import column_stats
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.lake.manifest import file_entry
from strandline.lake.manifest.file_entry import ColumnStats, LakeFile
from strandline.platform.disk import Buffer
from strandline.schema import NO_SCHEMA, Schema

FORMAT_VERSION = 1
ZONE_ROWS = 65_536
ZONE_BYTES = 16 * 1024 * 1024
ZONE_SPAN = 1 << 20
"""Maximum number of seqs from a zone's first row to its last: it limits the slots of a zone."""

FORMAT_KEY = "strandline.format"
TOPIC_KEY = "strandline.topic_id"
STORE_KEY = "strandline.store_id"
ATTEMPT_KEY = "strandline.attempt"
"""A random id: no two files have the same content, so none has the name of an earlier one."""
ZONES_KEY = "strandline.zones"

_PAYLOAD = ("key", "tag", "node", "meta", "data")
_STATS_COLUMNS = ("key", "tag", "node")
_FOOTER_END = 8  # size of the footer and the magic
_ZSTD_LEVEL = 1


class _Sink(Protocol):
    """The target of the bytes: a ``DurableFile``, committed by its owner."""

    def write(self, buffers: Sequence[Buffer]) -> int: ...


class LakeFileWriter:
    """Owned by one thread. Call ``finish`` or ``abandon``; the caller closes the sink."""

    def __init__(
        self,
        sink: _Sink,
        *,
        topic_id: int,
        store_id: bytes,
        attempt: str = "",
        schema: Schema = NO_SCHEMA,
        zone_rows: int = ZONE_ROWS,
        zone_bytes: int = ZONE_BYTES,
    ) -> None:
        assert 0 < zone_rows <= ZONE_SPAN
        self._out = _HashingFile(sink, topic_id)
        self._topic_id = topic_id
        self._store_id = store_id
        self._attempt = attempt
        self._shape = typed_columns_of(schema)
        self._zone_rows = zone_rows
        self._zone_bytes = zone_bytes
        self._parquet: Any = None  # created with the first zone, whose columns are the file's
        self._metadata: list[Any] = []
        self._zones: list[tuple[int, int, int, int, int]] = []
        self._tables: list[pa.Table] = []
        self._zone_first = 0
        self._count = 0
        self._size = 0
        self._rows = 0
        self._payload = 0
        self._last_seq = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._out.offset

    def add(self, table: pa.Table) -> None:
        """Append rows. Holds the table's memory until its zones are full."""
        if not len(table):
            return
        assert table.schema.equals(SCHEMA), "rows have the columns of a page"
        seqs = table["seq"].to_numpy()
        assert seqs[0] > self._last_seq, "rows follow those added before"
        assert (seqs[1:] > seqs[:-1]).all(), "rows are in order of seq"
        ends = np.cumsum(_payload_sizes(table))
        self._rows += len(table)
        self._payload += int(ends[-1])
        self._last_seq = int(seqs[-1])
        start = 0
        while start < len(table):
            start = self._fill(table, seqs, ends, start)

    def finish(self, first_seq: int, last_seq: int) -> LakeFile:
        """Write the rest; return the entry of the file, which covers all of these seqs."""
        self._write_zone()
        zones = self._zones
        assert not zones or (first_seq <= zones[0][0] and self._last_seq <= last_seq)
        self._out.begin_tail()
        if self._parquet is None:
            self._open_parquet(self._shape.columns)
        self._parquet.add_key_value_metadata(
            {
                FORMAT_KEY: str(FORMAT_VERSION),
                TOPIC_KEY: f"{self._topic_id:016x}",
                STORE_KEY: self._store_id.hex(),
                ATTEMPT_KEY: self._attempt,
                ZONES_KEY: msgspec.json.encode(zones).decode(),
            }
        )
        self._parquet.close()
        tail = self._out.tail()
        footer_size = int.from_bytes(tail[-_FOOTER_END:-4], "little") + _FOOTER_END
        # Without zones no other checksum covers the bytes before the footer.
        checked = memoryview(tail)[-footer_size:] if zones else memoryview(tail)
        ts_min, ts_max = _stamps(self._metadata[0])
        return LakeFile(
            first_seq=first_seq,
            last_seq=last_seq,
            rows=self._rows,
            size=self._out.offset,
            payload=self._payload,
            ts_min=ts_min,
            ts_max=ts_max,
            content=self._out.content.hexdigest(),
            tail_offset=self._out.offset - len(checked),
            tail_checksum=xxh3_64_intdigest(checked, self._topic_id),
            schema_version=self._shape.version,
            stats=file_entry.encode_stats(self._stats()),
        )

    def abandon(self) -> None:
        """Stop writing, also the footer that Parquet would add."""
        self._out.dead = True
        self._tables = []
        if self._parquet is not None:
            self._parquet.is_open = False  # else its finalizer closes it again, which fails
            self._parquet = None

    def _fill(self, table: pa.Table, seqs: np.ndarray, ends: np.ndarray, start: int) -> int:
        """Move rows into the zone and write it when it is full; return the next row."""
        if not self._count:
            self._zone_first = int(seqs[start])
        before = int(ends[start - 1]) if start else 0
        by_count = start + self._zone_rows - self._count
        by_size = int(np.searchsorted(ends, before + self._zone_bytes - self._size)) + 1
        # As unsigned numbers: a comparison with a signed one would convert to floats.
        by_span = int(np.searchsorted(seqs, np.uint64(self._zone_first + ZONE_SPAN)))
        following = min(by_count, by_size, by_span, len(table))
        if following > start:
            self._tables.append(table.slice(start, following - start))
            self._count += following - start
            self._size += int(ends[following - 1]) - before
        if following in (by_count, by_size) or by_span < len(table):
            self._write_zone()
        return following

    def _write_zone(self) -> None:
        if not self._count:
            return
        table = self._shape.add_typed_columns(pa.concat_tables(self._tables))
        self._tables, self._count, self._size = [], 0, 0
        if self._parquet is None:
            self._open_parquet(table.schema)
        self._parquet.write_table(table, row_group_size=len(table))
        first, last = table["seq"][0].as_py(), table["seq"][-1].as_py()
        self._zones.append((first, last, *self._out.end_zone()))

    def _stats(self) -> dict[str, ColumnStats]:
        metadata = self._metadata[0]
        stats_by_column = _stats(metadata)
        for name, kind in list(self._shape.kinds.items())[: column_stats.STATED_MAX]:
            index = self._shape.columns.get_field_index(name)
            stats = column_stats.stats_of(kind, _statistics(metadata, index))
            if stats is not None:
                stats_by_column[name] = stats
        return stats_by_column

    def _open_parquet(self, schema: pa.Schema) -> None:
        options = parquet_options(schema, self._zone_rows)
        collected = self._metadata
        self._parquet = pq.ParquetWriter(self._out, schema, metadata_collector=collected, **options)


def parquet_options(schema: pa.Schema, zone_rows: int = ZONE_ROWS) -> dict[str, Any]:
    """Options of the Parquet writer of pyarrow."""
    others = [name for name in schema.names if name not in SCHEMA.names]
    # For as many values as a zone can have; pyarrow shrinks a filter to the values that it got.
    bloom = {"ndv": zone_rows, "fpp": 0.05}
    return {
        "compression": "zstd",
        "compression_level": _ZSTD_LEVEL,
        "use_dictionary": ["tag", "node", *others],
        "column_encoding": {"seq": "DELTA_BINARY_PACKED", "ts": "DELTA_BINARY_PACKED"},
        "write_statistics": True,
        "write_page_index": True,
        "write_page_checksum": True,
        "sorting_columns": [pq.SortingColumn(0)],
        "bloom_filter_options": {"key": bloom, "tag": bloom},
    }


def _payload_sizes(table: pa.Table) -> np.ndarray:
    total = np.zeros(len(table), dtype="<i8")
    for name in _PAYLOAD:
        column = table[name]
        if column.null_count < len(column):
            total += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return total


def _stamps(metadata: Any) -> tuple[int, int]:
    groups = _statistics(metadata, SCHEMA.get_field_index("ts"))
    smallest = min((group.min_raw for group in groups), default=0)
    return smallest, max((group.max_raw for group in groups), default=0)


def _stats(metadata: Any) -> dict[str, ColumnStats]:
    stats = {}
    for name in _STATS_COLUMNS:
        groups = _statistics(metadata, SCHEMA.get_field_index(name))
        filled = [group for group in groups if group.num_values]
        if not all(group.has_min_max for group in filled):
            continue  # a value was too long for Parquet's statistics: its bounds are unknown
        smallest = min((group.min for group in filled), default=None)
        largest = max((group.max for group in filled), default=None)
        stats_of = file_entry.binary_stats if name == "key" else file_entry.text_stats
        stats[name] = stats_of(smallest, largest, sum(group.null_count for group in groups))
    return stats


def _statistics(metadata: Any, index: int) -> list[Any]:
    """Parquet's statistics of a column, by row group."""
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(group).column(index).statistics for group in groups]


class _HashingFile:
    """The file that Parquet writes to. After a failed write it ignores all further bytes."""

    closed = False
    mode = "wb"

    def __init__(self, sink: _Sink, seed: int) -> None:
        self.offset = 0
        self.content = xxh3_128()
        self.dead = False
        self._sink = sink
        self._seed = seed
        self._zone = xxh3_64(seed=seed)
        self._zone_offset = 0
        self._tail: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        if self.dead:
            return len(data)
        try:
            self._sink.write([data])
        except BaseException:
            self.dead = True
            raise
        self.offset += len(data)
        self.content.update(data)
        if self._tail is None:
            self._zone.update(data)
        else:
            self._tail.append(data)
        return len(data)

    def tell(self) -> int:
        return self.offset

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The sink belongs to the caller."""

    def end_zone(self) -> tuple[int, int, int]:
        """Offset, size and checksum of what was written since the last zone."""
        zone = self._zone_offset, self.offset - self._zone_offset, self._zone.intdigest()
        self._zone, self._zone_offset = xxh3_64(seed=self._seed), self.offset
        return zone

    def begin_tail(self) -> None:
        """Store what is written from here on."""
        self._tail = []

    def tail(self) -> bytes:
        assert self._tail is not None
        return b"".join(self._tail)
