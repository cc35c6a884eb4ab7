"""Range cache for read-only opens: recently used ranges of remote files in memory.

A reader that opens beside a writer may not use the writer's cache, and writes nothing to a disk.
One request per page would take minutes for a scan; pages that are read one after the other are
usually adjacent, so a range is fetched for all of them. Nothing is verified here: the reader of a
page verifies it, and calls ``evict`` if it is damaged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from strandline.errors import Invalid
from strandline.platform.disk import ReadFile
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.data_files.data_file_table import FileRef

RANGE_BYTES = 1 << 20
RANGES_MAX = 64
"""Maximum number of cached ranges: 64 MiB."""


class RangeCache:
    """Ranges of files. Safe from many threads; two may fetch the same range at once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._ranges: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def open(self, file: FileRef) -> ReadFile:
        return _CachedRangeFile(
            self, file, f"{self._objects.name}/{object_keys.file_key(file.file_id)}"
        )

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        del bad  # all readers of a file share its ranges
        with self._lock:
            evicted = [key for key in self._ranges if key[0] == file_id]
            for key in evicted:
                del self._ranges[key]
        return bool(evicted)

    def range_at(self, file: FileRef, number: int) -> bytes:
        key = (file.file_id, number)
        with self._lock:
            data = self._ranges.get(key)
            if data is not None:
                self._ranges.move_to_end(key)
                return data
        start = number * RANGE_BYTES
        size = min(RANGE_BYTES, file.size - start)
        try:
            data = self._objects.get_range(object_keys.file_key(file.file_id), start, size)
        except Invalid:  # the object ends before the file does
            return b""
        with self._lock:
            self._ranges[key] = data
            while len(self._ranges) > RANGES_MAX:
                self._ranges.popitem(last=False)
        return data


class _CachedRangeFile:
    """One file, read through cached ranges. Safe from many threads."""

    def __init__(self, stretches: RangeCache, file: FileRef, path: str) -> None:
        self._cache = stretches
        self._file = file
        self.path = path

    def pread(self, size: int, offset: int) -> bytes:
        following = min(offset + size, self._file.size)
        first, last = offset // RANGE_BYTES, (following - 1) // RANGE_BYTES
        parts = [self._cache.range_at(self._file, number) for number in range(first, last + 1)]
        start = offset - first * RANGE_BYTES
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return data[start : start + size]

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._file.size

    def close(self) -> None:
        """Nothing to release."""
