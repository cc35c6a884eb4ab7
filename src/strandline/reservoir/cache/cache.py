"""Cache of the object store's files on the local disk: a bounded number of bytes, in one folder.

Opening a file that is not cached waits until it is downloaded completely; threads that open the
same file wait for one download. A download waits for its turn, then for space, and other files are
evicted for it (``eviction.py``): cached bytes and bytes being downloaded are together never more
than ``bytes_max``. Files that cannot be cached are read from the object store, a range at a time: a
file larger than the cache, one whose object is truncated, any file while the local disk fails. The
local disk can therefore make reads slow, but never wrong or impossible.

The content of the folder is not trusted, neither at opening nor later: the reader of a page
verifies it (``reservoir/page_reader.py``). The first damaged page of a copy is fetched alone and
written again with ``repair``; a copy with another damaged page is evicted with ``evict``, and
fetched again. So nothing here is synced, and the folder may be deleted when no process uses it
(``cache_dir.py``). Files are read and written past the page cache of the operating system, where
their bytes would take memory that nothing here counts.

An evicted file is unlinked. A reader that has it open can continue; its blocks are free after the
last reader, which is the time of one read.
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
from strandline.reservoir.cache.cache_dir import CacheDir, PartFile
from strandline.reservoir.cache.downloads import RangeFile
from strandline.reservoir.cache.eviction import WEIGHT_DOWNLOADED, WEIGHT_NEW, victims
from strandline.reservoir.cache.open_files import LocalFile, OpenFiles
from strandline.reservoir.cache.single_flight import SingleFlight
from strandline.reservoir.data_files.data_file_table import FileRef

DOWNLOADS_MAX = 2
FULL_PERCENT = 80
"""Above this percentage of its bytes a cache evicts files in the background."""

AVOIDED_MAX = 1024
REPAIRS_MAX = 1
"""Maximum pages of a copy that are repaired alone. One lost page does not cost the whole file, and
after a power loss, when all pages may be wrong, they are not fetched one by one."""


class CacheStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a cache, and counts since it was opened."""

    files: int
    bytes: int
    bytes_max: int
    hits: int
    """Opens that found the file. Concurrent counts may be lost."""
    misses: int
    downloads: int
    """Whole files requested from the object store, damaged responses included."""
    bytes_downloaded: int
    evictions: int
    """Files evicted to make space for others."""
    healed: int
    """Copies with a damaged page that were repaired or evicted."""
    bypassed: int
    """Opens that returned a file in the object store."""
    failures: int
    """Damaged downloads, and failed operations of the local disk."""


class FileCache:
    """Local copies of files. Safe from many threads.

    A hit takes no lock. ``_state`` guards everything else; the lock of ``OpenFiles`` may be taken
    inside it and is the last, that of ``SingleFlight`` is held with no other. Downloads and writes
    of files hold none; opening, naming, repairing and unlinking a file are done inside ``_state``,
    so that index and folder agree.
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
        self._dir = CacheDir(folder, disk, direct=direct)
        self._open_files = OpenFiles(disk, direct=direct)
        self._uses = self._open_files.uses
        self._state = threading.Condition()
        self._files: dict[int, LocalFile] = {}
        self._bytes = 0
        self._reserved = 0
        self._filling = 0
        self._downloading = 0
        self._flights: SingleFlight[ReadFile] = SingleFlight()
        self._avoided: set[int] = set()
        self._closed = False
        self._count = _Counts()

    def adopt(self, files: Iterable[FileRef]) -> None:
        """Keep the files in the folder that are among these; remove all others."""
        sizes = {file.file_id: file.size for file in files}
        with self._state:
            self._check_open()
            try:
                whole, unknown = self._dir.list_files()
            except OSError as error:
                hint = advice(error, "check the disk, or open without a cache")
                raise Unavailable(f"the cache cannot be read ({error}): {hint}") from error
            for found in sorted(whole, key=lambda found: (found.modified_us, found.file_id)):
                size = sizes.get(found.file_id)
                if size is None or not size <= found.size < size + DIRECT_BLOCK:
                    self._remove(found.file_id)
                elif found.file_id not in self._files:
                    self._add_entry(found.file_id, size, WEIGHT_NEW)
            for name in unknown:
                try:
                    self._dir.remove_name(name)
                except OSError:
                    self._count.failures += 1
            self._shrink(self._bytes + self._reserved - self._bytes_max)

    def open(self, file: FileRef) -> ReadFile:
        """The file: cached, after a download, or in the object store."""
        found = self._files.get(file.file_id)
        if found is not None and (opened := found.opened) is not None:
            found.uses += 1
            found.used = next(self._uses)
            return opened
        return self._find_or_fetch(file)

    def peek(self, file_id: int) -> ReadFile | None:
        """The file if it is cached. Downloads nothing, and does not count as a use."""
        with self._state:
            self._check_open()
            found = self._files.get(file_id)
            if found is None or file_id in self._avoided:
                return None
            try:
                return found.opened or self._open_files.open_unshared(found)
            except OSError:
                return None

    def add(self, file: FileRef, buffers: Sequence[Buffer]) -> None:
        """Cache a file from the caller's memory. Without space, or when the local disk fails, it is
        not cached, and there is no error."""
        assert sum(len(buffer) for buffer in buffers) == file.size
        with self._state:
            self._check_open()
            if not 0 < file.size <= self._bytes_max - self._reserved:
                return
        space = part = None
        try:
            space = self._reserve(file.size)
            part = self._begin_file(file)
            part.write(buffers)
            self._install(file, part, space, WEIGHT_NEW)
        except OSError:
            self._count_failure()
        finally:
            self._release(space, part)

    def forget(self, file_ids: Iterable[int]) -> None:
        """Remove files that will not be read again. One being downloaded is evicted in time."""
        with self._state:
            self._check_open()
            for file_id in file_ids:
                self._avoided.discard(file_id)
                if file_id in self._files:
                    self._remove(file_id)

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        """Evict a file; return whether it was cached. With ``bad``, only if it is still that copy:
        of many readers of the same damage, one replaces it."""
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
                # The copy can be neither used nor replaced.
                self._open_files.release(found)
                self._avoid(file_id)
            return True

    def is_repairable(self, file_id: int, bad: ReadFile) -> bool:
        """Whether a damaged page of this copy is to be repaired alone."""
        with self._state:
            found = self._files.get(file_id)
            return found is not None and found.opened is bad and found.repairs < REPAIRS_MAX

    def repair(self, file_id: int, bad: ReadFile, offset: int, data: bytes) -> None:
        """Rewrite a damaged page of this copy; evict the copy when that fails."""
        with self._state:
            self._check_open()
            found = self._files.get(file_id)
            if found is None or found.opened is not bad:
                return
            found.repairs += 1
            try:
                self._dir.repair(file_id, offset, data)
                self._count.healed += 1
            except OSError:
                self._count.failures += 1
                self.evict(file_id, bad)

    def run_once(self) -> bool:
        """Evict one file when the cache is nearly full; return whether it did."""
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
        """Wait for running writes, then release the folder; the files stay. Threads that wait for
        a download get ``Closed``."""
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
            self._dir.close()

    def _find_or_fetch(self, file: FileRef) -> ReadFile:
        found = self._lookup(file)
        if found is not None:
            return found
        with self._state:
            self._count.misses += 1
        return self._flights.join(file.file_id, lambda: self._lookup(file) or self._fetch(file))

    def _lookup(self, file: FileRef) -> ReadFile | None:
        """The file if it is cached, or if it cannot be cached."""
        with self._state:
            self._check_open()
            if file.file_id in self._avoided or not 0 < file.size <= self._bytes_max:
                return self._bypass(file)
            found = self._files.get(file.file_id)
            if found is None:
                return None
            try:
                opened = self._open_files.open(found)
            except FileNotFoundError:  # deleted by another program
                self._drop(found)
                return None
            except OSError:
                self._count.failures += 1
                return self._bypass(file)
            found.uses += 1
            return opened

    def _fetch(self, file: FileRef) -> ReadFile:
        space = part = None
        try:
            space = self._wait_for_space(file.size)
            part = self._begin_file(file)  # a full disk fails before the download, not after it
            data = self._download(file)
            if data is not None:
                part.write([data])
                return self._install(file, part, space, WEIGHT_DOWNLOADED)
        except OSError:
            self._count_failure()
        finally:
            self._release(space, part)
        return self._bypass(file)

    def _wait_for_space(self, size: int) -> _Space:
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
            space = self._reserve(size)
            space.downloads = 1
            self._downloading += 1
            return space

    def _reserve(self, size: int) -> _Space:
        with self._state:
            self._shrink(self._bytes + self._reserved + size - self._bytes_max)
            if self._bytes + self._reserved + size > self._bytes_max:
                raise OSError(errno.ENOSPC, "no file of the cache can be evicted")
            self._reserved += size
            self._filling += 1
            return _Space(size)

    def _release(self, space: _Space | None, part: PartFile | None) -> None:
        if part is not None:
            part.discard()
        if space is not None:
            with self._state:
                self._reserved -= space.size
                self._downloading -= space.downloads
                self._filling -= 1
                self._state.notify_all()

    def _begin_file(self, file: FileRef) -> PartFile:
        try:
            return self._dir.create_part(file.file_id, file.size)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # The disk is smaller than ``bytes_max``: then the cache ends where the disk does.
            with self._state:
                if not self._shrink(file.size):
                    raise
            return self._dir.create_part(file.file_id, file.size)

    def _download(self, file: FileRef) -> bytes | None:
        data = b""
        for data, is_right in downloads.download_attempts(self._objects, file):
            with self._state:
                self._count.downloads += 1
                self._count.bytes_downloaded += len(data)
                self._count.failures += not is_right
        if len(data) == file.size:
            return data
        with self._state:
            self._avoid(file.file_id)
        return None

    def _install(self, file: FileRef, part: PartFile, space: _Space, weight: int) -> ReadFile:
        with self._state:
            self._check_open()
            part.commit()
            old = self._files.get(file.file_id)
            if old is not None:
                self._drop(old)
            self._reserved -= space.size
            space.size = 0
            self._avoided.discard(file.file_id)
            return self._open_files.open(self._add_entry(file.file_id, file.size, weight))

    def _add_entry(self, file_id: int, size: int, weight: int) -> LocalFile:
        path = self._dir.path(file_id)
        entry = LocalFile(file_id, path, size, weight=weight, used=next(self._uses))
        self._files[file_id] = entry
        self._bytes += size
        return entry

    def _shrink(self, size: int) -> bool:
        """Evict files for so many bytes; return whether any was evicted."""
        evicted = 0
        for file in victims(self._files.values(), size):
            evicted += self._remove(file.file_id)
        self._count.evictions += evicted
        return evicted > 0

    def _remove(self, file_id: int) -> bool:
        """Unlink and drop a file; one that cannot be unlinked stays, and its bytes stay counted."""
        try:
            self._dir.remove(file_id)
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
        self._open_files.release(file)

    def _avoid(self, file_id: int) -> None:
        if len(self._avoided) >= AVOIDED_MAX:
            self._avoided.clear()
        self._avoided.add(file_id)

    def _bypass(self, file: FileRef) -> ReadFile:
        with self._state:
            self._count.bypassed += 1
        return RangeFile(self._objects, file)

    def _count_failure(self) -> None:
        with self._state:
            self._count.failures += 1

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the cache is closed: open the reservoir again")


class _Counts(msgspec.Struct):
    """Counts since the cache was opened, without the hits of files that are still cached."""

    hits: int = 0
    misses: int = 0
    downloads: int = 0
    bytes_downloaded: int = 0
    evictions: int = 0
    healed: int = 0
    bypassed: int = 0
    failures: int = 0


class _Space:
    """Bytes that are reserved for a file being written."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.downloads = 0
