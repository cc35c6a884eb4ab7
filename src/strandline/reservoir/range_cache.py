"""Files of the object store for whoever only reads: stretches of them in memory, the last in use.

A reader that opens beside a writer may not touch the writer's cache, and leaves nothing on a disk.
One request for each page would take it minutes for what it reads as a whole; pages that are read
one after the other lie beside each other as a rule, so a stretch is fetched for all of them.
Nothing here is checked: whoever reads a page does, and says so with ``evict`` when it is wrong.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from strandline.errors import Invalid
from strandline.platform.disk import ReadFile
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.data_files.data_file_table import FileRef

STRETCH_BYTES = 1 << 20
STRETCHES_MAX = 64
"""So many are kept: 64 MiB."""


class Stretches:
    """Stretches of files. Safe from many threads; two may fetch the same one at once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def open(self, file: FileRef) -> ReadFile:
        return StretchFile(self, file, f"{self._objects.name}/{object_keys.file_key(file.file_id)}")

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        del bad  # all readers of a file share its stretches
        with self._lock:
            gone = [place for place in self._kept if place[0] == file_id]
            for place in gone:
                del self._kept[place]
        return bool(gone)

    def stretch(self, file: FileRef, number: int) -> bytes:
        place = (file.file_id, number)
        with self._lock:
            found = self._kept.get(place)
            if found is not None:
                self._kept.move_to_end(place)
                return found
        start = number * STRETCH_BYTES
        size = min(STRETCH_BYTES, file.size - start)
        try:
            found = self._objects.get_range(object_keys.file_key(file.file_id), start, size)
        except Invalid:  # the object ends before the file does
            return b""
        with self._lock:
            self._kept[place] = found
            while len(self._kept) > STRETCHES_MAX:
                self._kept.popitem(last=False)
        return found


class StretchFile:
    """One file, through stretches. Safe from many threads."""

    def __init__(self, stretches: Stretches, file: FileRef, path: str) -> None:
        self._stretches = stretches
        self._file = file
        self.path = path

    def pread(self, size: int, offset: int) -> bytes:
        following = min(offset + size, self._file.size)
        first, last = offset // STRETCH_BYTES, (following - 1) // STRETCH_BYTES
        parts = [self._stretches.stretch(self._file, number) for number in range(first, last + 1)]
        start = offset - first * STRETCH_BYTES
        found = parts[0] if len(parts) == 1 else b"".join(parts)
        return found[start : start + size]

    def pread_into(self, target: memoryview, offset: int) -> int:
        data = self.pread(len(target), offset)
        target[: len(data)] = data
        return len(data)

    def size(self) -> int:
        return self._file.size

    def close(self) -> None:
        """Nothing is held."""
