"""Dirty pages on the local disk, when memory is short and the next save is far.

    <folder>/LOCK       held while the spill lives
    <folder>/<number>   a scratch file of ``file_bytes``: pages on multiples of 4 KiB, in any order

Which page lies where is known in memory only. Nothing is ever synced, and nothing is trusted after
a restart: the files of a dead spill are removed by the next one in the same folder. So a crash
costs what was not saved, spilled or not.

The disk is not trusted either: a page is given back only if its xxh3, which is kept in memory, is
that of the page that came. If not, it is lost, and what was changed since the last save with it.

There are never more than ``bytes_max`` bytes in files. Places are used again, a larger one is cut;
when the last page has gone, as after every save, the files go too. A full spill says so and is no
failure: its user has another place for the page.
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

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class _Place(NamedTuple):
    file: LogFile
    offset: int
    size: int
    checksum: int

    @property
    def units(self) -> int:
        return _units(self.size)


class Spill:
    """Pages that are out of memory and not saved. Owned by one thread.

    Maps may share one, when they are of one thread and of different spaces.
    """

    def __init__(
        self,
        folder: str,
        *,
        bytes_max: int = SPILL_BYTES_MAX,
        file_bytes: int = FILE_BYTES,
        disk: Disk | None = None,
    ) -> None:
        """A folder that nothing else uses; it is made when it is not there."""
        if not UNIT_BYTES <= file_bytes <= bytes_max or file_bytes % UNIT_BYTES:
            raise Invalid(
                f"files of {file_bytes} bytes cannot be: give a multiple of {UNIT_BYTES}, at most "
                f"bytes_max, which is {bytes_max}"
            )
        self._disk = disk = disk or OsDisk()
        self._folder = folder.rstrip("/") or "/"
        self._files_max = bytes_max // file_bytes
        self._file_bytes = file_bytes
        self._files: list[LogFile] = []
        self._number = 0
        self._places: dict[int, _Place] = {}
        self._free: dict[int, list[tuple[LogFile, int]]] = {}
        self._tail = file_bytes
        self._units = 0
        try:
            disk.make_dirs(self._folder)
            lock = disk.lock(f"{self._folder}/{LOCK}", b"")
            if lock is None:
                raise Locked(f"{self._folder} is the spill of another map: name another folder")
            self._lock = lock
            for name in disk.list_dir(self._folder):
                if name.isdecimal():
                    disk.remove(f"{self._folder}/{name}")
        except OSError as error:
            raise self._unavailable(error) from error

    @property
    def stored_bytes(self) -> int:
        """Bytes of the places that are taken."""
        return self._units * UNIT_BYTES

    def __len__(self) -> int:
        return len(self._places)

    def put(self, page_id: int, data: Buffer) -> bool:
        """Keep a page; False when there is no room for it, and then there is none of this id."""
        self.drop(page_id)
        units = _units(len(data))
        try:
            found = self._take(units)
            if found is None:
                return False
            file, offset = found
            try:
                file.write(offset, [data])
            except OSError:
                self._give(units, file, offset)
                raise
        except OSError as error:
            if error.errno in _NO_ROOM:
                return False
            raise self._unavailable(error) from error
        checksum = xxh3_64_intdigest(data)
        self._places[page_id] = _Place(file, offset, len(data), checksum)
        self._units += units
        return True

    def get(self, page_id: int) -> bytes | None:
        """The page as it came; None when it is not here."""
        place = self._places.get(page_id)
        if place is None:
            return None
        try:
            data = place.file.pread(place.size, place.offset)
        except OSError as error:
            raise self._unavailable(error) from error
        if xxh3_64_intdigest(data) != place.checksum:
            raise Corrupt(
                f"page {page_id} is not what was spilled: the changes since the last save are lost",
                path=place.file.path,
                offset=place.offset,
            )
        return data

    def drop(self, page_id: int) -> None:
        """Forget a page. Absent is fine."""
        place = self._places.pop(page_id, None)
        if place is None:
            return
        self._units -= place.units
        self._give(place.units, place.file, place.offset)
        if not self._places:
            self._remove_files()

    def close(self) -> None:
        """Forget everything, and let go of the folder."""
        self._places.clear()
        self._units = 0
        self._remove_files()
        self._lock.release()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, units: int) -> tuple[LogFile, int] | None:
        for size in sorted(size for size in self._free if size >= units):
            file, offset = self._free[size].pop()
            if not self._free[size]:
                del self._free[size]
            self._give(size - units, file, offset + units * UNIT_BYTES)
            return file, offset
        wanted = units * UNIT_BYTES
        if wanted > self._file_bytes:
            return None
        if self._tail + wanted > self._file_bytes and not self._begin_file():
            return None
        offset = self._tail
        self._tail += wanted
        return self._files[-1], offset

    def _give(self, units: int, file: LogFile, offset: int) -> None:
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
            self._give((self._file_bytes - self._tail) // UNIT_BYTES, self._files[-1], self._tail)
        self._files.append(file)
        self._tail = 0
        return True

    def _remove_files(self) -> None:
        files, self._files = self._files, []
        self._free.clear()
        self._tail = self._file_bytes
        for file in files:
            file.close()
            with contextlib.suppress(OSError):  # as above; its number does not come again
                self._disk.remove(file.path)

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"the spill in {self._folder} cannot be used ({error}): see to its disk")


def _units(size: int) -> int:
    return max(1, -(-size // UNIT_BYTES))
