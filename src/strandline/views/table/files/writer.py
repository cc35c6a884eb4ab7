"""Writes one file of a table and its file of indexes, and uploads both.

    1 write the rows to the spool and hash them; the footer gets the checksums of columns
      (``checksums.py``); the hash of the whole file is part of its name
    2 upload the indexes under that name
    3 upload the rows
    4 read both back

Only then a manifest lists the file. So every listed file has its indexes, and a crash before the
commit leaves objects that no manifest refers to, which garbage collection deletes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest, xxh3_128

from strandline.errors import Corrupt
from strandline.lake import object_keys
from strandline.lake.file_upload import Spool, SpoolFile
from strandline.lake.files import column_stats
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.manifest import file_entry
from strandline.lake.manifest.file_entry import ColumnStats, LakeFile
from strandline.platform.disk import ReadFile
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.views.table.files import checksums, index_file, layout
from strandline.views.table.files.checksums import ComposedFile
from strandline.views.table.files.spool_reader import SpooledColumns
from strandline.views.table.index.index_builder import build
from strandline.views.table.snapshot import CONTEXT, TS

_FOOTER_END = 8  # size of the footer and the magic


class FileTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how files of one table are written."""

    objects: Objects
    spool: Spool
    store_id: bytes
    table_id: int
    zone_rows: int


class FileWriter:
    """Writes one file. Owned by one thread. Call ``finish`` or ``abandon``."""

    def __init__(self, where: FileTarget, schema: Schema, attempt: str) -> None:
        self._where = where
        self._schema = schema
        self._attempt = attempt
        self._columns = layout.columns_of(schema)
        self._spooled = where.spool.create(attempt)
        self._out = _HashingSink(self._spooled)
        self._spooled_columns = SpooledColumns(self._columns)
        self._parquet: Any = None  # created with the first rows: they decide the encodings
        self._coding = layout.ColumnEncodings((), (), ())
        self._collected: list[Any] = []
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._rows = 0
        self._payload = 0

    @property
    def rows(self) -> int:
        return self._rows

    def add(self, table: pa.Table) -> None:
        """Add sorted rows that follow the earlier ones. They wait until their zone is full."""
        if not table.num_rows:
            return
        self._waiting.append(layout.without_dictionaries(table, self._columns))
        self._waiting_rows += table.num_rows
        self._rows += table.num_rows
        if whole := self._waiting_rows - self._waiting_rows % self._where.zone_rows:
            self._write(whole)

    def finish(self, first_seq: int, last_seq: int) -> LakeFile:
        """Write the remaining rows and upload; return the entry of the file, for these seqs."""
        try:
            if self._waiting_rows or self._parquet is None:
                self._write(self._waiting_rows)
            self._close_parquet()
            front = self._spooled.read()
            try:
                tail = self._tail(front)
                file = self._entry(tail, first_seq, last_seq)
                side = self._upload(file, ComposedFile(front, self._out.offset, tail))
            finally:
                front.close()
        finally:
            self.abandon()
        _check(self._where, file, side)
        return file

    def abandon(self) -> None:
        """Stop writing and delete the spool file. May be called at any time, and twice."""
        self._out.is_discarding = True
        self._waiting = []
        if self._parquet is not None:
            self._parquet.is_open = False  # else its finalizer closes it again, and fails
            self._parquet = None
        self._spooled.remove()

    def _write(self, count: int) -> None:
        """Write so many rows as zones; all zones except the last of the file are full."""
        table = pa.concat_tables(self._waiting) if self._waiting else self._columns.empty_table()
        current, rest = table.slice(0, count), table.slice(count)
        self._waiting, self._waiting_rows = [rest], rest.num_rows
        if self._parquet is None:
            self._open_parquet(current)
        if count:
            self._parquet.write_table(current, row_group_size=self._where.zone_rows)
            self._spooled_columns.add(current)
            self._payload += current.nbytes

    def _open_parquet(self, table: pa.Table) -> None:
        self._coding = layout.encodings_of(table, self._where.zone_rows)
        options = layout.parquet_options(self._columns, self._coding, self._where.zone_rows)
        self._parquet = pq.ParquetWriter(
            self._out, self._columns, metadata_collector=self._collected, **options
        )

    def _close_parquet(self) -> None:
        where, zones = self._where, -(-self._rows // self._where.zone_rows)
        self._out.begin_tail()
        self._parquet.add_key_value_metadata(
            {
                layout.FORMAT_KEY: str(layout.FORMAT_VERSION),
                layout.TABLE_KEY: f"{where.table_id:016x}",
                layout.STORE_KEY: where.store_id.hex(),
                layout.ATTEMPT_KEY: self._attempt,
                layout.SCHEMA_KEY: str(self._schema.version),
                layout.ZONES_KEY: str(zones),
                layout.CODED_KEY: msgspec.json.encode(self._coding.coded).decode(),
                checksums.KEY: checksums.placeholder(zones, len(self._columns)),
            }
        )
        self._parquet.close()

    def _tail(self, front: ReadFile) -> bytes:
        """The tail of the file, with the checksums of the columns before it."""
        sums = checksums.sums_of(self._collected[0], front, self._where.table_id)
        tail = checksums.fill_placeholder(self._out.tail(), sums)
        self._out.content.update(tail)
        return tail

    def _entry(self, tail: bytes, first_seq: int, last_seq: int) -> LakeFile:
        metadata, size = self._collected[0], self._out.offset + len(tail)
        footer = tail[-(int.from_bytes(tail[-_FOOTER_END:-4], "little") + _FOOTER_END) :]
        stamps = _statistics(metadata, self._columns.get_field_index(TS))
        return LakeFile(
            first_seq=first_seq,
            last_seq=last_seq,
            rows=self._rows,
            size=size,
            payload=self._payload,
            ts_min=min((group.min_raw for group in stamps), default=0),
            ts_max=max((group.max_raw for group in stamps), default=0),
            content=self._out.content.hexdigest(),
            tail_offset=size - len(footer),
            tail_checksum=xxh3_64_intdigest(footer, self._where.table_id),
            schema_version=self._schema.version,
            stats=file_entry.encode_stats(_stats(metadata, self._columns, self._schema)),
        )

    def _upload(self, file: LakeFile, source: ReadFile) -> bytes:
        """Upload the indexes, then the rows; return the indexes."""
        where = self._where
        self._spooled_columns.read_from(source)
        origin = index_file.origin_of(where.table_id, file)
        side = build(self._spooled_columns, self._schema, where.zone_rows, origin=origin)
        where.objects.put(layout.index_key(where.table_id, file.name()), side)
        where.objects.put_file(object_keys.data_key(where.table_id, file.name()), source)
        return side


def write_file(
    where: FileTarget,
    table: pa.Table,
    schema: Schema,
    first_seq: int,
    last_seq: int,
    *,
    attempt: str,
) -> LakeFile:
    """Write, upload and verify a file with these sorted rows, for these seqs."""
    writer = FileWriter(where, schema, attempt)
    try:
        writer.add(table)
        return writer.finish(first_seq, last_seq)
    finally:
        writer.abandon()


def discard(where: FileTarget, file: LakeFile) -> None:
    """Delete a file that no manifest lists or will list."""
    where.objects.delete(
        [
            object_keys.data_key(where.table_id, file.name()),
            layout.index_key(where.table_id, file.name()),
        ]
    )


def _stats(metadata: Any, columns: pa.Schema, schema: Schema) -> dict[str, ColumnStats]:
    by_field = {}
    context = _statistics(metadata, columns.get_field_index(CONTEXT))
    if all(group.has_min_max for group in context):
        low = min((group.min for group in context), default=None)
        by_field[CONTEXT] = file_entry.text_stats(
            low, max((group.max for group in context), default=None), 0
        )
    for name, kind in list(schema.columns().items())[: column_stats.STATED_MAX]:
        stats = column_stats.stats_of(kind, _statistics(metadata, columns.get_field_index(name)))
        if stats is not None:
            by_field[name] = stats
    return by_field


def _statistics(metadata: Any, column: int) -> list[Any]:
    """The Parquet statistics of a column, by row group."""
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(group).column(column).statistics for group in groups]


def _check(where: FileTarget, file: LakeFile, side: bytes) -> None:
    """Read both objects back: they must have the bytes that were written."""
    rows = object_keys.data_key(where.table_id, file.name())

    def fetch(start: int, length: int) -> bytes:
        return where.objects.get_range(rows, start, length)

    indexes = layout.index_key(where.table_id, file.name())
    for key, is_same in (
        (indexes, where.objects.get(indexes) == side),
        (rows, LakeFileReader(fetch, file, where.table_id, rows).content() == file.content),
    ):
        if not is_same:
            discard(where, file)
            raise _mismatch_error(where, key)


def _mismatch_error(where: FileTarget, key: str) -> Corrupt:
    return Corrupt(
        "an uploaded file reads back as other bytes: the rows stay where they are, and the upload "
        "is repeated",
        path=f"{where.objects.name}/{key}",
    )


class _HashingSink:
    """The file that Parquet writes to. After a failed write it ignores all further data."""

    closed = False
    mode = "wb"

    def __init__(self, sink: SpoolFile) -> None:
        self.offset = 0
        """Bytes before the tail."""
        self.content = xxh3_128()
        self.is_discarding = False
        self._sink = sink
        self._tail: list[bytes] | None = None
        self._tail_size = 0

    def write(self, data: bytes) -> int:
        if self.is_discarding:
            return len(data)
        if self._tail is not None:
            self._tail.append(bytes(data))
            self._tail_size += len(data)
            return len(data)
        try:
            self._sink.write([data])
        except BaseException:
            self.is_discarding = True
            raise
        self.offset += len(data)
        self.content.update(data)
        return len(data)

    def tell(self) -> int:
        return self.offset + self._tail_size

    def flush(self) -> None:
        """Does nothing: no data is buffered."""

    def close(self) -> None:
        """Does nothing: the caller closes the sink."""

    def begin_tail(self) -> None:
        """Keep all further data in memory, and do not write it to the sink."""
        self._tail = []

    def tail(self) -> bytes:
        assert self._tail is not None
        return b"".join(self._tail)
