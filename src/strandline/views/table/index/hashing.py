"""Numbers and texts -> 63-bit hashes, many at a time. Pure.

The hash is part of the format: filters in files use it.

    mix(x)      x ^= x >> 33; x *= FF51AFD7ED558CCD; x ^= x >> 33; x *= C4CEB9FE1A85EC53;
                x ^= x >> 33
    a number    mix(its 64 bits) >> 1; a date is as wide as the others
    a text      h = size * 9E3779B97F4A7C15; for each 8 of its first 256 bytes as a number, zeros
                after the last: h = (h ^ number) * FF51AFD7ED558CCD, h ^= h >> 32; mix(h) >> 1

Texts are not extracted: words are gathered from their common buffer, in one pass for each eight
bytes of the longest text. That takes an eighth of the time of hashing them one by one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strandline.views.table.index.predicate import Key

Hashes = NDArray[np.uint64]

HASHED_BYTES_MAX = 256
"""A text of a megabyte must not cost a hundred thousand passes over all. Texts that differ only
after these bytes have the same hash: a filter then keeps the zones of both."""

NO_HASH = np.uint64(2**64 - 1)
"""Sorts after every hash."""

_SIZE_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xFF51AFD7ED558CCD)
_OTHER_FACTOR = np.uint64(0xC4CEB9FE1A85EC53)
_MASK = 2**64 - 1
_ALL = np.uint64(_MASK)
_U1, _U8, _U32, _U33, _U64 = map(np.uint64, (1, 8, 32, 33, 64))


def mix(numbers: Hashes) -> Hashes:
    """Numbers mixed over all 64 bits; a bijection."""
    mixed = numbers ^ (numbers >> _U33)
    mixed *= _FACTOR
    mixed ^= mixed >> _U33
    mixed *= _OTHER_FACTOR
    mixed ^= mixed >> _U33
    return mixed


def mix_one(number: int) -> int:
    """The same for one number: ten times as fast as numpy for one."""
    number ^= number >> 33
    number = number * int(_FACTOR) & _MASK
    number ^= number >> 33
    number = number * int(_OTHER_FACTOR) & _MASK
    return number ^ number >> 33


def of_numbers(values: NDArray[Any]) -> Hashes:
    """Hashes of integers."""
    wide = values if values.itemsize == 8 else values.astype("<i8")
    return mix(wide.view("<u8")) >> _U1


def of_texts(texts: pa.Array) -> Hashes:
    """Hashes of strings; the hash of a null is undefined."""
    if not len(texts):
        return np.empty(0, "<u8")
    starts, sizes, data = _buffers(texts)
    words: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data.data, 0, (1,))
    hashed = sizes.astype("<u8") * _SIZE_FACTOR
    shortest = int(sizes.min())
    for position in range(0, min(int(sizes.max()), HASHED_BYTES_MAX), 8):
        if position + 8 <= shortest:
            hashed = _add_word(hashed, words[starts + position])
            continue
        rows = np.flatnonzero(sizes > position)
        remaining = np.minimum(sizes[rows] - position, 8).astype("<u8")
        word = words[starts[rows] + position] & (_ALL >> (_U64 - remaining * _U8))
        hashed[rows] = _add_word(hashed[rows], word)
    return mix(hashed) >> _U1


@functools.lru_cache(maxsize=4096)
def of_key(key: Key) -> int:
    """The hash of one key. Cached, as a query tests the same key in every file."""
    if isinstance(key, bytes):
        return int(of_texts(pa.array([key], pa.binary()))[0])
    return int(of_numbers(np.array([key], "<u8" if key >= 2**63 else "<i8"))[0])


def _add_word(hashed: Hashes, word: Hashes) -> Hashes:
    mixed = (hashed ^ word) * _FACTOR
    mixed ^= mixed >> _U32
    return mixed


def _buffers(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """The start and the size of each text, and all bytes with eight zeros appended."""
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, "<i8" if is_large else "<i4")
    ends = ends[texts.offset : texts.offset + len(texts) + 1].astype("<i8")
    raw = np.frombuffer(data, "<u1") if data is not None else np.empty(0, "<u1")
    padded = np.concatenate([raw[ends[0] : ends[-1]], np.zeros(8, "<u1")])
    return ends[:-1] - ends[0], np.diff(ends), padded
