"""The content of one simulated file: for reads, and after a possible power loss.

    now     the content that reads return: the page cache
    dirty   sector -> [durable content, version 1, ..., newest version]
    lost    sector -> durable content, for sectors whose write-back failed
    sizes   [durable size, later size, ..., newest size]

Every store adds a version to each sector that it changes. A power loss keeps, independently for
each dirty sector, any one of its versions: that models lost, reordered and torn writes. Torn pages
are the same at 4096 bytes: a page is kept in its state of one time. A mapped store copies sector
after sector, so a page can be kept in the middle of it; a ``write`` cannot.

A sync covers what was stored before it began and nothing later. A failed sync behaves as in Linux:
the sectors count as clean although they were not written. Reads return the new bytes, the next sync
succeeds, and a power loss restores the old bytes, unless the sector was stored again.

Not safe from many threads: the disk's lock is held around every call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeVar

from strandline.testing.crash_choices import Choices

SECTOR = 512
PAGE = 4096
SECTORS_PER_PAGE = PAGE // SECTOR
VERSIONS_MAX = 256  # beyond this, the oldest unsynced versions of a sector are dropped

T = TypeVar("T")
Version = tuple[int, bytes]  # time of the store, whole sector after it


class Sectors:
    """The content of one file, without its name."""

    __slots__ = ("_dirty", "_is_own", "_lost", "_now", "_sizes", "_syncs", "_time", "size")

    def __init__(self) -> None:
        self.size = 0
        self._now = bytearray()  # whole sectors, zeros after ``size``
        self._is_own = True  # False: another disk reads the same bytearray, copy before a store
        self._dirty: dict[int, list[Version]] = {}
        self._lost: dict[int, bytes] = {}
        self._sizes: list[tuple[int, int]] = [(0, 0)]
        self._time = 0
        self._syncs = 0

    def read(self, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._now)[offset : min(offset + size, self.size)])

    def store(self, offset: int, data: bytes, *, mapped: bool = False) -> None:
        """Store bytes at an offset; the file grows if necessary."""
        end = offset + len(data)
        if end > self.size:
            self.resize(end)
        if not data:
            return
        self._copy_if_shared()
        now, dirty = self._now, self._dirty
        touched = range(offset // SECTOR, (end - 1) // SECTOR + 1)
        for sector in touched:
            if sector not in dirty:
                durable = self._lost.pop(sector, None)
                dirty[sector] = [(0, self._sector_content(sector) if durable is None else durable)]
        now[offset:end] = data
        self._time += 1
        for sector in touched:
            self._add_version(sector)
            self._time += mapped

    def resize(self, size: int) -> None:
        """Grow with zeros, or truncate."""
        if size < self.size:
            self.store(size, bytes(self.size - size))
        missing = _padded(size) - len(self._now)
        if missing > 0:
            self._copy_if_shared()
            self._now.extend(bytes(missing))
        if size != self.size:
            self.size = size
            self._time += 1
            self._sizes.append((self._time, size))
            self._forget_oldest(self._sizes)

    def begin_sync(self) -> int:
        """Begin a sync; returns the time up to which it covers stores."""
        self._syncs += 1
        return self._time

    def end_sync(self, begun_at: int, *, reached_disk: bool = True) -> None:
        """End a sync: what was stored up to its beginning is durable, or lost."""
        self._syncs -= 1
        self._sizes = _after_sync(self._sizes, begun_at, reached_disk=reached_disk)
        if begun_at == self._time and reached_disk:
            self._dirty.clear()
            return
        for sector, versions in list(self._dirty.items()):
            self._dirty[sector] = remaining = _after_sync(
                versions, begun_at, reached_disk=reached_disk
            )
            if len(remaining) == 1:
                del self._dirty[sector]
                if not reached_disk:
                    self._lost[sector] = remaining[0][1]

    def fork(self) -> Sectors:
        """A copy of the file for another disk, including unsynced versions."""
        copy = self._shared(self.size)
        copy._dirty = {sector: versions[:] for sector, versions in self._dirty.items()}
        copy._lost = dict(self._lost)
        copy._sizes = self._sizes[:]
        copy._time = self._time
        return copy

    def after_power_loss(self, choices: Choices, *, page: bool) -> Sectors:
        """The file after a power loss, all of it durable."""
        size = _pick(choices, self._sizes)[1]
        if not self._dirty and not self._lost and size == self.size:
            return self._shared(size)
        length = _padded(size)
        now = bytearray(memoryview(self._now)[:length])
        now.extend(bytes(length - len(now)))
        for sector, content in self._survivors(choices, length // SECTOR, page=page):
            now[sector * SECTOR : (sector + 1) * SECTOR] = content
        now[size:] = bytes(length - size)
        survivor = Sectors()
        survivor.size = size
        survivor._now = now
        survivor._sizes = [(0, size)]
        return survivor

    def combinations(self, *, page: bool) -> int:
        """The number of possible states after a power loss, at most."""
        if page:
            counts = [len(times) for times in self._page_times().values()]
        else:
            counts = [len(versions) for versions in self._dirty.values()]
        return math.prod(counts, start=len(self._sizes))

    def _survivors(
        self, choices: Choices, next_sector: int, *, page: bool
    ) -> Iterator[tuple[int, bytes]]:
        for sector, durable in self._lost.items():
            if sector < next_sector:
                yield sector, durable
        if page:
            yield from self._page_survivors(choices, next_sector)
            return
        for sector, versions in self._dirty.items():
            if sector < next_sector:
                yield sector, _pick(choices, versions)[1]

    def _page_survivors(self, choices: Choices, next_sector: int) -> Iterator[tuple[int, bytes]]:
        chosen = {
            number: _pick(choices, times)
            for number, times in self._page_times().items()
            if number * SECTORS_PER_PAGE < next_sector
        }
        for sector, versions in self._dirty.items():
            if sector < next_sector:
                yield sector, _newest(versions, chosen[sector // SECTORS_PER_PAGE])[1]

    def _page_times(self) -> dict[int, list[int]]:
        """For each dirty page the times of its changes, after 0 for the durable state."""
        times: dict[int, set[int]] = {}
        for sector, versions in self._dirty.items():
            page_times = times.setdefault(sector // SECTORS_PER_PAGE, set())
            page_times.update(time for time, _ in versions)
        return {number: sorted(page_times) for number, page_times in times.items()}

    def _sector_content(self, sector: int) -> bytes:
        return bytes(self._now[sector * SECTOR : (sector + 1) * SECTOR])

    def _add_version(self, sector: int) -> None:
        versions = self._dirty[sector]
        content = self._sector_content(sector)
        if content != versions[-1][1]:
            versions.append((self._time, content))
            self._forget_oldest(versions)
        elif len(versions) == 1:
            del self._dirty[sector]

    def _forget_oldest(self, versions: list[tuple[int, T]]) -> None:
        # Not during a sync: it may make this version durable.
        if len(versions) > VERSIONS_MAX and not self._syncs:
            del versions[1]

    def _copy_if_shared(self) -> None:
        if not self._is_own:
            self._now = bytearray(self._now)
            self._is_own = True

    def _shared(self, size: int) -> Sectors:
        copy = Sectors()
        copy.size = size
        copy._now = self._now
        copy._sizes = [(0, size)]
        copy._is_own = self._is_own = False
        return copy


def _pick(choices: Choices, options: list[T]) -> T:
    return options[choices.pick(len(options))] if len(options) > 1 else options[0]


def _newest(versions: list[tuple[int, T]], time: int) -> tuple[int, T]:
    """The last version at a time or before; the first version always qualifies."""
    return next(version for version in reversed(versions) if version[0] <= time)


def _after_sync(
    versions: list[tuple[int, T]], begun_at: int, *, reached_disk: bool
) -> list[tuple[int, T]]:
    """The versions that are left after a sync that began at a time."""
    durable = _newest(versions, begun_at) if reached_disk else versions[0]
    return [(0, durable[1]), *(version for version in versions if version[0] > begun_at)]


def _padded(size: int) -> int:
    return -(-size // SECTOR) * SECTOR
