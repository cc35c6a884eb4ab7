"""Binary fuse filters: about nine bits a key, no false negatives, one false positive in 256. Pure.

A key has three slots in three neighbouring segments of a table of bytes, and its fingerprint is the
XOR of the bytes there. To build the table, keys that are alone in one of their slots are removed
repeatedly until no key remains; then, from the last removed key to the first, the byte of the slot
where the key was alone is set so that the XOR is right. This succeeds with a probability near one;
otherwise it is repeated with another seed.

This implementation removes many keys per round: all that are alone in some slot. For each slot only
the number of its keys and the sum of their indices are stored, in one word, which gives the index
of a key that is alone. Keys are sorted by their hash, which is the order of their segments, so that
memory is accessed locally.

    hash          h = mix(key + seed), see hashing.py
    segments      2^bits bytes each; the first slot of a key is in one of ``segments``
    slots         a = ((h >> 32) * (segments << bits)) >> 32
                  b = (a + 2^bits) ^ ((h >> 18) & (2^bits - 1))
                  c = (a + 2 * 2^bits) ^ (h & (2^bits - 1))
    fingerprint   the lowest byte of h ^ (h >> 32)

Several filters, the shards, share a table: each has its own seed, and bytes from ``base`` on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.table.index.arrays import Array
from strandline.views.table.index.hashing import Hashes, mix, mix_one

Places = NDArray[np.int64]

SHARD_KEYS = 1 << 18
"""A shard of so many keys is built within the caches of a processor: larger ones take more time per
key, and smaller ones more space."""

_SEEDS_MAX = 100
_ONE = 1 << 48
"""One key in a slot; the bits below have the sum of the indices of the keys."""
_U18, _U32 = map(np.uint64, (18, 32))


class FilterShard(NamedTuple):
    """One filter."""

    seed: int
    bits: int
    segments: int
    table: NDArray[np.uint8]


class Filters:
    """Filters that share a table. Immutable; safe to use from many threads."""

    def __init__(self, seeds: Array, bits: Array, segments: Array, bases: Array, table: Array):
        self._seeds, self._bases, self._table = seeds, bases.astype("<i8"), table
        self._length = np.uint64(1) << bits.astype("<u8")
        self._reach = segments.astype("<u8") * self._length
        self.ram = table.nbytes + 32 * len(seeds)

    @classmethod
    def of(cls, shards: list[FilterShard]) -> tuple[Array, ...]:
        """The arrays of filters: the parameters of the constructor."""
        bases = np.cumsum([0, *(len(shard.table) for shard in shards[:-1])])
        return (
            np.array([shard.seed for shard in shards], "<u8"),
            np.array([shard.bits for shard in shards], "<u1"),
            np.array([shard.segments for shard in shards], "<u4"),
            bases.astype("<u8"),
            np.concatenate([shard.table for shard in shards]),
        )

    def may_have(self, keys: Hashes, shards: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each key: False if it is certainly not in its shard."""
        hashed = mix(keys + self._seeds[shards])
        first, second, third = _slots(hashed, self._length[shards], self._reach[shards])
        base = self._bases[shards]
        stored = self._table[first + base] ^ self._table[second + base] ^ self._table[third + base]
        is_equal: NDArray[np.bool_] = stored == _fingerprints(hashed)
        return is_equal


class OneFilter:
    """One filter, for tests of single keys. Immutable; safe to use from many threads."""

    def __init__(self, seed: int, bits: int, segments: int, table: bytes) -> None:
        self._seed, self._length, self._reach = seed, 1 << bits, segments << bits
        self._table = table

    def may_have(self, key: int) -> bool:
        """False if the key is certainly not in the filter."""
        hashed = mix_one(key + self._seed & 0xFFFFFFFFFFFFFFFF)
        first = (hashed >> 32) * self._reach >> 32
        second = (first + self._length) ^ (hashed >> 18 & self._length - 1)
        third = (first + 2 * self._length) ^ (hashed & self._length - 1)
        table = self._table
        return (table[first] ^ table[second] ^ table[third]) == (hashed ^ hashed >> 32) & 0xFF


def build(keys: Hashes) -> FilterShard:
    """A filter of these keys, which may have duplicates."""
    for seed in range(_SEEDS_MAX):
        hashed = np.sort(mix(keys + np.uint64(seed)))
        if len(hashed):
            hashed = hashed[np.append(True, hashed[1:] != hashed[:-1])]
        bits, segments = _shape(len(hashed))
        table = _build_table(hashed, bits, segments)
        if table is not None:
            return FilterShard(seed, bits, segments, table)
    raise AssertionError("a hundred seeds in a row failed")


def _shape(count: int) -> tuple[int, int]:
    """Bits of a segment's length, and the number of segments for first slots. Small tables need
    more space per key: the formulas are those of the filter's inventors."""
    count = max(count, 2)
    bits = math.floor(math.log(count) / math.log(3.33) + 2.25)
    size = count * max(1.125, 0.875 + 0.25 * math.log(1e6) / math.log(count))
    return bits, max(1, math.ceil(size / (1 << bits)) - 2)


def _slots(hashed: Hashes, length: Hashes, reach: Hashes) -> tuple[Places, Places, Places]:
    inner = length - np.uint64(1)
    first = ((hashed >> _U32) * reach) >> _U32
    second = (first + length) ^ ((hashed >> _U18) & inner)
    third = (first + length + length) ^ (hashed & inner)
    return first.astype("<i8"), second.astype("<i8"), third.astype("<i8")


def _fingerprints(hashed: Hashes) -> NDArray[np.uint8]:
    return (hashed ^ (hashed >> _U32)).astype("<u1")


def _build_table(hashed: Hashes, bits: int, segments: int) -> NDArray[np.uint8] | None:
    """The table, or None if keys remain that are alone in no slot."""
    length, reach = np.array([[1 << bits], [segments << bits]], "<u8")
    slots = np.stack(_slots(hashed, length, reach), axis=1)
    table = np.zeros((segments + 2) << bits, "<u1")
    rounds = _peel(slots, len(table))
    if sum(len(keys) for keys, _ in rounds) < len(hashed):
        return None
    fingerprints = _fingerprints(hashed)
    for keys, lonely in reversed(rounds):
        key_slots = slots[keys]
        # The byte of the lonely slot is still zero, so the XOR of all three is that of the others.
        others = table[key_slots[:, 0]] ^ table[key_slots[:, 1]] ^ table[key_slots[:, 2]]
        table[lonely] = fingerprints[keys] ^ others
    return table


def _peel(slots: Places, size: int) -> list[tuple[Places, Places]]:
    """The removed keys of each round, each with its lonely slot."""
    slot_words = np.zeros(size, "<i8")
    key_words = np.arange(len(slots)) + _ONE
    for column in range(3):
        np.add.at(slot_words, slots[:, column], key_words)
    rounds = []
    winner = np.empty(len(slots), "<i8")
    lonely = np.flatnonzero(slot_words >> 48 == 1)
    while len(lonely):
        keys = slot_words[lonely] - _ONE
        # A key may be alone in two slots, and a slot may be listed twice: one entry wins.
        entry = np.arange(len(keys))
        winner[keys] = entry
        wins = winner[keys] == entry
        keys, lonely = keys[wins], lonely[wins]
        rounds.append((keys, lonely))
        touched = slots[keys].reshape(-1)
        np.subtract.at(slot_words, touched, np.repeat(keys + _ONE, 3))
        lonely = touched[slot_words[touched] >> 48 == 1]
    return rounds
