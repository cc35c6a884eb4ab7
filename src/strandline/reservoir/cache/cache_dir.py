"""The folder of a cache: what lies there, and how a file gets there.

    LOCK                        held by the one process that uses the folder
    <file id, 16 hex digits>    a whole file
    <...>.<number>.part         one that is being written

A file gets its space first, then its bytes, then its name. Nothing is synced: after a power loss a
file may have its size and not its bytes. Whoever reads a page checks it, so that costs a download
and nothing else. Written past the page cache, a file may end with zeros that are not part of it.
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


class Found(msgspec.Struct, frozen=True):
    """A whole file in the folder."""

    file_id: int
    size: int
    modified_us: int


class Shelf:
    """Files in a folder of our own. Safe from many threads."""

    def __init__(self, folder: str, disk: Disk, *, direct: bool) -> None:
        """``direct``: what is written does not stay in the page cache."""
        self._folder = folder
        self._disk = disk
        self._direct = direct
        self._lock = _lock(folder, disk)
        self._numbers = itertools.count(1)
        self._parts: set[str] = set()

    def path(self, file_id: int) -> str:
        return f"{self._folder}/{file_id:0{_ID_DIGITS}x}"

    def look(self) -> tuple[list[Found], list[str]]:
        """Whole files, and names of all that nobody needs."""
        whole, rest = [], []
        for name in self._disk.list_dir(self._folder):
            found = self._look_at(name)
            if found is not None:
                whole.append(found)
            elif name != LOCK and f"{self._folder}/{name}" not in self._parts:
                rest.append(name)
        return whole, rest

    def begin(self, file_id: int, size: int) -> Part:
        """A new file that has its space and nothing else yet."""
        aside = f"{self.path(file_id)}.{next(self._numbers)}.part"
        self._parts.add(aside)
        try:
            self._disk.reserve(aside, size)
        except OSError:
            self._parts.discard(aside)
            raise
        return Part(self._disk, aside, self.path(file_id), self._parts, direct=self._direct)

    def repair(self, file_id: int, offset: int, data: Buffer) -> None:
        """Write bytes of a whole file again."""
        _write(self._disk, self.path(file_id), offset, [data], direct=self._direct)

    def remove(self, file_id: int) -> None:
        self._disk.remove(self.path(file_id))

    def remove_name(self, name: str) -> None:
        self._disk.remove(f"{self._folder}/{name}")

    def close(self) -> None:
        """Let others have the folder."""
        self._lock.release()

    def _look_at(self, name: str) -> Found | None:
        file_id = _file_id(name)
        if file_id is None:
            return None
        path = self.path(file_id)
        try:
            file = self._disk.open_read(path)
            try:
                return Found(file_id, file.size(), self._disk.modified_us(path))
            finally:
                file.close()
        except OSError:  # a bad block in the file's own description: it is of no use
            return None


class Part:
    """A file that has no name yet. Owned by one thread."""

    def __init__(self, disk: Disk, aside: str, path: str, parts: set[str], *, direct: bool) -> None:
        self._disk = disk
        self._direct = direct
        self._aside = aside
        self._path = path
        self._parts = parts

    def write(self, buffers: Sequence[Buffer]) -> None:
        """All bytes of the file."""
        _write(self._disk, self._aside, 0, buffers, direct=self._direct)

    def keep(self) -> None:
        """Give it its name, in place of what has it."""
        self._disk.rename(self._aside, self._path)
        self._parts.discard(self._aside)

    def discard(self) -> None:
        """Remove it. Does nothing after ``keep``."""
        if self._aside in self._parts:
            self._parts.discard(self._aside)
            with contextlib.suppress(OSError):  # what stays is removed at the next opening
                self._disk.remove(self._aside)


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
            f"the cache in {folder} cannot be used ({error}): check the path and its rights, or "
            "open without a cache"
        ) from error
    if lock is None:
        raise Locked(
            f"another process uses the cache in {folder}: close it there, or name another folder"
        )
    return lock


def _file_id(name: str) -> int | None:
    if len(name) != _ID_DIGITS or set(name) - set("0123456789abcdef"):
        return None
    return int(name, 16)
