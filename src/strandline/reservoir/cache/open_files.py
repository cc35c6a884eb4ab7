"""Files of the local disk that are open for reading, a bounded number of them.

A file that must make room is let go, not closed: a reader may be inside it, and its descriptor must
not become another file's meanwhile. The last reference closes it.

A reader takes ``opened`` without a lock and marks the use with a count and a number that only
grows. Two readers at once may lose one count of a hundred, never a byte.
"""

from __future__ import annotations

import itertools
import threading

from strandline.platform.disk import Disk, ReadFile

DESCRIPTORS_MAX = 256


class LocalFile:
    """A file of the local disk: where it is, how it was used, and whether it is open."""

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
        """When it was used last, by the count of ``OpenFiles.uses``."""
        self.uses = 0
        self.uses_weighed = 0
        """So many of its uses are in its weight already."""
        self.repairs = 0
        """Pages that were bad in it and written again."""
        self.opened: ReadFile | None = None


class OpenFiles:
    """Which local files are open. Safe from many threads; its lock is the last one taken."""

    def __init__(
        self, disk: Disk, files_max: int = DESCRIPTORS_MAX, *, direct: bool = False
    ) -> None:
        """``direct``: what is read does not stay in the page cache."""
        self.uses = itertools.count(1)
        self._open_read = disk.open_direct if direct else disk.open_read
        self._files_max = files_max
        self._lock = threading.Lock()
        self._open: set[LocalFile] = set()

    def open(self, file: LocalFile) -> ReadFile:
        """The file, opened when it is not open. Counts as a use."""
        with self._lock:
            file.used = next(self.uses)
            opened = file.opened
            if opened is None:
                opened = file.opened = self._open_read(file.path)
                self._open.add(file)
                if len(self._open) > self._files_max:
                    self._let_oldest_go()
            return opened

    def open_aside(self, file: LocalFile) -> ReadFile:
        """The file for one reader: it is no use, and nobody makes room for it."""
        return self._open_read(file.path)

    def let_go(self, file: LocalFile) -> None:
        with self._lock:
            file.opened = None
            self._open.discard(file)

    def close(self) -> None:
        """Let all of them go."""
        with self._lock:
            for file in self._open:
                file.opened = None
            self._open.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _let_oldest_go(self) -> None:
        # A quarter at once: the next opens need not look for the oldest.
        oldest = sorted(self._open, key=lambda file: file.used)
        for file in oldest[: max(1, self._files_max // 4)]:
            file.opened = None
            self._open.discard(file)
