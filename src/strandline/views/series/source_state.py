"""What is known of one source: its newest point, and the points that are in no block yet <-> bytes.

    offset  size  field
    0       8     number: stands for the source in keys of the index
    8       8     at of the newest point, signed
    16      8     seq of the newest point; of equal ats the last to come
    24      8     oldest: no point is before this at, signed
    32      8     end: at of the last point in a block, signed; points from there on are in the tail
    40      8     blocks, how many
    48      8     late, how many points are among the late arrivals
    56      n     the tail as a block (block.py), nothing when it is empty

Little-endian.

Blocks of a source follow each other: none begins before the last point of the one before. So a
point before ``end`` is in no block and not in the tail, but among the late arrivals, whatever its
route was. The tail is in order of (at, seq): a point that comes out of order is put into its place.
Small payloads are kept with their points; the others are only in the log.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice

from strandline.errors import Corrupt
from strandline.views.series.block import ALL, Bounds, Points, find, pack, squeeze, unpack
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payloads import Payload

POINT_BYTES = 31
"""Memory of a point in a tail: two numbers of 8 bytes, one of 4, the place of a payload, and what
such columns set aside."""
PAYLOAD_BYTES = sys.getsizeof(b"") + 8
"""Memory of a payload besides its bytes: Python's own, and rounding up."""
BLOCK_BYTES = 4 * 1024
"""Memory of the payloads of one block, at most: a reader of one point unpacks them all, and whoever
appends the last point of a block waits until it is packed. 29 payloads of 100 bytes; with four
times as many they take 10 % less."""
TAIL_BYTES = 8 * BLOCK_BYTES
"""Memory of the payloads of a tail, from which on its first points become a block."""

_HEAD = struct.Struct("<QqQqqQQ")


class Source:
    """One source. Owned by one thread."""

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
        """Memory that they take."""
        self.stored = b""
        """The tail as it was saved, of a source that is only read: it is unpacked when needed."""
        self.dirty = True
        self.used = True

    def add(self, at: int, seq: int, kind: int, payload: Payload) -> None:
        """Put a point into the tail. It is the last to come, so it goes behind those of its at."""
        ats = self.ats
        if not ats or at >= ats[-1]:
            ats.append(at)
            self.seqs.append(seq)
            self.kinds.append(kind)
            self.payloads.append(payload)
            return
        place = bisect_right(ats, at)
        ats.insert(place, at)
        self.seqs.insert(place, seq)
        self.kinds.insert(place, kind)
        self.payloads.insert(place, payload)

    def within(self, bounds: Bounds) -> Points:
        """The points of the tail within bounds, in order."""
        low, high = find(self.ats, self.seqs, bounds)
        return self._part(low, high)

    def first(self, count: int) -> Points:
        """The first points of the tail, as many as one block takes, and at least one."""
        if self.payload_bytes > BLOCK_BYTES:
            size = 0
            for place, payload in enumerate(islice(self.payloads, count)):
                size += len(payload) + PAYLOAD_BYTES if payload else 0
                if size > BLOCK_BYTES:
                    count = max(1, place)
                    break
        return self._part(0, count)

    def drop_first(self, count: int) -> None:
        """Forget the first points of the tail."""
        self.payload_bytes -= sum(memory_of(islice(self.payloads, count)))
        del self.ats[:count], self.seqs[:count], self.kinds[:count], self.payloads[:count]

    def leave_payloads(self) -> None:
        """Forget the payloads of the tail: they are in the log."""
        self.payloads = [None] * len(self.payloads)
        self.payload_bytes = 0

    def put(self, points: Points) -> None:
        """Have these points for a tail, which are in order."""
        ats, seqs, kinds, payloads = points
        self.ats, self.seqs, self.kinds = array("q", ats), array("q", seqs), array("I", kinds)
        self.payloads = list(payloads)
        self.payload_bytes = sum(memory_of(payloads))

    def _part(self, low: int, high: int) -> Points:
        return Points(
            self.ats[low:high].tolist(),
            self.seqs[low:high].tolist(),
            self.kinds[low:high].tolist(),
            self.payloads[low:high],
        )


def memory_of(payloads: Iterable[Payload]) -> list[int]:
    """What payloads take that are kept in memory, each of them."""
    return [len(payload) + PAYLOAD_BYTES if payload else 0 for payload in payloads]


SOURCE_BYTES = (
    sys.getsizeof(Source(0))
    + 3 * sys.getsizeof(array("q"))
    + sys.getsizeof([])
    + 3 * sys.getsizeof(1 << 40)  # numbers of its own
    + 150  # its place in the table, and its name
)
"""Memory of a source without points."""


def encode(source: Source) -> bytes:
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


def decode(data: bytes, where: str) -> Source:
    """The source of these bytes; ``where`` names it if they are none."""
    source = decode_head(data, where)
    if source.stored:
        source.put(unpack(source.stored, ALL, where))
        source.stored = b""
    return source


def decode_head(data: bytes, where: str) -> Source:
    """The same for who only reads: its tail stays packed."""
    if len(data) < _HEAD.size:
        raise Corrupt("too short for a source", path=where)
    source = Source(0)
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
