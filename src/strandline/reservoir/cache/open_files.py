"""A bounded number of local files that are open for reading.

A file above the bound is released, not closed: a reader may be using it, and its descriptor must
not become another file's meanwhile. The last reference closes it.

A reader uses ``opened`` without a lock and records the use with a count and a number that only
grows. Two concurrent readers may lose a count, never a byte.
"""

from __future__ import annotations

import itertools
import threading

from strandline.platform.disk import Disk, ReadFile

DESCRIPTORS_MAX = 256


class LocalFile:
    """A local file: its path, its use, and its open handle."""

    __slots__ = (
        "file_id",
        "opened",
        "path",
        "repairs",
        "size",
        "used",
        "uses",
        "uses_weighed",
        "weight",
    )

    def __init__(self, file_id: int, path: str, size: int, *, weight: int, used: int) -> None:
        self.file_id = file_id
        self.path = path
        self.size = size
        self.weight = weight
        self.used = used
        """The last use, as a number from ``OpenFiles.uses``."""
        self.uses = 0
        self.uses_weighed = 0
        """Number of its uses that are already part of its weight."""
        self.repairs = 0
        """Number of damaged pages that were rewritten."""
        self.opened: ReadFile | None = None


class OpenFiles:
    """The open local files. Safe from many threads; its lock is the last one taken."""

    def __init__(
        self, disk: Disk, files_max: int = DESCRIPTORS_MAX, *, direct: bool = False
    ) -> None:
        """``direct``: read bytes do not stay in the page cache."""
        self.uses = itertools.count(1)
        self._open_read = disk.open_direct if direct else disk.open_read
        self._files_max = files_max
        self._lock = threading.Lock()
        self._open: set[LocalFile] = set()

    def open(self, file: LocalFile) -> ReadFile:
        """Open the file unless it is open. Counts as a use."""
        with self._lock:
            file.used = next(self.uses)
            opened = file.opened
            if opened is None:
                opened = file.opened = self._open_read(file.path)
                self._open.add(file)
                if len(self._open) > self._files_max:
                    self._release_oldest()
            return opened

    def open_unshared(self, file: LocalFile) -> ReadFile:
        """Open the file for one reader: not counted as a use, nor in the number of open files."""
        return self._open_read(file.path)

    def release(self, file: LocalFile) -> None:
        with self._lock:
            file.opened = None
            self._open.discard(file)

    def close(self) -> None:
        """Release all files."""
        with self._lock:
            for file in self._open:
                file.opened = None
            self._open.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _release_oldest(self) -> None:
        # A quarter at once: the next opens do not have to find the oldest.
        oldest = sorted(self._open, key=lambda file: file.used)
        for file in oldest[: max(1, self._files_max // 4)]:
            file.opened = None
            self._open.discard(file)
