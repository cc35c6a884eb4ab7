"""A few numpy arrays <-> the bytes of one section. Pure.

    offset  size   field
    0       4      number of arrays, N
    4       4      zero
    8       16 N   per array: type (u i f S), zero, bytes per item u16, zero u32, items u64
    ..             the items of each array, padded with zeros to a multiple of 8 bytes

Numbers are little-endian. An S is a text of a fixed width, padded with NULs.
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
    """The bytes of a section. Shapes are not stored: ``unpack`` returns one dimension."""
    heads, bodies = [_COUNT.pack(len(arrays))], []
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        heads.append(_ARRAY.pack(little.dtype.kind.encode(), little.itemsize, len(little)))
        bodies.append(little.tobytes() + _PADDING[: -little.nbytes % 8])
    return b"".join(heads + bodies)


def unpack(data: bytes) -> list[Array]:
    """The arrays of a section with a verified checksum, as views of its bytes."""
    (count,) = _COUNT.unpack_from(data)
    offset = _COUNT.size + count * _ARRAY.size
    result = []
    for number in range(count):
        kind, width, items = _ARRAY.unpack_from(data, _COUNT.size + number * _ARRAY.size)
        dtype = np.dtype(f"<{kind.decode()}{width}")
        result.append(np.frombuffer(data, dtype, items, offset))
        offset += items * width + -(items * width) % 8
    return result


def joined(texts: list[bytes]) -> tuple[Array, Array]:
    """Texts of any width as two arrays: the end of each, and all bytes."""
    ends = np.cumsum([len(text) for text in texts], dtype="<u8")
    return ends, np.frombuffer(b"".join(texts), "<u1")


def split(ends: Array, data: Array) -> list[bytes]:
    """The texts of ``joined``."""
    whole, begins = data.tobytes(), [0, *ends.tolist()]
    return [whole[begin:end] for begin, end in pairwise(begins)]
