"""Points of one source <-> bytes, as differences. Pure.

    offset  size       field
    0       4          n, the number of points
    4       1          width of a difference of ats: 1, 2, 4 or 8 bytes
    5       1          width of a difference of seqs: 1, 2, 4 or 8 bytes
    6       1          flags: bit 0 differences of seqs are zigzag: 0, -1, 1, -2, 2 are 0 to 4
                              bit 1 the block has payloads
    7       1          kinds: 0 all are 0, 1 all are the same, 2 one per point
    8       8          at of the first point, signed
    16      8          seq of the first point
    24      w*(n-1)    differences of ats
    ...     w*(n-1)    differences of seqs
    ...     0, 4, 4*n  kinds
    ...                payloads (payloads.py), if bit 1 is set

Little-endian. Points are in order of (at, seq), so ats never fall; seqs may, if points were
appended out of order. Measured with 1,000 sources and microseconds: 6 bytes per point, plus its
payload.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from operator import sub
from typing import NamedTuple

import numpy as np

from strandline.errors import Corrupt
from strandline.views.series import payloads as packing
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payloads import Payload

_HEAD = struct.Struct("<IBBBBqQ")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_SAME, _EACH = 1, 2
_ZIGZAG, _PAYLOADS = 1, 2
_LIST_POINTS_MAX = 64
"""Up to so many points, plain lists are faster than arrays."""
_MASK = (1 << 64) - 1


class SeriesPoints(NamedTuple):
    """Points of one source in order of (at, seq), as columns."""

    ats: list[int]
    seqs: list[int]
    kinds: list[int]
    payloads: list[Payload]
    """None: the payload is only in the log, or was not requested."""


class PointBounds(NamedTuple):
    """From (first_at, first_seq) to last_at, both included."""

    first_at: int
    first_seq: int
    last_at: int


ALL = PointBounds(AT_MIN, 0, AT_MAX)


def pack(
    ats: Sequence[int],
    seqs: Sequence[int],
    kinds: Sequence[int],
    payloads: Sequence[Payload] = (),
) -> bytes:
    """The bytes of at least one point. Without ``payloads``, those are only in the log.

    Payloads are not compressed: ``squeeze`` does that, and takes twice as long as everything else.
    """
    steps = list(map(sub, islice(ats, 1, None), ats))
    moves = list(map(sub, islice(seqs, 1, None), seqs))
    zigzag = min(moves, default=0) < 0
    if zigzag:
        moves = [move << 1 if move >= 0 else (-move << 1) - 1 for move in moves]
    at_width, seq_width = _width(steps), _width(moves)
    packed_kinds, kinds_code = _pack_kinds(kinds)
    inline = payloads.count(None) < len(payloads)
    flags = _ZIGZAG * zigzag | _PAYLOADS * inline
    return b"".join(
        (
            _HEAD.pack(len(ats), at_width, seq_width, flags, kinds_code, ats[0], seqs[0]),
            struct.pack(f"<{len(steps)}{_CODES[at_width]}", *steps),
            struct.pack(f"<{len(moves)}{_CODES[seq_width]}", *moves),
            packed_kinds,
            packing.pack(payloads) if inline else b"",
        )
    )


def squeeze(data: bytes) -> bytes:
    """The same block with compressed payloads."""
    count, at_width, seq_width, flags, kinds_code, _, _ = _HEAD.unpack_from(data)
    if not flags & _PAYLOADS:
        return data
    differences = (count - 1) * (at_width + seq_width)
    return packing.squeeze(data, _HEAD.size + differences + _kind_bytes(kinds_code, count), count)


def unpack(
    data: bytes, bounds: PointBounds, where: str = "a block of a series", *, payloads: bool = True
) -> SeriesPoints:
    """The points within bounds; ``where`` is the path of ``Corrupt`` if the bytes are not a block.

    Without ``payloads``, payloads are not unpacked.
    """
    if len(data) < _HEAD.size:
        raise Corrupt("too short for points", path=where)
    count, at_width, seq_width, flags, kinds_code, first_at, first_seq = _HEAD.unpack_from(data)
    steps = count - 1
    kind_bytes = _kind_bytes(kinds_code, count)
    widths_fit = at_width in _CODES and seq_width in _CODES
    if count < 1 or not widths_fit or kind_bytes < 0 or flags > _ZIGZAG | _PAYLOADS:
        raise Corrupt("invalid widths of points", path=where)
    seqs_at = _HEAD.size + steps * at_width
    kinds_at = seqs_at + steps * seq_width
    payloads_at = kinds_at + kind_bytes
    inline = bool(flags & _PAYLOADS)
    payload_bytes = packing.size_of(data, payloads_at, count) if inline else 0
    if payload_bytes < 0 or len(data) != payloads_at + payload_bytes:
        raise Corrupt("the points have another size", path=where)
    sum_steps = _sum_list if count <= _LIST_POINTS_MAX else _sum_array
    ats = sum_steps(data, _HEAD.size, steps, at_width, first_at, zigzag=False)
    seqs = sum_steps(data, seqs_at, steps, seq_width, first_seq, zigzag=bool(flags & _ZIGZAG))
    low, high = find(ats, seqs, bounds)
    unpacked: list[Payload] = [None] * (high - low)
    if inline and payloads and unpacked:
        unpacked = packing.unpack(data, payloads_at, count, slice(low, high), where)
    kinds = _unpack_kinds(data, kinds_at, kinds_code, low, high)
    return SeriesPoints(_as_list(ats[low:high]), _as_list(seqs[low:high]), kinds, unpacked)


def cut(points: SeriesPoints, bounds: PointBounds) -> SeriesPoints:
    """The points within bounds."""
    return _slice(points, *find(points.ats, points.seqs, bounds))


def first(points: SeriesPoints, count: int) -> SeriesPoints:
    """The first ``count`` points, or all if there are fewer."""
    return _slice(points, 0, count)


def extend(points: SeriesPoints, more: SeriesPoints) -> None:
    """Append points that follow."""
    points.ats.extend(more.ats)
    points.seqs.extend(more.seqs)
    points.kinds.extend(more.kinds)
    points.payloads.extend(more.payloads)


def find(
    ats: Sequence[int] | np.ndarray, seqs: Sequence[int] | np.ndarray, bounds: PointBounds
) -> tuple[int, int]:
    """The index of the first point within bounds, and that after the last."""
    low = bisect_left(ats, bounds.first_at)
    high = bisect_right(ats, bounds.last_at, low)
    if bounds.first_seq and low < high and ats[low] == bounds.first_at:
        low = bisect_left(seqs, bounds.first_seq, low, bisect_right(ats, bounds.first_at, low))
    return low, max(low, high)


def _slice(points: SeriesPoints, low: int, high: int) -> SeriesPoints:
    ats, seqs, kinds, payloads = points
    return SeriesPoints(ats[low:high], seqs[low:high], kinds[low:high], payloads[low:high])


def _width(values: list[int]) -> int:
    bits = max(values, default=0).bit_length()
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


def _pack_kinds(kinds: Sequence[int]) -> tuple[bytes, int]:
    first = kinds[0]
    if kinds.count(first) == len(kinds):
        return (struct.pack("<I", first), _SAME) if first else (b"", 0)
    return struct.pack(f"<{len(kinds)}I", *kinds), _EACH


def _kind_bytes(kinds_code: int, count: int) -> int:
    """The size of the kinds; -1 for an unknown encoding."""
    return (
        0
        if not kinds_code
        else 4
        if kinds_code == _SAME
        else 4 * count
        if kinds_code == _EACH
        else -1
    )


def _unpack_kinds(data: bytes, offset: int, kinds_code: int, low: int, high: int) -> list[int]:
    if kinds_code != _EACH:
        value = struct.unpack_from("<I", data, offset)[0] if kinds_code else 0
        return [value] * (high - low)
    return list(struct.unpack_from(f"<{high - low}I", data, offset + 4 * low))


def _sum_list(
    data: bytes, offset: int, count: int, width: int, first: int, *, zigzag: bool
) -> list[int]:
    steps: Sequence[int] = struct.unpack_from(f"<{count}{_CODES[width]}", data, offset)
    if zigzag:
        steps = [step >> 1 if not step & 1 else -(step >> 1) - 1 for step in steps]
    return list(accumulate(steps, initial=first))


def _sum_array(
    data: bytes, offset: int, count: int, width: int, first: int, *, zigzag: bool
) -> np.ndarray:
    """Sums modulo 2^64: correct whenever the result fits."""
    values = np.empty(count + 1, np.uint64)
    values[0] = first & _MASK
    values[1:] = np.frombuffer(data, f"<u{width}", count, offset)
    if zigzag:
        steps = values[1:]
        values[1:] = steps >> np.uint64(1) ^ (np.uint64(0) - (steps & np.uint64(1)))
    return np.cumsum(values, dtype=np.uint64).view(np.int64)


def _as_list(values: list[int] | np.ndarray) -> list[int]:
    return values if isinstance(values, list) else values.tolist()
