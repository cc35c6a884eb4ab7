"""Decoded columns in memory, so that what was read once costs nothing the next time.

What is kept is a part: one column of some zones of one file, as they were decoded together. A part
goes as a whole, the one that was used least lately first; its zones can be had one by one. Files
never change, so a part is right as long as it is there.

Memory is a share of the store's, for all tables. Whoever wants to keep something takes what is
left, never of the reserve, and then what is taken from all tables in turn: so a table that is in
use grows and one that is not shrinks. What does not fit is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from strandline.config.memory_budget import Share
from strandline.views.table.files.table_file import OpenFile

_OPEN_MAX = 256
"""Open files at most: each may be a descriptor."""
_PART_RAM = 1024
_PARTS_MAX = 32
"""Of one column: then the oldest go."""

Place = tuple[str, str]
"""Content of the file, column."""


class Part:
    """A column of some zones of a file. Immutable."""

    def __init__(self, column: pa.ChunkedArray, zones: np.ndarray, sizes: np.ndarray) -> None:
        self.column = column
        self.zones = zones
        self.starts = np.concatenate(([0], np.cumsum(sizes)))
        self.size: int = column.nbytes + _PART_RAM

    def has(self, zones: np.ndarray) -> np.ndarray:
        """Which of these zones are here."""
        places = np.minimum(np.searchsorted(self.zones, zones), len(self.zones) - 1)
        found: np.ndarray = self.zones[places] == zones
        return found

    def slices(self, zones: np.ndarray) -> list[pa.Array]:
        """The values of zones that are here, in order."""
        if len(zones) == len(self.zones):
            return list(self.column.chunks)
        places = np.searchsorted(self.zones, zones)
        found: list[pa.Array] = []
        for run in np.split(places, np.flatnonzero(np.diff(places) != 1) + 1):
            start, stop = int(self.starts[run[0]]), int(self.starts[run[-1] + 1])
            found += self.column.slice(start, stop - start).chunks
        return found


class ColumnCache:
    """Open files and decoded columns of one table. Safe from many threads."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._lock = threading.RLock()
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._files_ram: dict[str, int] = {}
        self._parts: OrderedDict[tuple[Place, int], Part] = OrderedDict()
        self._of: dict[Place, list[int]] = {}
        self._numbers = 0
        self._is_asking = False
        self._flights: dict[object, threading.Lock] = {}
        share.evicts(self._evict)

    def close(self) -> None:
        """Let go of everything."""
        self._share.forget(self._evict)
        with self._lock:
            self._free(lambda _: True)
            for content in list(self._files):
                self._forget_file(content)

    def file(self, content: str, open_file: Callable[[], OpenFile]) -> OpenFile:
        """A file, opened when it is not."""
        with self._lock:
            found = self._files.get(content)
            if found is not None:
                self._files.move_to_end(content)
                return found
        with self.flight(content):
            with self._lock:
                found = self._files.get(content)
            if found is None:
                found = open_file()
                with self._lock:
                    self._files[content] = found
                    self._count_file(content)
        return found

    def recount(self, content: str) -> None:
        """The indexes of a file may have grown."""
        with self._lock:
            if content in self._files:
                self._count_file(content)

    def parts(self, place: Place) -> list[Part]:
        """What is here of a column, the newest first."""
        with self._lock:
            numbers = self._of.get(place, ())
            for number in numbers:
                self._parts.move_to_end((place, number))
            return [self._parts[place, number] for number in reversed(numbers)]

    def keep(self, place: Place, part: Part) -> None:
        """Keep a part if there is room for it, or can be made."""
        with self._lock:
            if not self._make_room(part.size):
                return
            self._numbers += 1
            self._parts[place, self._numbers] = part
            self._of.setdefault(place, []).append(self._numbers)
            self._share.charge(part.size)
            if len(self._of[place]) > _PARTS_MAX:
                self._drop((place, self._of[place][0]))

    def fits(self, size: int) -> bool:
        """Whether so much may be kept at all."""
        return size <= self._share.limit // 2

    def forget(self, contents: set[str]) -> None:
        """These files have left the table."""
        with self._lock:
            self._free(lambda place: place[0] in contents)
            for content in contents & set(self._files):
                self._forget_file(content)

    @contextmanager
    def flight(self, key: object) -> Iterator[None]:
        """One at a time for each key: who comes second finds what the first has brought."""
        with self._lock:
            lock = self._flights.setdefault(key, threading.Lock())
        with lock:
            try:
                yield
            finally:
                with self._lock:
                    self._flights.pop(key, None)

    def _make_room(self, size: int) -> bool:
        if not self.fits(size):
            return False
        self._is_asking = True
        try:
            return self._share.make_room(size)
        finally:
            self._is_asking = False

    def _evict(self, size: int) -> int:
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            freed = 0
            # For a column of ours none of our files is closed: it may be the column's own.
            while freed < size and (self._parts or (self._files and not self._is_asking)):
                freed += self._drop_oldest()
            return freed
        finally:
            self._lock.release()

    def _drop(self, key: tuple[Place, int]) -> int:
        part = self._parts.pop(key)
        place, number = key
        self._of[place].remove(number)
        if not self._of[place]:
            del self._of[place]
        self._share.release(part.size)
        return part.size

    def _free(self, goes: Callable[[Place], bool]) -> None:
        for key in [key for key in self._parts if goes(key[0])]:
            self._drop(key)

    def _count_file(self, content: str) -> None:
        """Count a file that is in use, and make room for it: the others are easily opened again."""
        ram = self._files[content].ram
        self._share.charge(ram - self._files_ram.get(content, 0))
        self._files_ram[content] = ram
        self._files.move_to_end(content)
        self._make_room(0)
        while len(self._files) > 1 and (
            len(self._files) > _OPEN_MAX or self._share.used > self._share.limit
        ):
            self._drop_oldest()

    def _drop_oldest(self) -> int:
        """Columns first: a file without its footer and indexes is read from the start."""
        if self._parts and len(self._files) <= _OPEN_MAX:
            return self._drop(next(iter(self._parts)))
        return self._forget_file(next(iter(self._files)))

    def _forget_file(self, content: str) -> int:
        del self._files[content]
        ram = self._files_ram.pop(content)
        self._share.release(ram)
        return ram
