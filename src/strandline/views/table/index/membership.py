"""Membership index: binary fuse filters of the values of each zone, and of the file.

Filters of zones are built for pairs of a zone and a value, many zones in one filter: this takes
less space per value, and all zones are tested at once, by three gathers. One zone in 256 is a false
positive, so over many files a value would still cost some zones of each. The filter of the file, a
separate section, is tested first, and most files need no other.

    section           arrays
    membership        first zone u32, seed u64, bits u8, segments u32, base u64 of each shard; table
    file-membership   seed u64, bits u8, segments u32, base u64 of each shard; table

The key of a value in a zone is its hash + (zone + 1) * 9E3779B97F4A7C15; that of a value in the
file is its hash, and it is in shard ((hash >> 31) * shards) >> 32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strandline.views.table.index import arrays, binary_fuse
from strandline.views.table.index.binary_fuse import Filters, OneFilter
from strandline.views.table.index.column import ZoneLayout
from strandline.views.table.index.hashing import Hashes, of_key
from strandline.views.table.index.predicate import Key, OneOf, Test
from strandline.views.table.index.zone_sets import Mask

KIND = "membership"
FILE_KIND = "file-membership"

_PROBES_MAX = 1 << 18
"""Limit of values times zones: above, a long IN costs more than it can save."""
_ZONE_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_U31, _U32 = map(np.uint64, (31, 32))


def build_zones(hashes: Hashes, zones: NDArray[np.int64], zone_count: int) -> bytes:
    """The section for pairs of a value and a zone, which are sorted by zone."""
    begins = np.searchsorted(zones, np.arange(zone_count + 1))
    keys = _zone_keys(hashes, zones)
    firsts, shards, first = [], [], 0
    while first < zone_count:
        limit = begins[first] + binary_fuse.SHARD_KEYS
        after = max(first + 1, int(np.searchsorted(begins, limit, side="right")) - 1)
        shards.append(binary_fuse.build(keys[begins[first] : begins[after]]))
        firsts.append(first)
        first = after
    return arrays.pack(np.array(firsts, "<u4"), *Filters.of(shards))


def build_file(hashes: Hashes) -> bytes:
    """The section for all values of a file, which may have duplicates."""
    count = max(1, -(-len(hashes) // binary_fuse.SHARD_KEYS))
    if count == 1:
        return arrays.pack(*Filters.of([binary_fuse.build(hashes)]))
    shard_of = _shard_of(hashes, count)
    shards = [binary_fuse.build(hashes[shard_of == shard]) for shard in range(count)]
    return arrays.pack(*Filters.of(shards))


class ZoneMembershipIndex:
    """Filters of the zones. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        firsts, *parts = arrays.unpack(data)
        self._filters = Filters(*parts)
        self._zones = np.arange(zones)
        self._shards = np.searchsorted(firsts, self._zones.astype("<u4"), side="right") - 1
        self.ram = self._filters.ram + 16 * zones

    def may(self, test: Test) -> Mask | None:
        if not isinstance(test, OneOf) or len(test.values) * len(self._zones) > _PROBES_MAX:
            return None
        hashes = np.array([[of_key(value)] for value in test.values], "<u8")
        shards = np.broadcast_to(self._shards, (len(hashes), len(self._zones)))
        keys = _zone_keys(hashes.reshape(-1, 1), self._zones)
        mask: Mask = np.logical_or.reduce(self._filters.may_have(keys, shards), axis=0)
        return mask


class FileMembershipIndex:
    """The filter of the whole file. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        seeds, bits, segments, bases, table = arrays.unpack(data)
        ends = np.append(bases[1:], np.uint64(len(table)))
        self._shards = [
            OneFilter(seed, bit, segment, table[begin:end].tobytes())
            for seed, bit, segment, begin, end in zip(
                *(part.tolist() for part in (seeds, bits, segments, bases, ends)), strict=True
            )
        ]
        self._zones = zones
        self.ram = len(data)

    def may(self, test: Test) -> Mask | None:
        if not isinstance(test, OneOf):
            return None
        return np.full(self._zones, any(map(self._may_have, test.values)))

    def _may_have(self, value: Key) -> bool:
        hashed = of_key(value)
        return self._shards[(hashed >> 31) * len(self._shards) >> 32].may_have(hashed)


def _zone_keys(hashes: Hashes, zones: NDArray[np.int64]) -> Hashes:
    return hashes + (zones.astype("<u8") + np.uint64(1)) * _ZONE_FACTOR


def _shard_of(hashes: Hashes, shards: int) -> NDArray[np.int64]:
    return (((hashes >> _U31) * np.uint64(shards)) >> _U32).astype("<i8")
