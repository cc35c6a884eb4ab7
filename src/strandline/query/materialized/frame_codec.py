"""Arrow tables <-> frames, which are records of a topic. Pure.

A frame is a complete Arrow IPC stream, compressed with zstd, so that a reader of the topic can
decode each frame alone. A table is split between rows, until every frame is small enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from strandline.errors import TooLarge

_OPTIONS = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))


def pack(table: pa.Table, size_max: int) -> list[bytes]:
    """The frames of a table, none larger than ``size_max``. An empty table has one frame."""
    if not table.num_rows:
        return [_encode(table)]
    rows = _rows_of_a_frame(table, size_max)
    frames: list[bytes] = []
    for first in range(0, table.num_rows, rows):
        _pack(table.slice(first, rows), size_max, frames)
    return frames


def unpack(frames: Sequence[bytes]) -> pa.Table:
    """The table of some frames."""
    return pa.concat_tables([pa.ipc.open_stream(frame).read_all() for frame in frames])


def _pack(table: pa.Table, size_max: int, frames: list[bytes]) -> None:
    frame = _encode(table)
    if len(frame) <= size_max:
        frames.append(frame)
        return
    if table.num_rows == 1:
        raise TooLarge(
            f"one row of the result takes {len(frame)} bytes, but a record has at most {size_max}: "
            "RETURN fewer fields"
        )
    half = table.num_rows // 2
    _pack(table.slice(0, half), size_max, frames)
    _pack(table.slice(half), size_max, frames)


def _encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _rows_of_a_frame(table: pa.Table, size_max: int) -> int:
    """A first estimate: zstd mostly halves the size at least."""
    estimate: int = table.num_rows * size_max * 2 // max(table.nbytes, 1)
    return max(1, estimate)
