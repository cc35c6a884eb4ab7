"""Writes one file of a table and its file of indexes, and uploads both.

    1 rows into the spool, hashed on the way: the hash is part of the file's name
    2 the indexes into the object store, under that name
    3 the rows into the object store
    4 both are read back

A manifest lists the file afterwards. So whoever knows a file finds its indexes; who dies before
leaves objects that no manifest names, which a sweep finds.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest, xxh3_128

from strandline.env.objects import Objects
from strandline.errors import Corrupt
from strandline.lake import bounds, entry, keys
from strandline.lake.entry import ColumnStats, LakeFile
from strandline.lake.reader import LakeFileReader
from strandline.lake.upload import Spool, Spooled
from strandline.schema import Schema
from strandline.views.table.files import layout, sides
from strandline.views.table.snapshot import CONTEXT, TS

_FOOTER_END = 8  # size of the footer and the magic


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """Where files of one table go."""

    objects: Objects
    spool: Spool
    store_id: bytes
    table_id: int
    zone_rows: int


def write_file(
    where: Writing,
    table: pa.Table,
    schema: Schema,
    first_seq: int,
    last_seq: int,
    *,
    attempt: str,
) -> LakeFile:
    """A new file with these sorted rows, which answers for these seqs, uploaded and verified."""
    table = layout.plain(table, layout.columns_of(schema))
    spooled = where.spool.create(attempt)
    try:
        file = _spool(where, spooled, table, schema, first_seq, last_seq, attempt)
        side = sides.build(table, schema, where.zone_rows)
        key = layout.side_key(where.table_id, file.name())
        where.objects.put(key, side)
        source = spooled.read()
        try:
            where.objects.put_file(keys.data_key(where.table_id, file.name()), source)
        finally:
            source.close()
    finally:
        spooled.remove()
    _check_rows(where, file)
    if where.objects.get(key) != side:
        discard(where, file)
        raise _other_bytes(where, key)
    return file


def discard(where: Writing, file: LakeFile) -> None:
    """Delete a file that no manifest lists, nor ever will."""
    where.objects.delete(
        [keys.data_key(where.table_id, file.name()), layout.side_key(where.table_id, file.name())]
    )


def _spool(
    where: Writing,
    spooled: Spooled,
    table: pa.Table,
    schema: Schema,
    first_seq: int,
    last_seq: int,
    attempt: str,
) -> LakeFile:
    out = _Hashed(spooled)
    coding = layout.coding_of(table, where.zone_rows)
    options = layout.parquet_options(table.schema, coding, where.zone_rows)
    collected: list[Any] = []
    parquet = pq.ParquetWriter(out, table.schema, metadata_collector=collected, **options)
    try:
        if table.num_rows:
            parquet.write_table(table, row_group_size=where.zone_rows)
        out.begin_tail()
        parquet.add_key_value_metadata(
            {
                layout.FORMAT_KEY: str(layout.FORMAT_VERSION),
                layout.TABLE_KEY: f"{where.table_id:016x}",
                layout.STORE_KEY: where.store_id.hex(),
                layout.ATTEMPT_KEY: attempt,
                layout.SCHEMA_KEY: str(schema.version),
                layout.ZONES_KEY: str(-(-table.num_rows // where.zone_rows)),
                layout.CODED_KEY: msgspec.json.encode(coding.coded).decode(),
            }
        )
        parquet.close()
    finally:
        parquet.is_open = False  # else its finalizer closes it once more, and complains
    tail = out.footer()
    return LakeFile(
        first_seq=first_seq,
        last_seq=last_seq,
        rows=table.num_rows,
        size=out.offset,
        payload=table.nbytes,
        ts_min=_stamps(collected[0], "min_raw", min),
        ts_max=_stamps(collected[0], "max_raw", max),
        content=out.content.hexdigest(),
        tail_offset=out.offset - len(tail),
        tail_checksum=xxh3_64_intdigest(tail, where.table_id),
        schema_version=schema.version,
        stats=entry.encode_stats(_stats(collected[0], table.schema, schema)),
    )


def _stamps(metadata: Any, bound: str, choose: Any) -> int:
    groups = _statistics(metadata, metadata.schema.to_arrow_schema().get_field_index(TS))
    return int(choose((getattr(group, bound) for group in groups), default=0))


def _stats(metadata: Any, columns: pa.Schema, schema: Schema) -> dict[str, ColumnStats]:
    found = {}
    context = _statistics(metadata, columns.get_field_index(CONTEXT))
    if all(group.has_min_max for group in context):
        low = min((group.min for group in context), default=None)
        found[CONTEXT] = entry.text_stats(
            low, max((group.max for group in context), default=None), 0
        )
    for name, kind in list(schema.kinds().items())[: bounds.STATED_MAX]:
        stats = bounds.stats_of(kind, _statistics(metadata, columns.get_field_index(name)))
        if stats is not None:
            found[name] = stats
    return found


def _statistics(metadata: Any, place: int) -> list[Any]:
    """What Parquet knows of a column, by row group."""
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(group).column(place).statistics for group in groups]


def _check_rows(where: Writing, file: LakeFile) -> None:
    """The object store has the bytes that were written, and not only says so."""
    key = keys.data_key(where.table_id, file.name())

    def fetch(start: int, length: int) -> bytes:
        return where.objects.get_range(key, start, length)

    if LakeFileReader(fetch, file, where.table_id, key).content() != file.content:
        discard(where, file)
        raise _other_bytes(where, key)


def _other_bytes(where: Writing, key: str) -> Corrupt:
    return Corrupt(
        "an uploaded file reads back as other bytes: the rows stay where they are, and the upload "
        "is tried again",
        path=f"{where.objects.name}/{key}",
    )


class _Hashed:
    """The file that Parquet writes to. Once a write failed, it swallows what is left to write."""

    closed = False
    mode = "wb"

    def __init__(self, sink: Spooled) -> None:
        self.offset = 0
        self.content = xxh3_128()
        self._sink = sink
        self._dead = False
        self._tail: list[bytes] | None = None

    def write(self, data: bytes) -> int:
        if self._dead:
            return len(data)
        try:
            self._sink.write([data])
        except BaseException:
            self._dead = True
            raise
        self.offset += len(data)
        self.content.update(data)
        if self._tail is not None:
            self._tail.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self.offset

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """The sink belongs to the caller."""

    def begin_tail(self) -> None:
        """Keep what is written from here on."""
        self._tail = []

    def footer(self) -> bytes:
        assert self._tail is not None
        tail = b"".join(self._tail)
        return tail[-(int.from_bytes(tail[-_FOOTER_END:-4], "little") + _FOOTER_END) :]
