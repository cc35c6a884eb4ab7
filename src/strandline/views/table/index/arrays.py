"""A few numpy arrays <-> the bytes of one section. Pure.

    offset  size   field
    0       4      arrays, N
    4       4      zero
    8       16 N   per array: type (u i f S), zero, bytes per item u16, zero u32, items u64
    ..             the items of each array, padded with zeros to a multiple of 8 bytes

Numbers are little-endian. An S is a text of a fixed width, with NULs behind it.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_COUNT = struct.Struct("<I4x")
_ARRAY = struct.Struct("<cxH4xQ")
_PADDING = bytes(8)


def pack(*arrays: Array) -> bytes:
    """The bytes of a section. Shapes are not kept: all come back with one dimension."""
    heads, bodies = [_COUNT.pack(len(arrays))], []
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        heads.append(_ARRAY.pack(little.dtype.kind.encode(), little.itemsize, len(little)))
        bodies.append(little.tobytes() + _PADDING[: -little.nbytes % 8])
    return b"".join(heads + bodies)


def unpack(data: bytes) -> list[Array]:
    """The arrays of a section whose checksum was verified, on its bytes."""
    (count,) = _COUNT.unpack_from(data)
    place = _COUNT.size + count * _ARRAY.size
    found = []
    for each in range(count):
        kind, width, items = _ARRAY.unpack_from(data, _COUNT.size + each * _ARRAY.size)
        dtype = np.dtype(f"<{kind.decode()}{width}")
        found.append(np.frombuffer(data, dtype, items, place))
        place += items * width + -(items * width) % 8
    return found


def joined(texts: list[bytes]) -> tuple[Array, Array]:
    """Texts of any width as two arrays: where each ends, and all bytes."""
    ends = np.cumsum([len(text) for text in texts], dtype="<u8")
    return ends, np.frombuffer(b"".join(texts), "<u1")


def split(ends: Array, data: Array) -> list[bytes]:
    """Texts that were joined."""
    whole, begins = data.tobytes(), [0, *ends.tolist()]
    return [whole[begin:end] for begin, end in pairwise(begins)]
