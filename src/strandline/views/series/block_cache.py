"""Blocks that are read often, as points, so that reading them again unpacks nothing.

A block is known by its bytes: whatever happens to it in the map, what is found here is what these
bytes say, and nothing needs to be told when a block changes or goes. It is kept when it is read for
the second time while few others were, so that a scan over everything pushes nothing out. Out of
memory goes what was not read for longest.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

from strandline.views.series.block import ALL, Bounds, Points, cut, unpack
from strandline.views.series.source_state import memory_of

SEEN_MAX = 1024
"""Blocks that were read once and are remembered, at most."""

_COLUMNS_BYTES = sys.getsizeof(Points([], [], [], [])) + 4 * sys.getsizeof([])
_POINT_BYTES = 4 * 8 + 2 * sys.getsizeof(1 << 40)
"""Its places in four lists, and two numbers of its own."""
_ENTRY_BYTES = sys.getsizeof(b"") + 100  # its place in the table
_SEEN_BYTES = 100


class Decoded:
    """Unpacked blocks. Owned by one thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[bytes, Points] = OrderedDict()
        self._seen: set[int] = set()
        self._points_size = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return self._points_size + len(self._seen) * _SEEN_BYTES

    def within(self, block: bytes, bounds: Bounds) -> Points:
        """The points of a block within bounds."""
        found = self._kept.get(block)
        if found is not None:
            self._kept.move_to_end(block)
            return cut(found, bounds)
        if not self._is_read_again(block):
            return unpack(block, bounds)
        found = unpack(block, ALL)
        self._keep(block, found)
        return cut(found, bounds)

    def clear(self) -> None:
        """Give all memory back."""
        self._kept.clear()
        self._seen.clear()
        self._points_size = 0

    def _is_read_again(self, block: bytes) -> bool:
        mark = hash(block)
        if mark in self._seen:
            self._seen.discard(mark)
            return True
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen.add(mark)
        return False

    def _keep(self, block: bytes, points: Points) -> None:
        size = _memory_of(block, points)
        if size > self._bytes_max // 8:
            return  # one must not push out all others
        self._kept[block] = points
        self._points_size += size
        while self._points_size > self._bytes_max:
            self._points_size -= _memory_of(*self._kept.popitem(last=False))


def _memory_of(block: bytes, points: Points) -> int:
    payloads = sum(memory_of(points.payloads))
    return _ENTRY_BYTES + len(block) + _COLUMNS_BYTES + len(points.ats) * _POINT_BYTES + payloads
