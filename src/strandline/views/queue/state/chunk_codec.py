"""A chunk <-> a page of the reservoir. Pure.

    0   1  form: 1
    1   1  1 when rows were moved together
    2   4  rows
    6   2  columns that follow: one bit each, in the order of ``_COLUMNS``
    8   2  of those, columns in which every row has the same value

Then the offsets if rows were moved together, then the columns: all values, or the one that stands
for all. So a run of jobs that wait and were never touched takes a few bytes.

Which jobs may be claimed is a matter of time, and time is not saved: a lease that has run out is
written as held, a delay that is over as a delay.
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
    Chunk,
    Column,
)

_FORM = 1
_HEAD = struct.Struct("<BBIHH")
_COLUMNS: dict[str, np.dtype[Any]] = {
    "state": np.dtype("u1"),
    "priority": np.dtype("u1"),
    "deliveries": np.dtype("<u2"),
    **{name: np.dtype(kind).newbyteorder("<") for name, kind in KINDS.items()},
}


def encode(chunk: Chunk) -> bytes:
    """The page of a chunk."""
    columns = {
        "state": _timeless(chunk),
        "priority": chunk.priority,
        "deliveries": chunk.deliveries,
        **chunk.extra,
    }
    there = alike = 0
    parts: list[bytes] = []
    if chunk.offsets is not None:
        parts.append(chunk.offsets.astype("<u2", copy=False).tobytes())
    for place, (name, kind) in enumerate(_COLUMNS.items()):
        column = columns.get(name)
        if column is None:
            continue
        there |= 1 << place
        if len(column) and (column == column[0]).all():
            alike |= 1 << place
            column = column[:1]
        parts.append(column.astype(kind, copy=False).tobytes())
    head = _HEAD.pack(_FORM, chunk.offsets is not None, len(chunk), there, alike)
    return b"".join((head, *parts))


def decode(number: int, page: bytes) -> Chunk:
    """The chunk of a page. How many jobs may be claimed is not counted yet."""
    try:
        return _decode(number, page)
    except (struct.error, ValueError) as error:
        raise Corrupt(
            f"chunk {number} of a queue cannot be read ({error})", path="a page"
        ) from error


def _decode(number: int, page: bytes) -> Chunk:
    form, moved, rows, there, alike = _HEAD.unpack_from(page)
    if form != _FORM or not 0 < rows <= SIZE:
        raise ValueError(f"form {form}, {rows} rows")
    chunk = Chunk(number)
    at = _HEAD.size
    if moved:
        chunk.offsets = np.frombuffer(page, dtype="<u2", count=rows, offset=at).copy()
        at += chunk.offsets.nbytes
    for place, (name, kind) in enumerate(_COLUMNS.items()):
        if not there & 1 << place:
            continue
        count = 1 if alike & 1 << place else rows
        found: Column = np.frombuffer(page, dtype=kind, count=count, offset=at)
        at += found.nbytes
        column = np.full(rows, found[0]) if count < rows else found.copy()
        if name in KINDS:
            chunk.extra[name] = column.astype(KINDS[name], copy=False)
        else:
            setattr(chunk, name, column)
    if at != len(page):
        raise ValueError(f"{len(page) - at} bytes too many")
    return chunk


def _timeless(chunk: Chunk) -> Column:
    state = chunk.state.copy()
    state[state == LAPSED] = HELD
    moments = chunk.extra.get("not_before")
    if moments is not None:
        state[(state == READY) & (moments > 0)] = DELAYED
    return state
