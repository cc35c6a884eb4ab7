"""Messages between a store and a process that runs its SQL: kinds, frames, rows.

    frame    size of the body, 4 bytes little-endian; kind, 1 byte; body

On the first socket the store sends requests and the process responses, one after the other:

    PARSE text               TREE json | FAILED
    QUERY text, relations    SCHEMA | FAILED
    NEXT                     ROWS | END | FAILED

On the second the process requests rows of relations, from any of its threads:

    PULL scan, relation, columns, filter     ROWS | END | FAILED
    DROP scan                                nothing

Rows are a stream of Arrow with one batch. The store checks what the process sends: it runs texts of
clients.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

PARSE, TREE, QUERY, SCHEMA, NEXT, ROWS, END, FAILED, PULL, DROP = range(1, 11)

PIECE_BYTES = 1 << 20
"""The size of a batch that a process sends, about; or one row."""
_HEADER = struct.Struct("<IB")


class FrameTooLarge(Exception):
    """The other side sent a frame over the limit."""


class SandboxQuery(msgspec.Struct, frozen=True, array_like=True):
    """A query to run."""

    text: str
    params: bytes
    """Pickled: the store sends them to the process, never the other way."""
    timezone: str
    rows: int
    relations: list[tuple[str, str, bytes]]
    """Schema, name and columns of each relation, by number."""


class RowsRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request for the next rows of a scan; the first one starts it."""

    scan: int
    relation: int
    columns: list[str]
    where: Any
    """The filter, encoded (``filters.py``)."""


class QueryFailure(msgspec.Struct, frozen=True, array_like=True):
    """An error of DuckDB or of Strandline, with the name of its class."""

    kind: str
    message: str


def send(to: socket.socket, kind: int, body: bytes | memoryview | pa.Buffer = b"") -> None:
    size = len(memoryview(body))
    header = _HEADER.pack(size, kind)
    if size < 4096:
        to.sendall(header + bytes(body))
    else:
        to.sendall(header)
        to.sendall(body)


def receive(of: socket.socket, size_max: int = 1 << 31) -> tuple[int, bytearray]:
    """The next frame; EOFError when the other side has closed the socket."""
    size, kind = _HEADER.unpack(_exactly(of, _HEADER.size))
    if size > size_max:
        raise FrameTooLarge(size)
    return kind, _exactly(of, size)


def rows_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def batch_of(body: bytearray) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_next_batch()


def schema_of(body: bytes | bytearray) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(body))


def split_batch(batch: pa.RecordBatch, bytes_max: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """A batch in parts of at most ``bytes_max`` bytes, or one row."""
    if batch.nbytes <= bytes_max or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_batch(batch.slice(0, half), bytes_max)
    yield from split_batch(batch.slice(half), bytes_max)


def _exactly(of: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = of.recv_into(view)
        if not count:
            raise EOFError("the other side closed the socket")
        view = view[count:]
    return data
