"""Reads a page from its place and verifies it.

A page is read from the nearest source: the cache; without one the files of an object store that is
a local folder; otherwise a request for its range, or for a larger range (``range_cache.py``) when
the reservoir is open for reading only. Bytes that fail the page's checksum are never returned. They
are read again, each step further from the possible damage:

    1. in a cache, a copy that was repaired before is evicted, and the page read from a new
       download; another local file is opened again
    2. the page is requested from the object store itself, and the copy in the cache repaired
    3. ``Corrupt``, with the page, the object and the offset; the copy stays, for its other pages

An intact page of a damaged file is returned: its own checksum proves it. Threads that read the same
damaged page of a cache wait for one request. Errors of the object store pass through, except for a
missing object, which is ``Corrupt``: a checkpoint lists it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from strandline.errors import Corrupt, NotFound
from strandline.platform.disk import OsDisk, ReadFile
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import object_keys
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.cache.downloads import RangeFile
from strandline.reservoir.cache.open_files import DESCRIPTORS_MAX, LocalFile, OpenFiles
from strandline.reservoir.cache.single_flight import SingleFlight
from strandline.reservoir.data_files.data_file_codec import page_checksum
from strandline.reservoir.data_files.data_file_table import FileRef
from strandline.reservoir.data_files.page_table import PageLocation
from strandline.reservoir.range_cache import RangeCache
from strandline.reservoir.request_metering import CountedObjects

PageRequest = tuple[int, PageLocation, FileRef]
"""A page id, its place, and its file."""


class FileSource(Protocol):
    """The source of files. Safe from many threads."""

    def open(self, file: FileRef) -> ReadFile: ...

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        """Evict a local copy, with ``bad`` only if it is that one; return whether there was one."""
        ...


class PageReader:
    """Reads pages. Safe from many threads."""

    def __init__(
        self, objects: Objects, cache: FileCache | None = None, *, whole: bool = False
    ) -> None:
        """``whole``: most pages will be read, so larger ranges of a file are fetched."""
        self._objects = objects
        self._cache = cache
        self._files: FileSource = _files_of(objects, whole=whole) if cache is None else cache
        self._repairs: SingleFlight[bytes] = SingleFlight()
        self._open_file = self._files.open  # saves a lookup in every read

    @property
    def is_distant(self) -> bool:
        """Whether reading a file always costs a request."""
        return self._cache is None and not isinstance(self._files, _FolderFiles)

    def read(self, page_id: int, place: PageLocation, file: FileRef) -> bytes:
        """The bytes of a page as they were stored."""
        opened = None
        file_id, offset, size, checksum = place
        try:
            opened = self._open_file(file)
            data = opened.pread(size, offset)
            if page_checksum(data, page_id, file_id) == checksum:
                return data
        except OSError:
            pass  # a bad block is treated as a bad page
        except NotFound as error:
            raise self._missing_file(page_id, place) from error
        return self._read_again(page_id, place, file, opened)

    def read_many(self, wanted: Sequence[PageRequest]) -> list[bytes]:
        """Read many pages, in the given order of results: file by file, each from front to back."""
        order = sorted(range(len(wanted)), key=lambda number: wanted[number][1][:2])
        pages = [b""] * len(wanted)
        for _, group in itertools.groupby(order, key=lambda number: wanted[number][1].file_id):
            numbers = list(group)
            found = self._read_of_one_file([wanted[number] for number in numbers])
            for number, page in zip(numbers, found, strict=True):
                pages[number] = page
        return pages

    def close(self) -> None:
        """Close open files. The owner of the cache closes the cache."""
        if isinstance(self._files, _FolderFiles):
            self._files.close()

    def _read_of_one_file(self, wanted: Sequence[PageRequest]) -> list[bytes]:
        first_id, first, file = wanted[0]
        try:
            opened = self._open(file)
            if isinstance(opened, RangeFile):
                found = opened.pread_many([(place.offset, place.size) for _, place, _ in wanted])
            else:
                found = [_pread(opened, place) for _, place, _ in wanted]
        except NotFound as error:
            raise self._missing_file(first_id, first) from error
        return [
            data
            if page_checksum(data, page_id, place.file_id) == place.checksum
            else self._read_again(page_id, place, file, opened)
            for data, (page_id, place, _) in zip(found, wanted, strict=True)
        ]

    def _open(self, file: FileRef) -> ReadFile:
        try:
            return self._files.open(file)
        except OSError:  # of a folder; a cache handles its own errors
            return RangeFile(self._objects, file)

    def _read_again(
        self, page_id: int, place: PageLocation, file: FileRef, bad: ReadFile | None
    ) -> bytes:
        try:
            if bad is None or isinstance(bad, RangeFile):
                return self._request(page_id, place, file)
            if self._cache is None:
                data = self._reopened(file, bad).pread(place.size, place.offset)
                is_right = page_checksum(data, page_id, place.file_id) == place.checksum
                return data if is_right else self._request(page_id, place, file)
            cache, number = self._cache, place.file_id << 64 | page_id
            return self._repairs.join(
                number, lambda: self._read_repaired(cache, page_id, place, file, bad)
            )
        except NotFound as error:
            raise self._missing_file(page_id, place) from error

    def _read_repaired(
        self, cache: FileCache, page_id: int, place: PageLocation, file: FileRef, copy: ReadFile
    ) -> bytes:
        """Read a page and repair it in the copy, if possible."""
        data = _pread(copy, place)
        if page_checksum(data, page_id, place.file_id) == place.checksum:
            return data  # another reader was first
        if not cache.is_repairable(file.file_id, copy):
            copy = self._reopened(file, copy)
            data = _pread(copy, place)
            if page_checksum(data, page_id, place.file_id) == place.checksum:
                return data
        data = self._request(page_id, place, file)
        cache.repair(file.file_id, copy, place.offset, data)
        return data

    def _reopened(self, file: FileRef, bad: ReadFile) -> ReadFile:
        self._files.evict(file.file_id, bad)
        return self._open(file)

    def _request(self, page_id: int, place: PageLocation, file: FileRef) -> bytes:
        data = RangeFile(self._objects, file).pread(place.size, place.offset)
        if page_checksum(data, page_id, place.file_id) != place.checksum:
            raise Corrupt(
                f"page {page_id} fails its checksum", path=self._path(place), offset=place.offset
            )
        return data

    def _missing_file(self, page_id: int, place: PageLocation) -> Corrupt:
        return Corrupt(
            f"page {page_id} cannot be read: a data file is missing",
            path=self._path(place),
            offset=place.offset,
        )

    def _path(self, place: PageLocation) -> str:
        return f"{self._objects.name}/{object_keys.file_key(place.file_id)}"


class _RemoteFiles:
    """Reads files in the object store directly."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def open(self, file: FileRef) -> ReadFile:
        return RangeFile(self._objects, file)

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        del file_id, bad
        return False


class _FolderFiles:
    """Reads files of a local folder and keeps them open: a range request would open each again."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[int, LocalFile] = {}
        self._open_files = OpenFiles(OsDisk())
        self._uses = self._open_files.uses

    def open(self, file: FileRef) -> ReadFile:
        found = self._files.get(file.file_id)
        if found is not None and (opened := found.opened) is not None:
            found.used = next(self._uses)
            return opened
        path = f"{self._folder}/{object_keys.file_key(file.file_id)}"
        local = LocalFile(file.file_id, path, file.size, weight=0, used=0)
        opened = self._open_files.open(local)
        if len(self._files) >= 2 * DESCRIPTORS_MAX:
            self._files = {n: each for n, each in list(self._files.items()) if each.opened}
        self._files[file.file_id] = local
        return opened

    def evict(self, file_id: int, bad: ReadFile | None = None) -> bool:
        found = self._files.get(file_id)
        if found is None or (bad is not None and found.opened is not bad):
            return False
        self._open_files.release(found)
        return True

    def close(self) -> None:
        self._files = {}
        self._open_files.close()


def _files_of(objects: Objects, *, whole: bool) -> FileSource:
    if isinstance(objects, FolderObjects | CountedObjects) and objects.real_folder is not None:
        return _FolderFiles(objects.real_folder)
    return RangeCache(objects) if whole else _RemoteFiles(objects)


def _pread(opened: ReadFile, place: PageLocation) -> bytes:
    try:
        return opened.pread(place.size, place.offset)
    except OSError:
        return b""
