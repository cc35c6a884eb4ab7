"""Values too large for a leaf: pieces, each a page of its own, and the pointer in the leaf.

A piece, as a page:

    offset  size  field
    0       1     kind: 0x56 ("V")
    1       n     the bytes: PIECE_BYTES, except in the last piece

A pointer, in the place of the value:

    offset  size  field
    0       4     size of the value in bytes, little-endian
    4       4*p   the pieces' page numbers in order, little-endian; p follows from the size

Pure.
"""

from __future__ import annotations

import struct
from typing import final

import msgspec

from strandline.errors import Corrupt
from strandline.platform.disk import Buffer

VALUE_BYTES_MAX = 16 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
NUMBER_FIRST = 2
"""The first page number that is not the root's."""
NUMBER_NEXT_MAX = 1 << 32

KIND = 0x56
_PIECE_RAM = 200
_SIZE = struct.Struct("<I")


@final
class LargeValue(msgspec.Struct, frozen=True):
    """The location of a large value. Its ``len`` is that of the pointer, which the leaf holds."""

    size: int
    pieces: tuple[int, ...]

    def __len__(self) -> int:
        return 4 + 4 * len(self.pieces)


class ValuePiece:
    """Bytes of a large value in memory. Owned by one thread."""

    __slots__ = ("data", "dirty", "n", "used")

    level = -1

    def __init__(self, n: int, data: bytes) -> None:
        self.n = n
        self.data = data
        self.dirty = False
        self.used = False

    @property
    def size(self) -> int:
        return 1 + len(self.data)

    def ram(self) -> int:
        return _PIECE_RAM + len(self.data)


def piece_count(size: int) -> int:
    return -(-size // PIECE_BYTES)


def split_value(value: bytes) -> list[bytes]:
    return [value[at : at + PIECE_BYTES] for at in range(0, len(value), PIECE_BYTES)]


def encode_pointer(large: LargeValue) -> bytes:
    return struct.pack(f"<{1 + len(large.pieces)}I", large.size, *large.pieces)


def decode_pointer(data: bytes, where: str) -> LargeValue:
    size = _SIZE.unpack_from(data)[0] if len(data) >= 4 else 0
    count = piece_count(size)
    if not 0 < size <= VALUE_BYTES_MAX or len(data) != 4 + 4 * count:
        raise Corrupt("a pointer to a large value is invalid", path=where)
    pieces = struct.unpack_from(f"<{count}I", data, 4)
    if min(pieces) < NUMBER_FIRST or len(set(pieces)) < count:
        raise Corrupt("a pointer to a large value has invalid page numbers", path=where)
    return LargeValue(size, pieces)


def encode_piece(piece: ValuePiece) -> bytes:
    return bytes((KIND,)) + piece.data


def decode_piece(data: Buffer, size: int, where: str) -> memoryview:
    """Decode a piece, which must have this size."""
    if len(data) != 1 + size or data[0] != KIND:
        raise Corrupt(f"this is not a piece of a large value with {size} bytes", path=where)
    return memoryview(data)[1:]
