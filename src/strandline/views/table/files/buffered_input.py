"""Bytes of a file that were fetched, as Arrow reads them.

What is going to be wanted is fetched first, near ranges in one request; Arrow is given those and
nothing else.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strandline.platform.objectstore.protocol import Objects

Range = tuple[int, int]
"""Offset and size."""

_GAP_MAX = 64 * 1024
"""Bytes between two ranges that are rather fetched than asked for apart."""


class Fetched:
    """Some ranges of an object. Immutable."""

    def __init__(self, objects: Objects, key: str, size: int, ranges: Sequence[Range]) -> None:
        wanted = joined(ranges)
        self._starts = [start for start, _ in wanted]
        self._parts = objects.get_ranges(key, wanted)
        self._size = size

    def part(self, start: int, size: int) -> memoryview:
        """Bytes that are among those that were fetched."""
        place = bisect.bisect_right(self._starts, start) - 1
        first = start - self._starts[place]
        if place < 0 or first + size > len(self._parts[place]):
            raise OSError(f"bytes {start} to {start + size} were not to be wanted")
        return memoryview(self._parts[place])[first : first + size]

    def file(self) -> Any:
        """A file of Arrow in which there is nothing else."""
        return pa.PythonFile(_File(self, self._size), mode="r")


def joined(ranges: Sequence[Range], gap_max: int = _GAP_MAX) -> list[Range]:
    """Sorted ranges in as few as pay."""
    found: list[Range] = []
    for start, size in sorted(ranges):
        if found and start - sum(found[-1]) <= gap_max:
            before = found[-1][0]
            found[-1] = before, max(sum(found[-1]), start + size) - before
        else:
            found.append((start, size))
    return found


class _File(io.RawIOBase):
    """Arrow calls from one thread at a time."""

    def __init__(self, fetched: Fetched, size: int) -> None:
        self._fetched = fetched
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        self._offset = before + offset
        return self._offset

    def read(self, size: int = -1) -> bytes:
        found = bytes(self._fetched.part(self._offset, size))
        self._offset += size
        return found
