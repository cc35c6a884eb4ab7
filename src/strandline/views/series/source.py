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
route was. The tail takes points as they come, and is brought into order when somebody looks.
"""

from __future__ import annotations

import struct
import sys
from array import array

from strandline.errors import Corrupt
from strandline.views.series.block import Bounds, Points, pack, unpack
from strandline.views.series.meta import AT_MAX, AT_MIN

POINT_BYTES = 22
"""Memory of a point in a tail: two numbers of 8 bytes, one of 4, and what arrays set aside."""

_HEAD = struct.Struct("<QqQqqQQ")
_ALL = Bounds(AT_MIN, 0, AT_MAX)


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
        "ordered",
        "seqs",
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
        self.ordered = True
        """Whether the tail is in order of (at, seq)."""
        self.dirty = True
        self.used = True

    def tail(self) -> Points:
        """The points of the tail, in order."""
        self.order()
        return Points(self.ats.tolist(), self.seqs.tolist(), self.kinds.tolist())

    def order(self) -> None:
        """Bring the tail into order."""
        if not self.ordered:
            points = sorted(zip(self.ats, self.seqs, self.kinds, strict=True))
            ats, seqs, kinds = zip(*points, strict=True)
            self.ats, self.seqs, self.kinds = array("q", ats), array("q", seqs), array("I", kinds)
            self.ordered = True

    def drop_first(self, count: int) -> None:
        """Forget the first points of a tail that is in order."""
        del self.ats[:count], self.seqs[:count], self.kinds[:count]


SOURCE_BYTES = (
    sys.getsizeof(Source(0))
    + 3 * sys.getsizeof(array("q"))
    + 3 * sys.getsizeof(1 << 40)  # numbers of its own
    + 150  # its place in the table, and its name
)
"""Memory of a source without points."""


def encode(source: Source) -> bytes:
    source.order()
    head = _HEAD.pack(
        source.number,
        source.max_at,
        source.max_seq,
        source.oldest,
        source.end,
        source.blocks,
        source.late,
    )
    return head + pack(source.ats, source.seqs, source.kinds) if source.ats else head


def decode(data: bytes, where: str) -> Source:
    """The source of these bytes; ``where`` names it if they are none."""
    source = decode_head(data, where)
    if len(data) > _HEAD.size:
        ats, seqs, kinds = unpack(data[_HEAD.size :], _ALL, where)
        source.ats, source.seqs, source.kinds = array("q", ats), array("q", seqs), array("I", kinds)
    return source


def decode_head(data: bytes, where: str) -> Source:
    """The same without its tail."""
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
    source.dirty = False
    return source
