"""Finds frames after a bad place, and whether a bad frame was ever completely written. Pure.

A header can be found without the frames before it, because it has its own lsn and its own check.
``log/wal/codec.py`` explains how the sectors of a frame show that it was never completely written.
"""

from __future__ import annotations

import numpy as np

from strandline.log.wal import codec
from strandline.log.wal.codec import HEADER_SIZE

_WORDS_AT_ONCE = 1 << 16


def headers_after(
    content: memoryview, offset: int, base: int, header_seed: int
) -> list[tuple[int, int]]:
    """Offset and durable_upto of every frame header after a place; ``base``: lsn of offset 0."""
    found = []
    for hit in _offsets_with_lsn(content, offset, base):
        header = codec.HEADER.unpack(
            bytes(content[hit : hit + HEADER_SIZE]).ljust(HEADER_SIZE, b"\0")
        )
        size, check, durable = header[0], header[1], header[7]
        rest = content[hit + 8 : hit + HEADER_SIZE]
        if codec.header_ok(check, rest, header_seed, size):
            found.append((hit, durable))
    return found


def is_torn(content: memoryview, offset: int, header_seed: int) -> bool:
    """Whether the frame at a place was never completely written."""
    if offset + HEADER_SIZE > len(content) or not any(content[offset : offset + 8]):
        return True
    return not is_written(content, offset, header_seed)


def is_written(content: memoryview, offset: int, header_seed: int) -> bool:
    """Whether every sector of the frame at a place was written."""
    head = content[offset : offset + HEADER_SIZE]
    if len(head) < HEADER_SIZE or not any(head[:8]):
        return False
    size, check = codec.FIRST.unpack_from(head)
    if not codec.header_ok(check, head[8:], header_seed, size):
        size = HEADER_SIZE
    first = offset - offset % codec.SECTOR
    return all(
        any(content[start : start + codec.SECTOR])
        for start in range(first, offset + size, codec.SECTOR)
    )


def _offsets_with_lsn(content: memoryview, offset: int, base: int) -> list[int]:
    """Offsets after one at which a header with its own lsn may be."""
    words = np.frombuffer(content, dtype="<u8", count=len(content) // 8)
    hits: list[int] = []
    for first in range(offset // 8 + 1, len(words) - 2, _WORDS_AT_ONCE):
        lsns = words[first + 2 : first + 2 + _WORDS_AT_ONCE]
        if lsns.any():  # most of the searched bytes were never written
            places = np.arange(first, first + len(lsns), dtype="<u8") * np.uint64(8)
            hits += places[lsns == places + np.uint64(base % 2**64)].tolist()
    return hits
