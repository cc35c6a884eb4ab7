"""Which keys end when: expiries by time, delete markers by seq. An ordered map with a buffer.

    b"e" + expires_us (8) + version (8)    ->  key
    b"t" + version of the marker (8)       ->  ts of the marker (8) + key

Big-endian, so that the order of bytes is the order of numbers. Exactly the keys that have a time to
end, and those that are deleted and not forgotten, are here: what a key had before is taken out when
it changes. So the next ones that are due are found without looking at any other key.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.kv.key_state import Slot

_EXPIRY = struct.Struct(">cQQ")
_MARKER = struct.Struct(">cQ")
_STAMP = struct.Struct(">q")
_LINE_RAM = 2 * sys.getsizeof(b"") + _EXPIRY.size + 16
_BUFFER_MAX = 10_000


class Marker(NamedTuple):
    """The newest record of a deleted key."""

    version: int
    ts: int
    key: bytes


class Agenda:
    """Keys in the order in which something is to be done about them. Owned by one thread."""

    def __init__(self, map: PagedMap) -> None:
        self.map = map
        self._changed: dict[bytes, bytes | None] = {}
        self._ram = 0

    @property
    def ram(self) -> int:
        """Bytes of memory, without the map."""
        return self._ram + sys.getsizeof(self._changed)

    def add(self, key: bytes, slot: Slot) -> None:
        """Note when a key ends, if it does."""
        if slot.deleted:
            self._change(_MARKER.pack(b"t", slot.version), _STAMP.pack(slot.ts) + key)
        elif slot.expires_us:
            self._change(_EXPIRY.pack(b"e", slot.expires_us, slot.version), key)

    def remove(self, slot: Slot) -> None:
        """Strike out what was noted of a key in this state."""
        if slot.deleted:
            self._change(_MARKER.pack(b"t", slot.version), None)
        elif slot.expires_us:
            self._change(_EXPIRY.pack(b"e", slot.expires_us, slot.version), None)

    def expired(self, now_us: int, count_max: int) -> list[bytes]:
        """Keys whose time is over, the longest ago first."""
        found = self._range(b"e", _EXPIRY.pack(b"e", max(0, now_us) + 1, 0), count_max)
        return [key for _, key in found]

    def markers(self, through: int, count_max: int) -> list[Marker]:
        """Delete markers up to a seq, oldest first."""
        found = self._range(b"t", _MARKER.pack(b"t", through + 1), count_max)
        return [
            Marker(_MARKER.unpack(line)[1], _STAMP.unpack_from(note)[0], note[_STAMP.size :])
            for line, note in found
        ]

    def flush(self) -> None:
        """Empty the buffer into the map."""
        changed, self._changed, self._ram = self._changed, {}, 0
        self.map.put_many((line, note) for line, note in changed.items() if note is not None)
        for line, note in changed.items():
            if note is None:
                self.map.delete(line)

    def _range(self, first: bytes, next: bytes, count_max: int) -> Iterator[tuple[bytes, bytes]]:
        self.flush()
        return islice(self.map.range(first, next), count_max)

    def _change(self, line: bytes, note: bytes | None) -> None:
        self._changed[line] = note
        self._ram += _LINE_RAM + (0 if note is None else len(note))
        if len(self._changed) > _BUFFER_MAX:
            self.flush()
