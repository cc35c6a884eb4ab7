"""State of one source <-> bytes: its newest point, and the points that are not in a block yet.

    offset  size  field
    0       8     number of the source, in keys of the index
    8       8     at of the newest point, signed
    16      8     seq of the newest point; of equal ats the greatest
    24      8     oldest: no point is before this at, signed
    32      8     end: at of the last point in a block, signed; points from it on are in the tail
    40      8     number of blocks
    48      8     number of late arrivals
    56      n     the tail as a block (block.py); empty without points

Little-endian.

Blocks of a source do not overlap: none starts before the last point of the previous one. So a new
point before ``end`` is not added to a block or to the tail, but to the late arrivals, whatever its
route is. The tail is in order of (at, seq): a point out of order is inserted at its position. Small
payloads are stored with their points; the others are only in the log.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice

from strandline.errors import Corrupt
from strandline.views.series.block import (
    ALL,
    PointBounds,
    SeriesPoints,
    find,
    pack,
    squeeze,
    unpack,
)
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payloads import Payload

POINT_BYTES = 31
"""Memory of a point in a tail: two numbers of 8 bytes, one of 4, the reference of a payload, and
the spare capacity of these columns."""
PAYLOAD_BYTES = sys.getsizeof(b"") + 8
"""Memory of a payload besides its bytes: the object header, and rounding."""
BLOCK_BYTES = 4 * 1024
"""Maximal memory of the payloads of one block: a read of one point unpacks them all, and the append
of the last point of a block waits until it is packed. That is 29 payloads of 100 bytes; four times
as many would take 10 % less space each."""
TAIL_BYTES = 8 * BLOCK_BYTES
"""Memory of the payloads of a tail from which on its first points become a block."""

_HEAD = struct.Struct("<QqQqqQQ")


class SourceState:
    """The state of one source. Owned by one thread."""

    __slots__ = (
        "ats",
        "blocks",
        "dirty",
        "end",
        "kinds",
        "late",
        "max_at",
        "max_seq",
        "number",
        "oldest",
        "payload_bytes",
        "payloads",
        "seqs",
        "stored",
        "used",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.max_at = AT_MIN
        self.max_seq = 0
        self.oldest = AT_MAX
        self.end = AT_MIN
        self.blocks = 0
        self.late = 0
        self.ats = array("q")
        self.seqs = array("q")
        self.kinds = array("I")
        self.payloads: list[Payload] = []
        self.payload_bytes = 0
        """Memory of the payloads."""
        self.stored = b""
        """The saved tail of a source that is only read: it is unpacked when it is needed."""
        self.dirty = True
        self.used = True

    def add(self, at: int, seq: int, kind: int, payload: Payload) -> None:
        """Add a point to the tail. Its seq is the greatest, so it follows those of equal at."""
        ats = self.ats
        if not ats or at >= ats[-1]:
            ats.append(at)
            self.seqs.append(seq)
            self.kinds.append(kind)
            self.payloads.append(payload)
            return
        index = bisect_right(ats, at)
        ats.insert(index, at)
        self.seqs.insert(index, seq)
        self.kinds.insert(index, kind)
        self.payloads.insert(index, payload)

    def within(self, bounds: PointBounds) -> SeriesPoints:
        """The points of the tail within bounds, in order."""
        low, high = find(self.ats, self.seqs, bounds)
        return self._slice(low, high)

    def first(self, count: int) -> SeriesPoints:
        """The first points of the tail, up to ``count`` or a full block, and at least one."""
        if self.payload_bytes > BLOCK_BYTES:
            size = 0
            for index, payload in enumerate(islice(self.payloads, count)):
                size += len(payload) + PAYLOAD_BYTES if payload else 0
                if size > BLOCK_BYTES:
                    count = max(1, index)
                    break
        return self._slice(0, count)

    def drop_first(self, count: int) -> None:
        """Remove the first points of the tail."""
        self.payload_bytes -= sum(memory_of(islice(self.payloads, count)))
        del self.ats[:count], self.seqs[:count], self.kinds[:count], self.payloads[:count]

    def drop_payloads(self) -> None:
        """Drop the payloads of the tail from memory: they are in the log."""
        self.payloads = [None] * len(self.payloads)
        self.payload_bytes = 0

    def replace_tail(self, points: SeriesPoints) -> None:
        """Replace the tail by these points, which are in order."""
        ats, seqs, kinds, payloads = points
        self.ats, self.seqs, self.kinds = array("q", ats), array("q", seqs), array("I", kinds)
        self.payloads = list(payloads)
        self.payload_bytes = sum(memory_of(payloads))

    def _slice(self, low: int, high: int) -> SeriesPoints:
        return SeriesPoints(
            self.ats[low:high].tolist(),
            self.seqs[low:high].tolist(),
            self.kinds[low:high].tolist(),
            self.payloads[low:high],
        )


def memory_of(payloads: Iterable[Payload]) -> list[int]:
    """The memory of each of these payloads."""
    return [len(payload) + PAYLOAD_BYTES if payload else 0 for payload in payloads]


SOURCE_BYTES = (
    sys.getsizeof(SourceState(0))
    + 3 * sys.getsizeof(array("q"))
    + sys.getsizeof([])
    + 3 * sys.getsizeof(1 << 40)  # numbers
    + 150  # its entry in the table, and its name
)
"""Memory of a source without points."""


def encode(source: SourceState) -> bytes:
    head = _HEAD.pack(
        source.number,
        source.max_at,
        source.max_seq,
        source.oldest,
        source.end,
        source.blocks,
        source.late,
    )
    if not source.ats:
        return head
    return head + squeeze(pack(source.ats, source.seqs, source.kinds, source.payloads))


def decode(data: bytes, where: str) -> SourceState:
    """The source of these bytes; ``where`` is the path of ``Corrupt``."""
    source = decode_head(data, where)
    if source.stored:
        source.replace_tail(unpack(source.stored, ALL, where))
        source.stored = b""
    return source


def decode_head(data: bytes, where: str) -> SourceState:
    """The same for a read-only use: the tail stays packed."""
    if len(data) < _HEAD.size:
        raise Corrupt("too short for a source", path=where)
    source = SourceState(0)
    (
        source.number,
        source.max_at,
        source.max_seq,
        source.oldest,
        source.end,
        source.blocks,
        source.late,
    ) = _HEAD.unpack_from(data)
    source.stored = data[_HEAD.size :]
    source.dirty = False
    return source
