"""Ranges of an object as an input of Arrow.

The ranges that a read needs are fetched first, neighbouring ones in one request; Arrow can read
only these.
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
"""Up to this gap two ranges are fetched in one request, with the bytes between them."""


class FetchedRanges:
    """Fetched ranges of an object. Immutable."""

    def __init__(self, objects: Objects, key: str, size: int, ranges: Sequence[Range]) -> None:
        requests = join_ranges(ranges)
        self._starts = [start for start, _ in requests]
        self._parts = objects.get_ranges(key, requests)
        self._size = size

    def part(self, start: int, size: int) -> memoryview:
        """Bytes within a fetched range."""
        index = bisect.bisect_right(self._starts, start) - 1
        first = start - self._starts[index]
        if index < 0 or first + size > len(self._parts[index]):
            raise OSError(f"bytes {start} to {start + size} were not fetched")
        return memoryview(self._parts[index])[first : first + size]

    def file(self) -> Any:
        """A file of Arrow that has only the fetched ranges."""
        return pa.PythonFile(_ArrowInput(self, self._size), mode="r")


def join_ranges(ranges: Sequence[Range], gap_max: int = _GAP_MAX) -> list[Range]:
    """Sorted ranges, with neighbours up to ``gap_max`` joined."""
    merged: list[Range] = []
    for start, size in sorted(ranges):
        if merged and start - sum(merged[-1]) <= gap_max:
            first = merged[-1][0]
            merged[-1] = first, max(sum(merged[-1]), start + size) - first
        else:
            merged.append((start, size))
    return merged


class _ArrowInput(io.RawIOBase):
    """Adapts fetched ranges to Arrow, which calls from one thread at a time."""

    def __init__(self, fetched: FetchedRanges, size: int) -> None:
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
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._size}[whence]
        self._offset = base + offset
        return self._offset

    def read(self, size: int = -1) -> bytes:
        data = bytes(self._fetched.part(self._offset, size))
        self._offset += size
        return data
