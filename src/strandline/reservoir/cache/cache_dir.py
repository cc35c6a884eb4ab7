"""The folder of a cache: its files, and how a file is created.

    LOCK                        held by the one process that uses the folder
    <file id, 16 hex digits>    a complete file
    <...>.<number>.part         a file that is being written

Space is reserved for a file first, then its bytes are written, then it gets its name. Nothing is
synced: after a power loss a file may have its size and not its bytes. The reader of a page verifies
it, so that only costs a download. Written past the page cache, a file may end with zeros that are
not part of it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

import msgspec

from strandline.errors import Locked, Unavailable
from strandline.platform.disk import Buffer, Disk, Lock

LOCK = "LOCK"
_ID_DIGITS = 16


class CachedFile(msgspec.Struct, frozen=True):
    """A complete file in the folder."""

    file_id: int
    size: int
    modified_us: int


class CacheDir:
    """The files in the folder of one cache. Safe from many threads."""

    def __init__(self, folder: str, disk: Disk, *, direct: bool) -> None:
        """``direct``: written bytes do not stay in the page cache."""
        self._folder = folder
        self._disk = disk
        self._direct = direct
        self._lock = _lock(folder, disk)
        self._numbers = itertools.count(1)
        self._parts: set[str] = set()

    def path(self, file_id: int) -> str:
        return f"{self._folder}/{file_id:0{_ID_DIGITS}x}"

    def list_files(self) -> tuple[list[CachedFile], list[str]]:
        """Complete files, and the names of all entries that are not needed."""
        files, unknown = [], []
        for name in self._disk.list_dir(self._folder):
            file = self._read_entry(name)
            if file is not None:
                files.append(file)
            elif name != LOCK and f"{self._folder}/{name}" not in self._parts:
                unknown.append(name)
        return files, unknown

    def create_part(self, file_id: int, size: int) -> PartFile:
        """Create a file with reserved space and no content."""
        temp_path = f"{self.path(file_id)}.{next(self._numbers)}.part"
        self._parts.add(temp_path)
        try:
            self._disk.reserve(temp_path, size)
        except OSError:
            self._parts.discard(temp_path)
            raise
        return PartFile(self._disk, temp_path, self.path(file_id), self._parts, direct=self._direct)

    def repair(self, file_id: int, offset: int, data: Buffer) -> None:
        """Rewrite bytes of a complete file."""
        _write(self._disk, self.path(file_id), offset, [data], direct=self._direct)

    def remove(self, file_id: int) -> None:
        self._disk.remove(self.path(file_id))

    def remove_name(self, name: str) -> None:
        self._disk.remove(f"{self._folder}/{name}")

    def close(self) -> None:
        """Release the folder for other processes."""
        self._lock.release()

    def _read_entry(self, name: str) -> CachedFile | None:
        file_id = _file_id(name)
        if file_id is None:
            return None
        path = self.path(file_id)
        try:
            file = self._disk.open_read(path)
            try:
                return CachedFile(file_id, file.size(), self._disk.modified_us(path))
            finally:
                file.close()
        except OSError:  # a bad block in the file's metadata: the file is useless
            return None


class PartFile:
    """A file without its final name. Owned by one thread."""

    def __init__(
        self, disk: Disk, temp_path: str, path: str, parts: set[str], *, direct: bool
    ) -> None:
        self._disk = disk
        self._direct = direct
        self._temp_path = temp_path
        self._path = path
        self._parts = parts

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write all bytes of the file."""
        _write(self._disk, self._temp_path, 0, buffers, direct=self._direct)

    def commit(self) -> None:
        """Rename it to its final name, replacing an existing file."""
        self._disk.rename(self._temp_path, self._path)
        self._parts.discard(self._temp_path)

    def discard(self) -> None:
        """Remove it; a no-op after ``keep``."""
        if self._temp_path in self._parts:
            self._parts.discard(self._temp_path)
            with contextlib.suppress(OSError):  # a leftover is removed at the next opening
                self._disk.remove(self._temp_path)


def _write(disk: Disk, path: str, offset: int, buffers: Sequence[Buffer], *, direct: bool) -> None:
    if direct:
        disk.write_direct(path, offset, buffers)
        return
    file = disk.open_log(path)
    try:
        file.write(offset, buffers)
    finally:
        file.close()


def _lock(folder: str, disk: Disk) -> Lock:
    try:
        disk.make_dirs(folder)
        lock = disk.lock(f"{folder}/{LOCK}", b"")
    except OSError as error:
        raise Unavailable(
            f"the cache in {folder} cannot be used ({error}): check path and permissions, or "
            "open without a cache"
        ) from error
    if lock is None:
        raise Locked(
            f"another process uses the cache in {folder}: close it there, or use another folder"
        )
    return lock


def _file_id(name: str) -> int | None:
    if len(name) != _ID_DIGITS or set(name) - set("0123456789abcdef"):
        return None
    return int(name, 16)
