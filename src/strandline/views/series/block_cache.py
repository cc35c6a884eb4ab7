"""Cache of unpacked blocks, so that a block that is read often is not unpacked again.

The key of an entry is the bytes of the block: an entry is always right, and needs no invalidation
when a block changes or is deleted. A block is inserted at its second read, if few others were read
in between, so that a scan over all blocks evicts nothing. The least recently used entry is evicted
first.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

from strandline.views.series.block import ALL, PointBounds, SeriesPoints, cut, unpack
from strandline.views.series.source_state import memory_of

READ_ONCE_MAX = 1024
"""The maximal number of blocks whose first read is recorded."""

_COLUMNS_BYTES = sys.getsizeof(SeriesPoints([], [], [], [])) + 4 * sys.getsizeof([])
_POINT_BYTES = 4 * 8 + 2 * sys.getsizeof(1 << 40)
"""The entries of a point in four lists, and two numbers."""
_ENTRY_BYTES = sys.getsizeof(b"") + 100  # its entry in the table
_SEEN_BYTES = 100


class DecodedBlocks:
    """A cache of unpacked blocks. Owned by one thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._blocks: OrderedDict[bytes, SeriesPoints] = OrderedDict()
        self._read_once: set[int] = set()
        self._points_size = 0

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return self._points_size + len(self._read_once) * _SEEN_BYTES

    def within(self, block: bytes, bounds: PointBounds) -> SeriesPoints:
        """The points of a block within bounds."""
        points = self._blocks.get(block)
        if points is not None:
            self._blocks.move_to_end(block)
            return cut(points, bounds)
        if not self._is_read_again(block):
            return unpack(block, bounds)
        points = unpack(block, ALL)
        self._insert(block, points)
        return cut(points, bounds)

    def clear(self) -> None:
        """Release all memory."""
        self._blocks.clear()
        self._read_once.clear()
        self._points_size = 0

    def _is_read_again(self, block: bytes) -> bool:
        digest = hash(block)
        if digest in self._read_once:
            self._read_once.discard(digest)
            return True
        if len(self._read_once) >= READ_ONCE_MAX:
            self._read_once.clear()
        self._read_once.add(digest)
        return False

    def _insert(self, block: bytes, points: SeriesPoints) -> None:
        size = _memory_of(block, points)
        if size > self._bytes_max // 8:
            return  # one block must not evict all others
        self._blocks[block] = points
        self._points_size += size
        while self._points_size > self._bytes_max:
            self._points_size -= _memory_of(*self._blocks.popitem(last=False))


def _memory_of(block: bytes, points: SeriesPoints) -> int:
    payloads = sum(memory_of(points.payloads))
    return _ENTRY_BYTES + len(block) + _COLUMNS_BYTES + len(points.ats) * _POINT_BYTES + payloads
