"""An index of expiries by time and of delete markers by seq: an ordered map with a buffer.

    b"e" + expires_us (8) + version (8)    ->  key
    b"t" + version of the marker (8)       ->  ts of the marker (8) + key

Big-endian, so that the order of bytes is the order of numbers. The index has exactly the keys that
have an expiry, and those that are deleted and not forgotten: when a key changes, its previous entry
is removed. So the next keys that are due are found without reading any other key.
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
_ENTRY_RAM = 2 * sys.getsizeof(b"") + _EXPIRY.size + 16
_BUFFER_MAX = 10_000


class DeleteMarker(NamedTuple):
    """The newest record of a deleted key."""

    version: int
    ts: int
    key: bytes


class ExpiryIndex:
    """Keys in the order in which they expire or may be forgotten. Owned by one thread."""

    def __init__(self, map: PagedMap) -> None:
        self.map = map
        self._changed: dict[bytes, bytes | None] = {}
        self._ram = 0

    @property
    def ram(self) -> int:
        """Bytes of memory, without the map."""
        return self._ram + sys.getsizeof(self._changed)

    def add(self, key: bytes, slot: Slot) -> None:
        """Add a key that expires or is deleted; other keys are ignored."""
        if slot.deleted:
            self._change(_MARKER.pack(b"t", slot.version), _STAMP.pack(slot.ts) + key)
        elif slot.expires_us:
            self._change(_EXPIRY.pack(b"e", slot.expires_us, slot.version), key)

    def remove(self, slot: Slot) -> None:
        """Remove the entry of a key in this state, if it has one."""
        if slot.deleted:
            self._change(_MARKER.pack(b"t", slot.version), None)
        elif slot.expires_us:
            self._change(_EXPIRY.pack(b"e", slot.expires_us, slot.version), None)

    def expired(self, now_us: int, count_max: int) -> list[bytes]:
        """Keys that have expired, the earliest first."""
        entries = self._range(b"e", _EXPIRY.pack(b"e", max(0, now_us) + 1, 0), count_max)
        return [key for _, key in entries]

    def markers(self, through: int, count_max: int) -> list[DeleteMarker]:
        """Delete markers up to a seq, oldest first."""
        entries = self._range(b"t", _MARKER.pack(b"t", through + 1), count_max)
        return [
            DeleteMarker(_MARKER.unpack(key)[1], _STAMP.unpack_from(value)[0], value[_STAMP.size :])
            for key, value in entries
        ]

    def flush(self) -> None:
        """Write the buffer to the map."""
        changed, self._changed, self._ram = self._changed, {}, 0
        self.map.put_many((key, value) for key, value in changed.items() if value is not None)
        for key, value in changed.items():
            if value is None:
                self.map.delete(key)

    def _range(self, first: bytes, next: bytes, count_max: int) -> Iterator[tuple[bytes, bytes]]:
        self.flush()
        return islice(self.map.range(first, next), count_max)

    def _change(self, key: bytes, value: bytes | None) -> None:
        self._changed[key] = value
        self._ram += _ENTRY_RAM + (0 if value is None else len(value))
        if len(self._changed) > _BUFFER_MAX:
            self.flush()
