"""The bytes of one simulated file: what a read returns now, and what a power loss may leave.

    now     what every read sees: the page cache
    dirty   sector -> [durable content, version 1, ..., newest version]
    lost    sector -> durable content, for sectors whose write-back failed
    sizes   [durable size, later size, ..., newest size]

Every store adds a version to each sector that it changes. A power loss keeps, for each dirty
sector by itself, any one of its versions: that is a lost, a reordered and a torn write. Torn pages
are the same at 4096 bytes: a page is kept as it was at one moment. A mapped store copies sector
after sector, so a page can be caught in the middle of it; a ``write`` cannot.

A sync covers what was stored before it began and nothing later. A failed sync does what Linux
does: the sectors count as clean although they never arrived. Reads show the new bytes, the next
sync succeeds, and a power loss brings the old bytes back, unless the sector was stored again.

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
VERSIONS_MAX = 256  # past this many unsynced versions of a sector the oldest ones are forgotten

T = TypeVar("T")
Version = tuple[int, bytes]  # the moment of the store, the whole sector after it


class Sectors:
    """One file's content, without a name."""

    __slots__ = ("_dirty", "_lost", "_moment", "_now", "_owned", "_sizes", "_syncs", "size")

    def __init__(self) -> None:
        self.size = 0
        self._now = bytearray()  # whole sectors, zeros after ``size``
        self._owned = True  # False: another disk reads the same bytearray, copy before a store
        self._dirty: dict[int, list[Version]] = {}
        self._lost: dict[int, bytes] = {}
        self._sizes: list[tuple[int, int]] = [(0, 0)]
        self._moment = 0
        self._syncs = 0

    def read(self, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._now)[offset : min(offset + size, self.size)])

    def store(self, offset: int, data: bytes, *, mapped: bool = False) -> None:
        """Put the bytes there; the file grows when they end behind it."""
        end = offset + len(data)
        if end > self.size:
            self.resize(end)
        if not data:
            return
        self._own()
        now, dirty = self._now, self._dirty
        touched = range(offset // SECTOR, (end - 1) // SECTOR + 1)
        for sector in touched:
            if sector not in dirty:
                durable = self._lost.pop(sector, None)
                dirty[sector] = [(0, self._sector(sector) if durable is None else durable)]
        now[offset:end] = data
        self._moment += 1
        for sector in touched:
            self._add_version(sector)
            self._moment += mapped

    def resize(self, size: int) -> None:
        """Grow with zeros or cut."""
        if size < self.size:
            self.store(size, bytes(self.size - size))
        missing = _padded(size) - len(self._now)
        if missing > 0:
            self._own()
            self._now.extend(bytes(missing))
        if size != self.size:
            self.size = size
            self._moment += 1
            self._sizes.append((self._moment, size))
            self._forget_oldest(self._sizes)

    def begin_sync(self) -> int:
        """The moment up to which this sync will count."""
        self._syncs += 1
        return self._moment

    def end_sync(self, began: int, *, reached_disk: bool = True) -> None:
        """What was stored up to that moment is durable, or lost."""
        self._syncs -= 1
        self._sizes = _settled(self._sizes, began, reached_disk=reached_disk)
        if began == self._moment and reached_disk:
            self._dirty.clear()
            return
        for sector, versions in list(self._dirty.items()):
            self._dirty[sector] = left = _settled(versions, began, reached_disk=reached_disk)
            if len(left) == 1:
                del self._dirty[sector]
                if not reached_disk:
                    self._lost[sector] = left[0][1]

    def fork(self) -> Sectors:
        """The same file on another disk, unsynced versions included."""
        twin = self._shared(self.size)
        twin._dirty = {sector: versions[:] for sector, versions in self._dirty.items()}
        twin._lost = dict(self._lost)
        twin._sizes = self._sizes[:]
        twin._moment = self._moment
        return twin

    def after_power_loss(self, choices: Choices, *, page: bool) -> Sectors:
        """The file as it comes back, all of it durable."""
        size = _pick(choices, self._sizes)[1]
        if not self._dirty and not self._lost and size == self.size:
            return self._shared(size)
        length = _padded(size)
        now = bytearray(memoryview(self._now)[:length])
        now.extend(bytes(length - len(now)))
        for sector, content in self._survivors(choices, length // SECTOR, page=page):
            now[sector * SECTOR : (sector + 1) * SECTOR] = content
        now[size:] = bytes(length - size)
        after = Sectors()
        after.size = size
        after._now = now
        after._sizes = [(0, size)]
        return after

    def combinations(self, *, page: bool) -> int:
        """How many ways a power loss can go, at most."""
        if page:
            counts = [len(moments) for moments in self._page_moments().values()]
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
            number: _pick(choices, moments)
            for number, moments in self._page_moments().items()
            if number * SECTORS_PER_PAGE < next_sector
        }
        for sector, versions in self._dirty.items():
            if sector < next_sector:
                yield sector, _newest(versions, chosen[sector // SECTORS_PER_PAGE])[1]

    def _page_moments(self) -> dict[int, list[int]]:
        """For each dirty page the moments at which it changed, after 0 for the durable state."""
        moments: dict[int, set[int]] = {}
        for sector, versions in self._dirty.items():
            found = moments.setdefault(sector // SECTORS_PER_PAGE, set())
            found.update(moment for moment, _ in versions)
        return {number: sorted(found) for number, found in moments.items()}

    def _sector(self, sector: int) -> bytes:
        return bytes(self._now[sector * SECTOR : (sector + 1) * SECTOR])

    def _add_version(self, sector: int) -> None:
        versions = self._dirty[sector]
        fresh = self._sector(sector)
        if fresh != versions[-1][1]:
            versions.append((self._moment, fresh))
            self._forget_oldest(versions)
        elif len(versions) == 1:
            del self._dirty[sector]

    def _forget_oldest(self, versions: list[tuple[int, T]]) -> None:
        # Not while a sync is under way: it may be about to make that very version durable.
        if len(versions) > VERSIONS_MAX and not self._syncs:
            del versions[1]

    def _own(self) -> None:
        if not self._owned:
            self._now = bytearray(self._now)
            self._owned = True

    def _shared(self, size: int) -> Sectors:
        twin = Sectors()
        twin.size = size
        twin._now = self._now
        twin._sizes = [(0, size)]
        twin._owned = self._owned = False
        return twin


def _pick(choices: Choices, options: list[T]) -> T:
    return options[choices.pick(len(options))] if len(options) > 1 else options[0]


def _newest(versions: list[tuple[int, T]], moment: int) -> tuple[int, T]:
    """The last version that is not younger than the moment; the first one is always there."""
    return next(version for version in reversed(versions) if version[0] <= moment)


def _settled(
    versions: list[tuple[int, T]], began: int, *, reached_disk: bool
) -> list[tuple[int, T]]:
    """What is left to choose from after a sync that began at that moment."""
    durable = _newest(versions, began) if reached_disk else versions[0]
    return [(0, durable[1]), *(version for version in versions if version[0] > began)]


def _padded(size: int) -> int:
    return -(-size // SECTOR) * SECTOR
