"""A chunk <-> a page of the reservoir. Pure.

    0   1  form: 1
    1   1  1 if the rows were compacted
    2   4  rows
    6   2  columns that follow: one bit each, in the order of ``_COLUMNS``
    8   2  of those, columns in which every row has the same value

Then the offsets if the rows were compacted, then the columns: all values, or the one value that all
rows have. So a range of waiting jobs with default options takes a few bytes.

Which jobs may be claimed depends on the time, and time is not saved: a job with an expired lease is
written as held, a job after its delay as delayed.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from strandline.errors import Corrupt
from strandline.views.queue.state.job_chunk import (
    DELAYED,
    HELD,
    KINDS,
    LAPSED,
    READY,
    SIZE,
    Column,
    JobChunk,
)

_FORM = 1
_HEAD = struct.Struct("<BBIHH")
_COLUMNS: dict[str, np.dtype[Any]] = {
    "state": np.dtype("u1"),
    "priority": np.dtype("u1"),
    "deliveries": np.dtype("<u2"),
    **{name: np.dtype(kind).newbyteorder("<") for name, kind in KINDS.items()},
}


def encode(chunk: JobChunk) -> bytes:
    """The page of a chunk."""
    columns = {
        "state": _timeless(chunk),
        "priority": chunk.priority,
        "deliveries": chunk.deliveries,
        **chunk.extra,
    }
    present = alike = 0
    parts: list[bytes] = []
    if chunk.offsets is not None:
        parts.append(chunk.offsets.astype("<u2", copy=False).tobytes())
    for bit, (name, kind) in enumerate(_COLUMNS.items()):
        column = columns.get(name)
        if column is None:
            continue
        present |= 1 << bit
        if len(column) and (column == column[0]).all():
            alike |= 1 << bit
            column = column[:1]
        parts.append(column.astype(kind, copy=False).tobytes())
    head = _HEAD.pack(_FORM, chunk.offsets is not None, len(chunk), present, alike)
    return b"".join((head, *parts))


def decode(number: int, page: bytes) -> JobChunk:
    """The chunk of a page. Its ready jobs are not counted yet."""
    try:
        return _decode(number, page)
    except (struct.error, ValueError) as error:
        raise Corrupt(
            f"chunk {number} of a queue cannot be read ({error})", path="a page"
        ) from error


def _decode(number: int, page: bytes) -> JobChunk:
    form, compacted, rows, present, alike = _HEAD.unpack_from(page)
    if form != _FORM or not 0 < rows <= SIZE:
        raise ValueError(f"form {form}, {rows} rows")
    chunk = JobChunk(number)
    at = _HEAD.size
    if compacted:
        chunk.offsets = np.frombuffer(page, dtype="<u2", count=rows, offset=at).copy()
        at += chunk.offsets.nbytes
    for bit, (name, kind) in enumerate(_COLUMNS.items()):
        if not present & 1 << bit:
            continue
        count = 1 if alike & 1 << bit else rows
        values: Column = np.frombuffer(page, dtype=kind, count=count, offset=at)
        at += values.nbytes
        column = np.full(rows, values[0]) if count < rows else values.copy()
        if name in KINDS:
            chunk.extra[name] = column.astype(KINDS[name], copy=False)
        else:
            setattr(chunk, name, column)
    if at != len(page):
        raise ValueError(f"{len(page) - at} bytes too many")
    return chunk


def _timeless(chunk: JobChunk) -> Column:
    state = chunk.state.copy()
    state[state == LAPSED] = HELD
    not_before = chunk.extra.get("not_before")
    if not_before is not None:
        state[(state == READY) & (not_before > 0)] = DELAYED
    return state
