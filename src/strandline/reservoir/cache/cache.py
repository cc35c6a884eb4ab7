"""Files of the object store on the local disk: a bounded number of bytes, in a folder of its own.

Whoever opens a file that is not there waits until all of it is, and many who wait for the same file
wait for one download. A download waits for its turn, then for room, and other files are given up
for it (``eviction.py``): bytes there and bytes on their way are together never more than
``bytes_max``. What cannot be kept is read from the object store, a range at a time: a file larger
than the cache, one whose object is cut short, any file while the local disk fails. The local disk
can therefore make reads slow, never wrong, and never impossible.

What lies in the folder is not trusted, neither at opening nor later: whoever reads a page checks
it (``reading.py``). The first bad page of a copy is fetched by itself and written again with
``repair``; a copy with another bad page is given up with ``evict``, and all of it fetched.
So nothing here is synced, and the folder may be deleted whenever no process uses it
(``cache_dir.py``).
Files are read and written past the page cache, where their bytes would take memory that nothing
here counts.

A file that is given up is unlinked. Who has it open reads on; its blocks are free when the last
reader is done, which is the time of one read.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Sequence

import msgspec

from strandline.errors import Closed, Unavailable
from strandline.platform.direct_file import DIRECT_BLOCK
from strandline.platform.disk import Buffer, Disk, ReadFile
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.remote_wait import remote_wait
from strandline.platform.system_errors import advice
from strandline.reservoir.cache import downloads
from strandline.reservoir.cache.cache_dir import Part, Shelf
from strandline.reservoir.cache.downloads import RangeFile
from strandline.reservoir.cache.eviction import WEIGHT_DOWNLOADED, WEIGHT_NEW, victims
from strandline.reservoir.cache.open_files import LocalFile, OpenFiles
from strandline.reservoir.cache.single_flight import Flights
from strandline.reservoir.data_files.data_file_table import FileRef

DOWNLOADS_MAX = 2
FULL_PERCENT = 80
"""Above this share of its bytes a cache gives up files before anybody needs their room."""

AVOIDED_MAX = 1024
REPAIRS_MAX = 1
"""Pages of a copy that are fetched by themselves. A disk that lost one page by accident keeps its
file; after a power loss, when all pages may be wrong, they are not fetched one by one."""


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How full a cache is, and what it has done since it was opened."""

    files: int
    bytes: int
    bytes_max: int
    hits: int
    """Opens that found the file. Threads that count at once may lose a few."""
    misses: int
    downloads: int
    """Whole files requested from the object store, those that came damaged included."""
    bytes_downloaded: int
    evictions: int
    """Files given up for the room of others."""
    healed: int
    """Copies with a bad page that were repaired or given up."""
    bypassed: int
    """Opens that gave a file that stays in the object store."""
    failures: int
    """Damaged downloads, and things that the local disk refused."""


class Cache:
    """Local copies of files. Safe from many threads.

    A hit takes no lock. ``_state`` guards everything else; the lock of ``OpenFiles`` may be taken
    inside it and is the last, that of ``Flights`` is held with no other. Downloads and the writing
    of files hold none; opening, naming, repairing and unlinking a file are done inside ``_state``,
    so that index and folder say the same.
    """

    def __init__(
        self,
        folder: str,
        disk: Disk,
        objects: Objects,
        *,
        bytes_max: int,
        downloads_max: int = DOWNLOADS_MAX,
        direct: bool = True,
    ) -> None:
        """``Locked`` when another process uses the folder. ``direct``: past the page cache."""
        self._objects = objects
        self._bytes_max = bytes_max
        self._downloads_max = downloads_max
        self._shelf = Shelf(folder, disk, direct=direct)
        self._open_files = OpenFiles(disk, direct=direct)
        self._uses = self._open_files.uses
        self._state = threading.Condition()
        self._files: dict[int, LocalFile] = {}
        self._bytes = 0
        self._reserved = 0
        self._filling = 0
        self._downloading = 0
        self._flights: Flights[ReadFile] = Flights()
        self._avoided: set[int] = set()
        self._closed = False
        self._count = _Counts()

    def adopt(self, files: Iterable[FileRef]) -> None:
        """Keep what lies in the folder of these files; remove all else."""
        sizes = {file.file_id: file.size for file in files}
        with self._state:
            self._check_open()
            try:
                whole, rest = self._shelf.look()
            except OSError as error:
                then = advice(error, "look at the disk, or open without a cache")
                raise Unavailable(f"the cache cannot be read ({error}): {then}") from error
            for found in sorted(whole, key=lambda found: (found.modified_us, found.file_id)):
                size = sizes.get(found.file_id)
                if size is None or not size <= found.size < size + DIRECT_BLOCK:
                    self._remove(found.file_id)
                elif found.file_id not in self._files:
                    self._enter(found.file_id, size, WEIGHT_NEW)
            for name in rest:
                try:
                    self._shelf.remove_name(name)
                except OSError:
                    self._count.failures += 1
            self._shrink(self._bytes + self._reserved - self._bytes_max)

    def open(self, file: FileRef) -> ReadFile:
        """The file: from here, after a download, or as it is in the object store."""
        found = self._files.get(file.file_id)
        if found is not None and (opened := found.opened) is not None:
            found.uses += 1
            found.used = next(self._uses)
            return opened
        return self._find_or_fetch(file)

    def peek(self, file_id: int) -> ReadFile | None:
        """The file if it is here. Downloads nothing, and is no use that anybody remembers."""
        with self._state:
            self._check_open()
            found = self._files.get(file_id)
            if found is None or file_id in self._avoided:
                return None
            try:
                return found.opened or self._open_files.open_aside(found)
            except OSError:
                return None

    def add(self, file: FileRef, buffers: Sequence[Buffer]) -> None:
        """Put a file here that is in the caller's memory. Without room, or when the local disk
        refuses, it is not put here, and nothing else happens."""
        assert sum(len(buffer) for buffer in buffers) == file.size
        with self._state:
            self._check_open()
            if not 0 < file.size <= self._bytes_max - self._reserved:
                return
        room = part = None
        try:
            room = self._reserve(file.size)
            part = self._begin(file)
            part.write(buffers)
            self._install(file, part, room, WEIGHT_NEW)
        except OSError:
            self._failed()
        finally:
            self._release(room, part)

    def forget(self, file_ids: Iterable[int]) -> None:
        """Remove files that nobody will ask for again. One on its way comes, and goes with time."""
        with self._state:
            self._check_open()
            for file_id in file_ids:
                self._avoided.discard(file_id)
                if file_id in self._files:
                    self._remove(file_id)

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        """Give up a file; tells whether it was here. With ``bad``, only if it is still that one:
        of many who meet the same damage, one has it replaced."""
        with self._state:
            self._check_open()
            found = self._files.get(file_id)
            if found is None or (bad is not None and found.opened is not bad):
                return False
            if bad is None:
                self._count.evictions += 1
            else:
                self._count.healed += 1
            if not self._remove(file_id):
                # It can be neither used nor replaced.
                self._open_files.let_go(found)
                self._avoid(file_id)
            return True

    def is_repairable(self, file_id: int, bad: ReadFile) -> bool:
        """Whether this copy, in which a page is bad, is worth a repair."""
        with self._state:
            found = self._files.get(file_id)
            return found is not None and found.opened is bad and found.repairs < REPAIRS_MAX

    def repair(self, file_id: int, bad: ReadFile, offset: int, data: bytes) -> None:
        """Write a page again that is bad in this copy; give the copy up when that fails."""
        with self._state:
            self._check_open()
            found = self._files.get(file_id)
            if found is None or found.opened is not bad:
                return
            found.repairs += 1
            try:
                self._shelf.repair(file_id, offset, data)
                self._count.healed += 1
            except OSError:
                self._count.failures += 1
                self.evict(file_id, bad)

    def run_once(self) -> bool:
        """Give up one file when the cache is nearly full; tells whether it did."""
        with self._state:
            if self._closed or self._bytes * 100 <= self._bytes_max * FULL_PERCENT:
                return False
            return self._shrink(1)

    def statistics(self) -> CacheStatistics:
        with self._state:
            counts = msgspec.structs.asdict(self._count)
            counts["hits"] += sum(file.uses for file in self._files.values())
            return CacheStatistics(
                files=len(self._files), bytes=self._bytes, bytes_max=self._bytes_max, **counts
            )

    def close(self) -> None:
        """Wait for what is being written, then let go of the folder; the files stay. Who waits
        for a download gets ``Closed``."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            self._state.notify_all()
            self._state.wait_for(lambda: not self._filling)
            for file in self._files.values():
                self._count.hits += file.uses
            self._files.clear()
            self._bytes = 0
            self._open_files.close()
            self._shelf.close()

    def _find_or_fetch(self, file: FileRef) -> ReadFile:
        found = self._find(file)
        if found is not None:
            return found
        with self._state:
            self._count.misses += 1
        return self._flights.join(file.file_id, lambda: self._find(file) or self._fill(file))

    def _find(self, file: FileRef) -> ReadFile | None:
        """The file if it is here, or if it cannot be."""
        with self._state:
            self._check_open()
            if file.file_id in self._avoided or not 0 < file.size <= self._bytes_max:
                return self._bypass(file)
            found = self._files.get(file.file_id)
            if found is None:
                return None
            try:
                opened = self._open_files.open(found)
            except FileNotFoundError:  # somebody has tidied up
                self._drop(found)
                return None
            except OSError:
                self._count.failures += 1
                return self._bypass(file)
            found.uses += 1
            return opened

    def _fill(self, file: FileRef) -> ReadFile:
        room = part = None
        try:
            room = self._wait_for_room(file.size)
            part = self._begin(file)  # a full disk is met before the download, not after it
            data = self._download(file)
            if data is not None:
                part.write([data])
                return self._install(file, part, room, WEIGHT_DOWNLOADED)
        except OSError:
            self._failed()
        finally:
            self._release(room, part)
        return self._bypass(file)

    def _wait_for_room(self, size: int) -> _Room:
        def may_begin() -> bool:
            if self._closed:
                return True
            fits = self._reserved + size <= self._bytes_max
            return fits and self._downloading < self._downloads_max

        with self._state:
            if not may_begin():
                with remote_wait():
                    self._state.wait_for(may_begin)
            self._check_open()
            room = self._reserve(size)
            room.downloads = 1
            self._downloading += 1
            return room

    def _reserve(self, size: int) -> _Room:
        with self._state:
            self._shrink(self._bytes + self._reserved + size - self._bytes_max)
            if self._bytes + self._reserved + size > self._bytes_max:
                raise OSError(errno.ENOSPC, "no file of the cache can be given up")
            self._reserved += size
            self._filling += 1
            return _Room(size)

    def _release(self, room: _Room | None, part: Part | None) -> None:
        if part is not None:
            part.discard()
        if room is not None:
            with self._state:
                self._reserved -= room.size
                self._downloading -= room.downloads
                self._filling -= 1
                self._state.notify_all()

    def _begin(self, file: FileRef) -> Part:
        try:
            return self._shelf.begin(file.file_id, file.size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # The disk is smaller than the cache may be: then its end is the cache's end.
            with self._state:
                if not self._shrink(file.size):
                    raise
            return self._shelf.begin(file.file_id, file.size)

    def _download(self, file: FileRef) -> bytes | None:
        data = b""
        for data, is_right in downloads.tries(self._objects, file):
            with self._state:
                self._count.downloads += 1
                self._count.bytes_downloaded += len(data)
                self._count.failures += not is_right
        if len(data) == file.size:
            return data
        with self._state:
            self._avoid(file.file_id)
        return None

    def _install(self, file: FileRef, part: Part, room: _Room, weight: int) -> ReadFile:
        with self._state:
            self._check_open()
            part.keep()
            old = self._files.get(file.file_id)
            if old is not None:
                self._drop(old)
            self._reserved -= room.size
            room.size = 0
            self._avoided.discard(file.file_id)
            return self._open_files.open(self._enter(file.file_id, file.size, weight))

    def _enter(self, file_id: int, size: int, weight: int) -> LocalFile:
        path = self._shelf.path(file_id)
        made = LocalFile(file_id, path, size, weight=weight, used=next(self._uses))
        self._files[file_id] = made
        self._bytes += size
        return made

    def _shrink(self, size: int) -> bool:
        """Give up files for so many bytes; tells whether any was."""
        gone = 0
        for file in victims(self._files.values(), size):
            gone += self._remove(file.file_id)
        self._count.evictions += gone
        return gone > 0

    def _remove(self, file_id: int) -> bool:
        """Unlink a file and forget it; one that cannot be unlinked stays, and so its bytes do."""
        try:
            self._shelf.remove(file_id)
        except OSError:
            self._count.failures += 1
            return False
        found = self._files.get(file_id)
        if found is not None:
            self._drop(found)
        self._avoided.discard(file_id)
        return True

    def _drop(self, file: LocalFile) -> None:
        del self._files[file.file_id]
        self._bytes -= file.size
        self._count.hits += file.uses
        self._open_files.let_go(file)

    def _avoid(self, file_id: int) -> None:
        if len(self._avoided) >= AVOIDED_MAX:
            self._avoided.clear()
        self._avoided.add(file_id)

    def _bypass(self, file: FileRef) -> ReadFile:
        with self._state:
            self._count.bypassed += 1
        return RangeFile(self._objects, file)

    def _failed(self) -> None:
        with self._state:
            self._count.failures += 1

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the cache is closed: open the reservoir again")


class _Counts(msgspec.Struct):
    """What has happened since the cache was opened, but for the hits of files that are there."""

    hits: int = 0
    misses: int = 0
    downloads: int = 0
    bytes_downloaded: int = 0
    evictions: int = 0
    healed: int = 0
    bypassed: int = 0
    failures: int = 0


class _Room:
    """Bytes that are set aside for a file on its way."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.downloads = 0
