"""Payloads of the points of one block <-> bytes. Pure.

    offset  size      field
    0       4         size of all payloads together
    4       4         size of them as they are stored; when it is less, as a zstd frame
    8       1         width of a length: 0 all are the same, else 1, 2 or 4 bytes
    9       4 or w*n  lengths, each one more than it is; 0 when the payload is only in the log
    ...     n         payloads, one after the other

Little-endian. Payloads of one source are much alike: 64 positions as JSON take a fifth. Level 1 of
zstd needs 0.2 us for a payload of 100 bytes, and below ``_PACK_MIN`` its frame costs more time than
the bytes are worth. To make a packer takes longer than to pack 30 payloads, so every thread keeps
one.
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
_SAME = struct.Struct("<I")
_CODES = {1: "B", 2: "H", 4: "I"}
_LEVEL = 1
_PACK_MIN = 512

_own = threading.local()

Payload = bytes | None
"""None: it is only in the log."""


def pack(payloads: Sequence[Payload]) -> bytes:
    """The bytes of payloads, at least one, as they are."""
    joined = b"".join(filter(None, payloads))
    lengths = [0 if payload is None else len(payload) + 1 for payload in payloads]
    width, packed_lengths = _pack_lengths(lengths)
    return b"".join((_HEAD.pack(len(joined), len(joined), width), packed_lengths, joined))


def squeeze(data: bytes, offset: int, count: int) -> bytes:
    """The same with the payloads from the offset on as a zstd frame, when that is worth it."""
    size, stored, width = _HEAD.unpack_from(data, offset)
    if stored < size or size < _PACK_MIN:
        return data
    start = offset + _HEAD.size + (width * count if width else _SAME.size)
    packed = _packer().compress(memoryview(data)[start:], zstd.ZstdCompressor.FLUSH_FRAME)
    if len(packed) >= size - size // 8:
        return data
    head = _HEAD.pack(size, len(packed), width)
    return b"".join((data[:offset], head, data[offset + _HEAD.size : start], packed))


def size_of(data: bytes, offset: int, count: int) -> int:
    """How many bytes these payloads take from the offset on; -1 when there cannot be any."""
    if len(data) < offset + _HEAD.size:
        return -1
    _, stored, width = _HEAD.unpack_from(data, offset)
    if width and width not in _CODES:
        return -1
    lengths = width * count if width else _SAME.size
    return int(_HEAD.size + lengths + stored)


def unpack(data: bytes, offset: int, count: int, part: slice, where: str) -> list[Payload]:
    """A part of so many payloads; ``size_of`` has been asked. ``where`` names a damaged block."""
    size, stored, width = _HEAD.unpack_from(data, offset)
    offset += _HEAD.size
    lengths: Sequence[int]
    if width:
        lengths = struct.unpack_from(f"<{count}{_CODES[width]}", data, offset)
    else:
        lengths = _SAME.unpack_from(data, offset) * count
    offset += width * count if width else _SAME.size
    ends = list(accumulate([length - 1 if length else 0 for length in lengths], initial=0))
    joined = _unpack_bytes(data[offset : offset + stored], size, where)
    if ends[-1] != size or len(joined) != size:
        raise Corrupt("the payloads have another size", path=where)
    first, following = part.start, part.stop
    return [
        joined[start:end] if length else None
        for length, start, end in zip(
            lengths[part], ends[part], ends[first + 1 : following + 1], strict=True
        )
    ]


def _pack_lengths(lengths: list[int]) -> tuple[int, bytes]:
    if lengths.count(lengths[0]) == len(lengths):
        return 0, _SAME.pack(lengths[0])
    bits = max(lengths).bit_length()
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4
    return width, struct.pack(f"<{len(lengths)}{_CODES[width]}", *lengths)


def _packer() -> zstd.ZstdCompressor:
    """The one of this thread: each frame begins anew."""
    packer: zstd.ZstdCompressor | None = getattr(_own, "packer", None)
    if packer is None:
        packer = _own.packer = zstd.ZstdCompressor(_LEVEL)
    return packer


def _unpack_bytes(stored: bytes, size: int, where: str) -> bytes:
    if len(stored) == size:
        return stored
    unpacker = zstd.ZstdDecompressor()
    try:
        joined = unpacker.decompress(stored, size)
    except zstd.ZstdError as error:
        raise Corrupt(f"the payloads cannot be unpacked ({error})", path=where) from error
    if not unpacker.eof or unpacker.unused_data:
        raise Corrupt("the payloads unpack to another size", path=where)
    return joined
