"""The bytes of a file as Arrow reads them: straight from a folder, or fetched by us.

Of a folder on the real disk Arrow reads what it wants by itself, without Python. Elsewhere the
bytes that are going to be wanted are fetched first, near ones in one request, and Arrow is given
those.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strandline.env.arrow_files import file_system
from strandline.env.folder import FolderObjects
from strandline.env.objects import Objects

Range = tuple[int, int]
"""Offset and size."""

_GAP_MAX = 64 * 1024
"""Bytes between two ranges that are rather fetched than asked for apart."""


def is_local(objects: Objects) -> bool:
    """Whether Arrow can open the files itself."""
    return isinstance(objects, FolderObjects) and objects.real_folder is not None


def open_local(objects: Objects, key: str) -> Any:
    """A file of a folder, opened by Arrow; OSError as it comes."""
    system, before = file_system(objects)
    return system.open_input_file(before + key)


def fetched(objects: Objects, key: str, size: int, ranges: Sequence[Range]) -> Any:
    """These ranges of an object, as a file of Arrow in which there is nothing else."""
    wanted = joined(ranges)
    parts = objects.get_ranges(key, wanted)
    return pa.PythonFile(_Parts([start for start, _ in wanted], parts, size), mode="r")


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


class _Parts(io.RawIOBase):
    """A file of which some parts are here. Arrow calls from one thread at a time."""

    def __init__(self, starts: list[int], parts: list[bytes], size: int) -> None:
        self._starts = starts
        self._parts = parts
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
        place = bisect.bisect_right(self._starts, self._offset) - 1
        start = self._offset - self._starts[place]
        part = self._parts[place]
        if place < 0 or start + size > len(part):
            raise OSError(f"bytes from {self._offset} on, {size} of them, were not to be wanted")
        self._offset += size
        return part[start : start + size]
