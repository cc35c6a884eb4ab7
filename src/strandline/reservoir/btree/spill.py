"""Spill: dirty pages on the local disk when memory is short between saves.

    <folder>/LOCK       held while the spill is open
    <folder>/<number>   a scratch file of ``file_bytes``: pages on multiples of 4 KiB, in any order

The locations of pages are only in memory. Nothing is synced, and nothing is used after a restart:
the next spill in the same folder removes leftover files. So a crash loses all unsaved changes,
spilled or not.

The disk is not trusted either: a page is returned only if its xxh3, which is in memory, matches. If
not, it is lost, and the changes since the last save with it.

Files never have more than ``bytes_max`` bytes. Free extents are used again, larger ones are split;
the files are removed when the last page is, as after every save. A full spill is not an error: the
caller writes the page elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, Invalid, Locked, Unavailable
from strandline.platform.disk import Buffer, Disk, LogFile, OsDisk

SPILL_BYTES_MAX = 1024 * 1024 * 1024
FILE_BYTES = 64 * 1024 * 1024
UNIT_BYTES = 4096
LOCK = "LOCK"

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class _Extent(NamedTuple):
    file: LogFile
    offset: int
    size: int
    checksum: int

    @property
    def units(self) -> int:
        return _units(self.size)


class Spill:
    """Pages that are neither in memory nor saved. Owned by one thread.

    Maps of one thread and of different spaces may share a spill.
    """

    def __init__(
        self,
        folder: str,
        *,
        bytes_max: int = SPILL_BYTES_MAX,
        file_bytes: int = FILE_BYTES,
        disk: Disk | None = None,
    ) -> None:
        """``folder`` must not be used otherwise; it is created if it does not exist."""
        if not UNIT_BYTES <= file_bytes <= bytes_max or file_bytes % UNIT_BYTES:
            raise Invalid(
                f"file_bytes is {file_bytes}: give a multiple of {UNIT_BYTES}, at most "
                f"bytes_max, which is {bytes_max}"
            )
        self._disk = disk = disk or OsDisk()
        self._folder = folder.rstrip("/") or "/"
        self._files_max = bytes_max // file_bytes
        self._file_bytes = file_bytes
        self._files: list[LogFile] = []
        self._number = 0
        self._extents: dict[int, _Extent] = {}
        self._free: dict[int, list[tuple[LogFile, int]]] = {}
        self._tail = file_bytes
        self._units = 0
        try:
            disk.make_dirs(self._folder)
            lock = disk.lock(f"{self._folder}/{LOCK}", b"")
            if lock is None:
                raise Locked(f"{self._folder} is the spill of another map: use another folder")
            self._lock = lock
            for name in disk.list_dir(self._folder):
                if name.isdecimal():
                    disk.remove(f"{self._folder}/{name}")
        except OSError as error:
            raise self._unavailable(error) from error

    @property
    def stored_bytes(self) -> int:
        """Bytes of the used extents."""
        return self._units * UNIT_BYTES

    def __len__(self) -> int:
        return len(self._extents)

    def put(self, page_id: int, data: Buffer) -> bool:
        """Store a page; False when there is no space, and then no page of this id is stored."""
        self.drop(page_id)
        units = _units(len(data))
        try:
            extent = self._allocate(units)
            if extent is None:
                return False
            file, offset = extent
            try:
                file.write(offset, [data])
            except OSError:
                self._release(units, file, offset)
                raise
        except OSError as error:
            if error.errno in _NO_SPACE:
                return False
            raise self._unavailable(error) from error
        checksum = xxh3_64_intdigest(data)
        self._extents[page_id] = _Extent(file, offset, len(data), checksum)
        self._units += units
        return True

    def get(self, page_id: int) -> bytes | None:
        """The page as it was put; None when it is not stored."""
        extent = self._extents.get(page_id)
        if extent is None:
            return None
        try:
            data = extent.file.pread(extent.size, extent.offset)
        except OSError as error:
            raise self._unavailable(error) from error
        if xxh3_64_intdigest(data) != extent.checksum:
            raise Corrupt(
                f"page {page_id} is not what was spilled: the changes since the last save are lost",
                path=extent.file.path,
                offset=extent.offset,
            )
        return data

    def drop(self, page_id: int) -> None:
        """Remove a page; a no-op if it is not stored."""
        extent = self._extents.pop(page_id, None)
        if extent is None:
            return
        self._units -= extent.units
        self._release(extent.units, extent.file, extent.offset)
        if not self._extents:
            self._remove_files()

    def close(self) -> None:
        """Remove all pages and files, and release the folder."""
        self._extents.clear()
        self._units = 0
        self._remove_files()
        self._lock.release()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _allocate(self, units: int) -> tuple[LogFile, int] | None:
        for size in sorted(size for size in self._free if size >= units):
            file, offset = self._free[size].pop()
            if not self._free[size]:
                del self._free[size]
            self._release(size - units, file, offset + units * UNIT_BYTES)
            return file, offset
        size_bytes = units * UNIT_BYTES
        if size_bytes > self._file_bytes:
            return None
        if self._tail + size_bytes > self._file_bytes and not self._begin_file():
            return None
        offset = self._tail
        self._tail += size_bytes
        return self._files[-1], offset

    def _release(self, units: int, file: LogFile, offset: int) -> None:
        if units:
            self._free.setdefault(units, []).append((file, offset))

    def _begin_file(self) -> bool:
        if len(self._files) >= self._files_max:
            return False
        path = f"{self._folder}/{self._number}"
        self._number += 1
        try:
            self._disk.reserve(path, self._file_bytes)
            file = self._disk.open_log(path)
        except OSError:
            with contextlib.suppress(OSError):  # the next spill in this folder removes it
                self._disk.remove(path)
            raise
        if self._files:
            self._release(
                (self._file_bytes - self._tail) // UNIT_BYTES, self._files[-1], self._tail
            )
        self._files.append(file)
        self._tail = 0
        return True

    def _remove_files(self) -> None:
        files, self._files = self._files, []
        self._free.clear()
        self._tail = self._file_bytes
        for file in files:
            file.close()
            with contextlib.suppress(OSError):  # as above; its number is not used again
                self._disk.remove(file.path)

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"the spill in {self._folder} cannot be used ({error}): check its disk")


def _units(size: int) -> int:
    return max(1, -(-size // UNIT_BYTES))
