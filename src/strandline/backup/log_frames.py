"""Iterates the frames in a piece of log of a backup. Pure.

The bytes have been verified as a whole, and frame by frame when they were copied; here they are
only decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from strandline.log.wal import codec
from strandline.log.wal.codec import HEADER, HEADER_SIZE
from strandline.log.wal.recovery import BatchFrame, Frame, SingleFrame

_CHECKSUM_AND_SIZE = struct.Struct("<QI")


class FrameSpan(NamedTuple):
    """One frame of a piece."""

    lsn: int
    end_lsn: int
    ts: int
    first_word: int
    """Its first eight bytes, which the header of the next file repeats."""


def frame_spans(content: bytes, first_lsn: int) -> Iterator[FrameSpan]:
    """The frames in order."""
    offset = 0
    while offset < len(content):
        size, check, *_, ts, _, _, _, _ = HEADER.unpack_from(content, offset)
        lsn = first_lsn + offset
        offset += size
        yield FrameSpan(lsn, first_lsn + offset, ts, size | check << 32)


def end_of_frames(content: bytes, first_lsn: int, keep: Callable[[FrameSpan], bool]) -> int:
    """The lsn after the last of the leading frames that ``keep`` accepts."""
    end_lsn = first_lsn
    for mark in frame_spans(content, first_lsn):
        if not keep(mark):
            break
        end_lsn = mark.end_lsn
    return end_lsn


def decode_frame(content: bytes, mark: FrameSpan, first_lsn: int) -> Frame:
    """Decode a frame with its content."""
    view = memoryview(content)[mark.lsn - first_lsn : mark.end_lsn - first_lsn]
    _, _, kind, mask, count, _, lsn, _, ts, _, topic, seq, sizes = HEADER.unpack_from(view)
    body = view[HEADER_SIZE:]
    if mask:
        body = memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
    if kind == codec.SINGLE:
        return SingleFrame(lsn, ts, topic, seq, sizes, body)
    blocks, start = [], 0
    for _ in range(count):
        _, size = _CHECKSUM_AND_SIZE.unpack_from(body, start)
        blocks.append((lsn, body[start : start + size]))
        start += size
    return BatchFrame(lsn, ts, blocks)
