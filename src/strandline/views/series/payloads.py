"""Payloads of the points of one block <-> bytes. Pure.

    offset  size      field
    0       4         size of all payloads together
    4       4         stored size; if it is less, the payloads are a zstd frame
    8       1         width of a length: 0 all are the same, else 1, 2 or 4 bytes
    9       4 or w*n  lengths plus 1; 0 if the payload is only in the log
    ...     n         payloads, one after the other

Little-endian. Payloads of one source are similar: 64 positions as JSON are compressed to a fifth.
Level 1 of zstd takes 0.2 us for a payload of 100 bytes; below ``_PACK_MIN`` a frame costs more time
than the saved bytes are worth. To create a compressor takes longer than to compress 30 payloads, so
every thread keeps one.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Sequence
from itertools import accumulate

from strandline.errors import Corrupt

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_HEAD = struct.Struct("<IIB")
_LENGTH = struct.Struct("<I")
_CODES = {1: "B", 2: "H", 4: "I"}
_LEVEL = 1
_PACK_MIN = 512

_local = threading.local()

Payload = bytes | None
"""None: the payload is only in the log."""


def pack(payloads: Sequence[Payload]) -> bytes:
    """The bytes of at least one payload, not compressed."""
    joined = b"".join(filter(None, payloads))
    lengths = [0 if payload is None else len(payload) + 1 for payload in payloads]
    width, packed_lengths = _pack_lengths(lengths)
    return b"".join((_HEAD.pack(len(joined), len(joined), width), packed_lengths, joined))


def squeeze(data: bytes, offset: int, count: int) -> bytes:
    """The same with the payloads from the offset on as a zstd frame, if that saves an eighth."""
    size, stored, width = _HEAD.unpack_from(data, offset)
    if stored < size or size < _PACK_MIN:
        return data
    start = offset + _HEAD.size + (width * count if width else _LENGTH.size)
    packed = _compressor().compress(memoryview(data)[start:], zstd.ZstdCompressor.FLUSH_FRAME)
    if len(packed) >= size - size // 8:
        return data
    head = _HEAD.pack(size, len(packed), width)
    return b"".join((data[:offset], head, data[offset + _HEAD.size : start], packed))


def size_of(data: bytes, offset: int, count: int) -> int:
    """The size of the payloads from the offset on; -1 if the bytes are not payloads."""
    if len(data) < offset + _HEAD.size:
        return -1
    _, stored, width = _HEAD.unpack_from(data, offset)
    if width and width not in _CODES:
        return -1
    lengths = width * count if width else _LENGTH.size
    return int(_HEAD.size + lengths + stored)


def unpack(data: bytes, offset: int, count: int, part: slice, where: str) -> list[Payload]:
    """A part of ``count`` payloads, after a check with ``size_of``. ``where`` is the path for
    ``Corrupt``."""
    size, stored, width = _HEAD.unpack_from(data, offset)
    offset += _HEAD.size
    lengths: Sequence[int]
    if width:
        lengths = struct.unpack_from(f"<{count}{_CODES[width]}", data, offset)
    else:
        lengths = _LENGTH.unpack_from(data, offset) * count
    offset += width * count if width else _LENGTH.size
    ends = list(accumulate([length - 1 if length else 0 for length in lengths], initial=0))
    joined = _unpack_bytes(data[offset : offset + stored], size, where)
    if ends[-1] != size or len(joined) != size:
        raise Corrupt("the payloads have another size", path=where)
    first, after = part.start, part.stop
    return [
        joined[start:end] if length else None
        for length, start, end in zip(
            lengths[part], ends[part], ends[first + 1 : after + 1], strict=True
        )
    ]


def _pack_lengths(lengths: list[int]) -> tuple[int, bytes]:
    if lengths.count(lengths[0]) == len(lengths):
        return 0, _LENGTH.pack(lengths[0])
    bits = max(lengths).bit_length()
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4
    return width, struct.pack(f"<{len(lengths)}{_CODES[width]}", *lengths)


def _compressor() -> zstd.ZstdCompressor:
    """The compressor of this thread; each frame is independent."""
    compressor: zstd.ZstdCompressor | None = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.packer = zstd.ZstdCompressor(_LEVEL)
    return compressor


def _unpack_bytes(stored: bytes, size: int, where: str) -> bytes:
    if len(stored) == size:
        return stored
    decompressor = zstd.ZstdDecompressor()
    try:
        joined = decompressor.decompress(stored, size)
    except zstd.ZstdError as error:
        raise Corrupt(f"the payloads cannot be unpacked ({error})", path=where) from error
    if not decompressor.eof or decompressor.unused_data:
        raise Corrupt("the payloads unpack to another size", path=where)
    return joined
