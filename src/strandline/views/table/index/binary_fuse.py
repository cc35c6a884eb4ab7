"""Binary fuse filters: about nine bits a key, no false negatives, a false positive in 256. Pure.

A key has three places in three neighbouring segments of a table of bytes, and its fingerprint is
the XOR of the bytes there. To make the table, keys that are alone at one of their places are taken
away, again and again, until none is left; then, from the last taken to the first, the byte at the
lonely place is set so that the XOR is right. It works with a chance near one; otherwise it is done
again with another seed.

Here many keys are taken in one turn: all that are alone at some place. Of the keys at a place only
their number and the sum of their numbers are kept, in one word, so that the key that is alone there
can be told. Keys are sorted by their hash, which is the order of their segments: what is worked on
together lies together.

    hash          h = mix(key + seed), see hashing.py
    segments      2^bits bytes each; the first of a key is in one of ``segments``
    places        a = ((h >> 32) * (segments << bits)) >> 32
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
"""A shard of so many keys is made within the caches of a processor: larger ones take longer for
each key, and smaller ones more room."""

_SEEDS_MAX = 100
_ONE = 1 << 48
"""One key at a place; the bits below hold the sum of the numbers of the keys."""
_U18, _U32 = map(np.uint64, (18, 32))


class Shard(NamedTuple):
    """One filter."""

    seed: int
    bits: int
    segments: int
    table: NDArray[np.uint8]


class Filters:
    """Filters that share a table. Immutable; safe from many threads."""

    def __init__(self, seeds: Array, bits: Array, segments: Array, bases: Array, table: Array):
        self._seeds, self._bases, self._table = seeds, bases.astype("<i8"), table
        self._length = np.uint64(1) << bits.astype("<u8")
        self._reach = segments.astype("<u8") * self._length
        self.ram = table.nbytes + 32 * len(seeds)

    @classmethod
    def of(cls, shards: list[Shard]) -> tuple[Array, ...]:
        """The arrays of some filters, as the constructor takes them."""
        bases = np.cumsum([0, *(len(shard.table) for shard in shards[:-1])])
        return (
            np.array([shard.seed for shard in shards], "<u8"),
            np.array([shard.bits for shard in shards], "<u1"),
            np.array([shard.segments for shard in shards], "<u4"),
            bases.astype("<u8"),
            np.concatenate([shard.table for shard in shards]),
        )

    def may_have(self, keys: Hashes, shards: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each key: false when it is surely not in the shard beside it."""
        hashed = mix(keys + self._seeds[shards])
        first, second, third = _places(hashed, self._length[shards], self._reach[shards])
        base = self._bases[shards]
        found = self._table[first + base] ^ self._table[second + base] ^ self._table[third + base]
        same: NDArray[np.bool_] = found == _fingerprints(hashed)
        return same


class OneFilter:
    """One of the filters, asked for one key at a time. Immutable; safe from many threads."""

    def __init__(self, seed: int, bits: int, segments: int, table: bytes) -> None:
        self._seed, self._length, self._reach = seed, 1 << bits, segments << bits
        self._table = table

    def may_have(self, key: int) -> bool:
        """False when the key is surely not in it."""
        hashed = mix_one(key + self._seed & 0xFFFFFFFFFFFFFFFF)
        first = (hashed >> 32) * self._reach >> 32
        second = (first + self._length) ^ (hashed >> 18 & self._length - 1)
        third = (first + 2 * self._length) ^ (hashed & self._length - 1)
        table = self._table
        return (table[first] ^ table[second] ^ table[third]) == (hashed ^ hashed >> 32) & 0xFF


def build(keys: Hashes) -> Shard:
    """A filter of these keys; it does not matter when some come twice."""
    for seed in range(_SEEDS_MAX):
        hashed = np.sort(mix(keys + np.uint64(seed)))
        if len(hashed):
            hashed = hashed[np.append(True, hashed[1:] != hashed[:-1])]
        bits, segments = _shape(len(hashed))
        table = _table(hashed, bits, segments)
        if table is not None:
            return Shard(seed, bits, segments, table)
    raise AssertionError("a hundred seeds in a row failed")


def _shape(count: int) -> tuple[int, int]:
    """Bits of a segment's length, and segments where a key can begin. Small tables need more room
    for each key: the formulas are those of the filter's inventors."""
    count = max(count, 2)
    bits = math.floor(math.log(count) / math.log(3.33) + 2.25)
    room = count * max(1.125, 0.875 + 0.25 * math.log(1e6) / math.log(count))
    return bits, max(1, math.ceil(room / (1 << bits)) - 2)


def _places(hashed: Hashes, length: Hashes, reach: Hashes) -> tuple[Places, Places, Places]:
    inner = length - np.uint64(1)
    first = ((hashed >> _U32) * reach) >> _U32
    second = (first + length) ^ ((hashed >> _U18) & inner)
    third = (first + length + length) ^ (hashed & inner)
    return first.astype("<i8"), second.astype("<i8"), third.astype("<i8")


def _fingerprints(hashed: Hashes) -> NDArray[np.uint8]:
    return (hashed ^ (hashed >> _U32)).astype("<u1")


def _table(hashed: Hashes, bits: int, segments: int) -> NDArray[np.uint8] | None:
    """The bytes, or None when keys are left that are alone nowhere."""
    length, reach = np.array([[1 << bits], [segments << bits]], "<u8")
    places = np.stack(_places(hashed, length, reach), axis=1)
    table = np.zeros((segments + 2) << bits, "<u1")
    turns = _peel(places, len(table))
    if sum(len(keys) for keys, _ in turns) < len(hashed):
        return None
    fingerprints = _fingerprints(hashed)
    for keys, lonely in reversed(turns):
        own = places[keys]
        # The byte at the lonely place is still zero, so all three can be taken.
        others = table[own[:, 0]] ^ table[own[:, 1]] ^ table[own[:, 2]]
        table[lonely] = fingerprints[keys] ^ others
    return table


def _peel(places: Places, size: int) -> list[tuple[Places, Places]]:
    """Keys in the turns in which they were taken away, each with its lonely place."""
    at = np.zeros(size, "<i8")
    numbered = np.arange(len(places)) + _ONE
    for column in range(3):
        np.add.at(at, places[:, column], numbered)
    turns = []
    winner = np.empty(len(places), "<i8")
    lonely = np.flatnonzero(at >> 48 == 1)
    while len(lonely):
        keys = at[lonely] - _ONE
        # A key may be alone at two places, and a place may be listed twice: one of them wins.
        turn = np.arange(len(keys))
        winner[keys] = turn
        wins = winner[keys] == turn
        keys, lonely = keys[wins], lonely[wins]
        turns.append((keys, lonely))
        touched = places[keys].reshape(-1)
        np.subtract.at(at, touched, np.repeat(keys + _ONE, 3))
        lonely = touched[at[touched] >> 48 == 1]
    return turns
