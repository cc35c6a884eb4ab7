"""Cache of open files and decoded columns: a column that was read before is not decoded again.

An entry of the cache is a part: one column of some zones of one file, which were decoded together.
A part is evicted as a whole, the least recently used one first; its zones can be read one by one.
Files never change, so a part never becomes stale.

The memory is one share of the store's budget, for all tables. An insert uses free memory of the
share, never the reserve, then evicts from all tables in turn: so the part of a table in use grows,
and that of an unused one shrinks. A column that does not fit is not cached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from strandline.config.memory_budget import MemoryShare
from strandline.views.table.files.table_file import TableFile

_OPEN_MAX = 256
"""Limit of open files: each may hold a descriptor."""
_PART_RAM = 1024
_PARTS_MAX = 32
"""Limit of parts of one column: then the oldest is evicted."""

ColumnKey = tuple[str, str]
"""Content hash of the file, and column."""


class ColumnPart:
    """A column of some zones of a file. Immutable."""

    def __init__(self, column: pa.ChunkedArray, zones: np.ndarray, sizes: np.ndarray) -> None:
        self.column = column
        self.zones = zones
        self.starts = np.concatenate(([0], np.cumsum(sizes)))
        self.size: int = column.nbytes + _PART_RAM

    def has(self, zones: np.ndarray) -> np.ndarray:
        """A mask of the zones that the part has."""
        indices = np.minimum(np.searchsorted(self.zones, zones), len(self.zones) - 1)
        is_present: np.ndarray = self.zones[indices] == zones
        return is_present

    def slices(self, zones: np.ndarray) -> list[pa.Array]:
        """The values of zones that the part has, in order."""
        if len(zones) == len(self.zones):
            return list(self.column.chunks)
        indices = np.searchsorted(self.zones, zones)
        chunks: list[pa.Array] = []
        for run in np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1):
            start, stop = int(self.starts[run[0]]), int(self.starts[run[-1] + 1])
            chunks += self.column.slice(start, stop - start).chunks
        return chunks


class ColumnCache:
    """Open files and decoded columns of one table. Safe to call from many threads."""

    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self._lock = threading.RLock()
        self._files: OrderedDict[str, TableFile] = OrderedDict()
        self._files_ram: dict[str, int] = {}
        self._parts: OrderedDict[tuple[ColumnKey, int], ColumnPart] = OrderedDict()
        self._numbers_of: dict[ColumnKey, list[int]] = {}
        self._last_number = 0
        self._is_reserving = False
        self._flights: dict[object, threading.Lock] = {}
        share.add_evictor(self._evict)

    def close(self) -> None:
        """Release all memory and files."""
        self._share.remove_evictor(self._evict)
        with self._lock:
            self._drop_if(lambda _: True)
            for content in list(self._files):
                self._forget_file(content)

    def file(self, content: str, open_file: Callable[[], TableFile]) -> TableFile:
        """A file from the cache, or newly opened."""
        with self._lock:
            file = self._files.get(content)
            if file is not None:
                self._files.move_to_end(content)
                return file
        with self.exclusive(content):
            with self._lock:
                file = self._files.get(content)
            if file is None:
                file = open_file()
                with self._lock:
                    self._files[content] = file
                    self._account_file(content)
        return file

    def account(self, content: str) -> None:
        """Account for the memory of a file again: more of its indexes may be loaded."""
        with self._lock:
            if content in self._files:
                self._account_file(content)

    def parts(self, column_key: ColumnKey) -> list[ColumnPart]:
        """The cached parts of a column, the newest first."""
        with self._lock:
            numbers = self._numbers_of.get(column_key, ())
            for number in numbers:
                self._parts.move_to_end((column_key, number))
            return [self._parts[column_key, number] for number in reversed(numbers)]

    def insert(self, column_key: ColumnKey, part: ColumnPart) -> None:
        """Insert a part if memory is free, or can be freed by eviction."""
        with self._lock:
            if not self._reserve(part.size):
                return
            self._last_number += 1
            self._parts[column_key, self._last_number] = part
            self._numbers_of.setdefault(column_key, []).append(self._last_number)
            self._share.charge(part.size)
            if len(self._numbers_of[column_key]) > _PARTS_MAX:
                self._drop((column_key, self._numbers_of[column_key][0]))

    def fits(self, size: int) -> bool:
        """Whether a part of this size may be cached at all."""
        return size <= self._share.limit // 2

    def forget(self, contents: set[str]) -> None:
        """Remove files that are not in the table any more."""
        with self._lock:
            self._drop_if(lambda column_key: column_key[0] in contents)
            for content in contents & set(self._files):
                self._forget_file(content)

    @contextmanager
    def exclusive(self, key: object) -> Iterator[None]:
        """One thread at a time for each key: the second finds the result of the first."""
        with self._lock:
            lock = self._flights.setdefault(key, threading.Lock())
        with lock:
            try:
                yield
            finally:
                with self._lock:
                    self._flights.pop(key, None)

    def _reserve(self, size: int) -> bool:
        if not self.fits(size):
            return False
        self._is_reserving = True
        try:
            return self._share.try_evict(size)
        finally:
            self._is_reserving = False

    def _evict(self, size: int) -> int:
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            freed = 0
            # An insert of this table closes none of its files: it may be the one being read.
            while freed < size and (self._parts or (self._files and not self._is_reserving)):
                freed += self._drop_oldest()
            return freed
        finally:
            self._lock.release()

    def _drop(self, key: tuple[ColumnKey, int]) -> int:
        part = self._parts.pop(key)
        column_key, number = key
        self._numbers_of[column_key].remove(number)
        if not self._numbers_of[column_key]:
            del self._numbers_of[column_key]
        self._share.release(part.size)
        return part.size

    def _drop_if(self, should_drop: Callable[[ColumnKey], bool]) -> None:
        for key in [key for key in self._parts if should_drop(key[0])]:
            self._drop(key)

    def _account_file(self, content: str) -> None:
        """Account for a file in use, and close others beyond the limits: they can be reopened."""
        ram = self._files[content].ram
        self._share.charge(ram - self._files_ram.get(content, 0))
        self._files_ram[content] = ram
        self._files.move_to_end(content)
        self._reserve(0)
        while len(self._files) > 1 and (
            len(self._files) > _OPEN_MAX or self._share.used > self._share.limit
        ):
            self._drop_oldest()

    def _drop_oldest(self) -> int:
        """Evict columns first: a closed file has to read its footer and indexes again."""
        if self._parts and len(self._files) <= _OPEN_MAX:
            return self._drop(next(iter(self._parts)))
        return self._forget_file(next(iter(self._files)))

    def _forget_file(self, content: str) -> int:
        del self._files[content]
        ram = self._files_ram.pop(content)
        self._share.release(ram)
        return ram
