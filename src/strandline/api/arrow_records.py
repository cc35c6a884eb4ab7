"""Records as Arrow IPC streams: ``application/vnd.apache.arrow.stream``. Pure.

The metadata of a batch can declare compressed buffers and their decompressed size: a few bytes that
become gigabytes. Compressed buffers are therefore rejected before anything is decompressed
(``Content-Encoding: gzip`` compresses the whole body, and its size is bounded). The position of the
compression field in a message:

    Message      version, header kind (3 record batch, 2 dictionary), header, ...
    RecordBatch  length, nodes, buffers, compression
    Dictionary   id, RecordBatch
"""

from __future__ import annotations

import struct

import msgspec
import pyarrow as pa

from strandline.errors import Invalid

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
PAGE_KEY = b"strandline.page"
"""Key in the schema's metadata: the fields of a page besides its records, as JSON."""

_DICTIONARY, _RECORD_BATCH = 2, 3


def table_of(body: bytes) -> pa.Table:
    """The rows of a stream."""
    try:
        _reject_compressed(body)
        with pa.ipc.open_stream(body) as stream:
            return stream.read_all()
    except (pa.ArrowException, OSError, struct.error, IndexError, EOFError) as error:
        raise Invalid(f"the body is not an Arrow IPC stream: {error}") from error


def stream_of(table: pa.Table, page: object) -> bytes:
    """Rows as a stream, with the other fields of the page in the schema's metadata."""
    with_page = table.replace_schema_metadata({PAGE_KEY: msgspec.json.encode(page)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, with_page.schema) as stream:
        stream.write_table(with_page)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _reject_compressed(body: bytes) -> None:
    messages = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        if _is_compressed(bytes(message.metadata)):
            raise Invalid("Arrow has compressed buffers: compress the whole body with gzip instead")


def _is_compressed(message: bytes) -> bool:
    table = _follow(message, 0)
    kind_at = _field(message, table, 1)
    kind = message[kind_at] if kind_at else 0
    header_at = _field(message, table, 2)
    if not header_at or kind not in (_DICTIONARY, _RECORD_BATCH):
        return False
    header = _follow(message, header_at)
    if kind == _DICTIONARY:
        batch_at = _field(message, header, 1)
        if not batch_at:
            return False
        header = _follow(message, batch_at)
    return _field(message, header, 3) != 0


def _follow(message: bytes, at: int) -> int:
    """The position of the table that the offset at ``at`` points to."""
    return at + int(struct.unpack_from("<I", message, at)[0])


def _field(message: bytes, table: int, number: int) -> int:
    """The position of a field of a table, 0 when it is absent."""
    directory = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, directory)[0]
    slot = 4 + 2 * number
    if slot >= size:
        return 0
    offset = int(struct.unpack_from("<H", message, directory + slot)[0])
    return table + offset if offset else 0
