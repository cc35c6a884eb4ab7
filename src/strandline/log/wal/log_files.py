"""The files of one shard: their names, which one has an lsn, and which may be removed.

An lsn counts the bytes of frames since the shard began; file headers do not count. A file has the
lsns from its first up to the first of the next file, whatever bytes follow in it: a writer that
reopens a log never changes an old file, it begins a new one at the recovered end.
"""

from __future__ import annotations

import bisect

from strandline.errors import Closed
from strandline.log.wal.codec import FILE_HEADER_SIZE, page_cache_number
from strandline.platform.disk import Disk, ReadFile

LOCATION_SHARD_BITS = 56
LOCATION_LSN = (1 << LOCATION_SHARD_BITS) - 8
"""A location is an lsn with the shard above and a kind in the three low bits that are free."""
SINGLE_AT, BLOCK_AT, MASKED_BLOCK_AT = 0, 1, 2


class WalFile:
    """One file of a shard that can be read."""

    __slots__ = ("file", "first_lsn", "path", "size", "term")

    def __init__(self, first_lsn: int, term: int, size: int, path: str, file: ReadFile) -> None:
        self.first_lsn = first_lsn
        self.term = term
        self.size = size
        self.path = path
        self.file = file


class ShardFiles:
    """The readable files of a shard in order. Readers need no lock: the tuple is replaced at once.

    Once the shard has a writer, adding or dropping a file requires the writer's lock.
    """

    def __init__(self, disk: Disk, directory: str, shard: int) -> None:
        self.disk = disk
        self.directory = directory
        self.shard = shard
        self._index: tuple[list[int], tuple[WalFile, ...]] = ([], ())

    def page_cache(self) -> int:
        """The identity of the page cache that has what is written to this shard now."""
        return page_cache_number(self.disk.page_cache_id(self.directory))

    @property
    def entries(self) -> tuple[WalFile, ...]:
        """The files, oldest first."""
        return self._index[1]

    def path(self, first_lsn: int) -> str:
        return f"{self.directory}/wal-{first_lsn:020d}.log"

    def spare_path(self, number: int) -> str:
        return f"{self.directory}/spare-{number:020d}.zero"

    def add(self, entry: WalFile) -> None:
        """Add a file; it replaces one that was begun at the same lsn and never got a frame."""
        others = [known for known in self.entries if known.first_lsn != entry.first_lsn]
        self._swap((*others, entry))

    def locate(self, lsn: int) -> tuple[WalFile, int]:
        """The file with an lsn, and the offset in it."""
        firsts, entries = self._index
        place = bisect.bisect_right(firsts, lsn) - 1
        if place < 0:
            raise Closed(f"lsn {lsn} of shard {self.shard} has been checkpointed away")
        entry = entries[place]
        return entry, FILE_HEADER_SIZE + lsn - entry.first_lsn

    def end_of(self, place: int) -> int | None:
        """The lsn where a file's part of the log ends, None for the newest file."""
        return self.entries[place + 1].first_lsn if place + 1 < len(self.entries) else None

    def allocated(self, from_lsn: int = 0) -> int:
        """Bytes on disk of the files with this lsn or later ones."""
        firsts, entries = self._index
        place = bisect.bisect_right(firsts, from_lsn) - 1
        return sum(entry.size for entry in entries[max(0, place) :])

    def size_without_newest(self, from_lsn: int = 0) -> int:
        """As ``allocated``, without the newest file, which no checkpoint can release."""
        return self.allocated(from_lsn) - (self.entries[-1].size if self.entries else 0)

    def drop_below(self, lsn: int) -> list[str]:
        """Drop the files that are wholly below an lsn; returns their paths for removal."""
        gone = [
            entry
            for place, entry in enumerate(self.entries)
            if (self.end_of(place) or lsn + 1) <= lsn
        ]
        self._swap(tuple(entry for entry in self.entries if entry not in gone))
        return [entry.path for entry in gone]

    def keep_first(self, count: int) -> None:
        """Drop all but the first files: what follows them is not part of the log."""
        self._swap(self.entries[:count])

    def close(self) -> None:
        for entry in self.entries:
            entry.file.close()

    def _swap(self, entries: tuple[WalFile, ...]) -> None:
        self._index = ([entry.first_lsn for entry in entries], entries)


def first_lsn_of(name: str) -> int | None:
    """The first lsn in a file name, None when it is not the name of a WAL file."""
    digits = name[4:-4]
    if name.startswith("wal-") and name.endswith(".log") and digits.isdigit():
        return int(digits)
    return None
