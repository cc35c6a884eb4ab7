"""Queue of blocks that wait to be written to the map: at most ``adaptive_spacing.CAPACITY``.

Readers find waiting blocks by the number of their source, so it does not matter when they are
written. No block is dropped: if the queue is full, a batch is written before the next block is
added. A batch is removed after it was written to the map, so a failed write loses nothing.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import NamedTuple

Entry = tuple[bytes, bytes]
"""A block's key in the map, and its bytes."""

_ENTRY_BYTES = sys.getsizeof((b"", b"")) + 2 * sys.getsizeof(b"") + 8


class SourceBlocks(NamedTuple):
    """The oldest blocks of one source."""

    number: int
    entries: list[Entry]


class BlockQueue:
    """The queue. Owned by one thread."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Entry]] = {}
        self._length = 0
        self.size = 0
        """Bytes of memory."""

    def __len__(self) -> int:
        return self._length

    def add(self, number: int, key: bytes, block: bytes) -> None:
        self._blocks.setdefault(number, []).append((key, block))
        self._length += 1
        self.size += _ENTRY_BYTES + len(key) + len(block)

    def of(self, number: int) -> list[Entry]:
        """The waiting blocks of one source, oldest first."""
        return self._blocks.get(number, [])

    def oldest(self, count: int) -> list[SourceBlocks]:
        """``count`` blocks: the oldest of the sources that have waited longest."""
        portions = []
        for number, entries in islice(self._blocks.items(), count):
            portions.append(SourceBlocks(number, entries[:count]))
            count -= len(entries)
            if count <= 0:
                break
        return portions

    def drop(self, portion: SourceBlocks) -> None:
        """Remove blocks that were written to the map."""
        number, written = portion
        remaining = self._blocks[number][len(written) :]
        if remaining:
            self._blocks[number] = remaining
        else:
            del self._blocks[number]
        self._length -= len(written)
        self.size -= sum(_ENTRY_BYTES + len(key) + len(block) for key, block in written)
