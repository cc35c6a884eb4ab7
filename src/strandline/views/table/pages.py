"""Rows in memory as pages of the reservoir: a chunk of columns each, as an Arrow stream. Pure."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from strandline.errors import Corrupt
from strandline.schema import Schema
from strandline.views.table.memtable import ColumnChunk

_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class PageInfo(msgspec.Struct, frozen=True, array_like=True):
    """What is needed to read a page."""

    page: int
    first_seq: int
    last_seq: int
    schema: Schema


def info(chunk: ColumnChunk) -> PageInfo:
    return PageInfo(chunk.page, chunk.first_seq, chunk.last_seq, chunk.schema)


def encode(chunk: ColumnChunk) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, chunk.table.schema, options=_OPTIONS) as writer:
        writer.write_table(chunk.table)
    return bytes(sink.getvalue())


def decode(entry: PageInfo, data: bytes) -> ColumnChunk:
    try:
        table = pa.ipc.open_stream(data).read_all()
    except pa.ArrowInvalid as error:
        raise Corrupt(f"page {entry.page} of a table cannot be read: {error}", path="") from error
    return ColumnChunk(
        table=table,
        schema=entry.schema,
        first_seq=entry.first_seq,
        last_seq=entry.last_seq,
        page=entry.page,
    )
