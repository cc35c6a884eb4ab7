"""Finds tags in the footer of a segment without reading all of them.

The dictionary in a footer is a MessagePack map, sorted by tag: text to a roaring bitmap of seqs. Of
every eight entries the directory keeps the first tag, the position in the file and a checksum.
A lookup reads the few entries in between, verifies them, and compares. So a segment with a million
tags takes a few megabytes of memory, and one tag costs a read of about a kilobyte.

The directory of a segment can be built again from its file at any time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from pyroaring import BitMap64
from xxhash import xxh3_64_intdigest

from strandline.platform.clock import yield_to_other_threads

ENTRIES_IN_GROUP = 8
_GROUPS_AT_ONCE = 256
_GROUP_RAM = 90
"""Bytes of memory that a group takes besides its first tag."""

_FIXED_MAP_MAX, _MAP_16, _MAP_32 = 0x8F, 0xDE, 0xDF
_FIXED_TEXT_MAX, _TEXT_8, _BYTES_8 = 0xBF, 0xD9, 0xC4
_MAP_HEAD_SIZES = {_MAP_16: 3, _MAP_32: 5}

Read = Callable[[int, int], bytes]
"""Reads so many bytes (first argument) at a position of the dictionary (second)."""


class DamagedGroup(Exception):
    """A group is not what it was when the directory was built."""


class TagDirectory:
    """The positions of the tags of one segment. Lookups are safe from many threads."""

    __slots__ = ("_checksums", "_firsts", "_starts", "is_skipped", "size")

    def __init__(self, packed: bytes) -> None:
        self._firsts: list[bytes] = []
        self._starts = array("Q")
        self._checksums = array("Q")
        for count, (start, key_start, key_end, _, _) in enumerate(_entries(packed)):
            if count % ENTRIES_IN_GROUP == 0:
                self._firsts.append(packed[key_start:key_end])
                self._starts.append(start)
                if len(self._firsts) % _GROUPS_AT_ONCE == 0:
                    yield_to_other_threads()
        self._starts.append(len(packed))
        for start, end in zip(self._starts, self._starts[1:], strict=False):
            self._checksums.append(xxh3_64_intdigest(packed[start:end]))
        self.is_skipped = bytearray(len(self._firsts))
        """For each group: whether all of its records are known to be gone."""
        self.size = sum(map(len, self._firsts)) + _GROUP_RAM * len(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def find(self, low: bytes, high: bytes, read: Read) -> BitMap64:
        """Seqs of the tags from ``low`` to below ``high``."""
        found = BitMap64()
        for group in self._groups(low, high, read):
            for _, key_start, key_end, start, end in _entries(group, 0):
                tag = group[key_start:key_end]
                if tag >= high:
                    break
                if tag >= low:
                    found |= BitMap64.deserialize(group[start:end])
        return found

    def skip(self, low: bytes, high: bytes) -> None:
        """Skip groups of only these tags from now on: all of their records are gone."""
        first = bisect_left(self._firsts, low)
        last = bisect_left(self._firsts, high) - 1  # the last group may end with other tags
        for place in range(first, last):
            self.is_skipped[place] = 1

    def _groups(self, low: bytes, high: bytes, read: Read) -> Iterator[bytes]:
        first = max(0, bisect_right(self._firsts, low) - 1)
        following = bisect_left(self._firsts, high)
        place = first
        while place < following:
            if self.is_skipped[place]:
                unspent = self.is_skipped.find(0, place)
                place = following if unspent < 0 else unspent
                continue
            stop = self.is_skipped.find(1, place, following)
            stop = min(following if stop < 0 else stop, place + _GROUPS_AT_ONCE)
            base = self._starts[place]
            data = read(self._starts[stop] - base, base)
            for at in range(place, stop):
                group = data[self._starts[at] - base : self._starts[at + 1] - base]
                if xxh3_64_intdigest(group) != self._checksums[at]:
                    raise DamagedGroup
                yield group
            place = stop


def _entries(
    packed: bytes, position: int | None = None
) -> Iterator[tuple[int, int, int, int, int]]:
    """Of every entry: its start, start and end of its tag, start and end of its bitmap."""
    if position is None:
        position = _MAP_HEAD_SIZES.get(packed[0], 1) if packed else 0
    while position < len(packed):
        start = position
        kind = packed[position]
        if kind <= _FIXED_TEXT_MAX:
            key_start, key_size = position + 1, kind & 0x1F
        else:
            key_start, key_size = _sized(packed, position, kind - _TEXT_8)
        key_end = key_start + key_size
        value_start, value_size = _sized(packed, key_end, packed[key_end] - _BYTES_8)
        position = value_start + value_size
        yield start, key_start, key_end, value_start, position


def _sized(packed: bytes, position: int, power: int) -> tuple[int, int]:
    """The start of a value after its head, and its size, which is in one, two or four bytes."""
    begin = position + 1 + (1 << power)
    return begin, int.from_bytes(packed[position + 1 : begin], "big")
