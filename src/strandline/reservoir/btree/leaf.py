"""Leaf pages <-> bytes. Pure.

    offset  size  field
    0       1     kind: 0x4C ("L")
    1       n     MessagePack, an array of three:
                    keys     array of bin, strictly ascending
                    values   array of bin, as many; or a pointer (see overflow.py)
                    large    array of int: which values are pointers, ascending

MessagePack, because msgspec decodes the two lists of a leaf in one call: measured, 23 µs for 620
entries of 16 + 32 bytes, against 114 µs for slicing by offsets. The order of the keys is checked at
every decoding (14 µs), because a search in unordered keys would silently return wrong results.

In memory a leaf is those two lists: a lookup is one bisection.
"""

from __future__ import annotations

from itertools import islice
from operator import lt

import msgspec

from strandline.errors import Corrupt
from strandline.platform.disk import Buffer
from strandline.reservoir.btree.overflow import LargeValue, decode_pointer, encode_pointer

Stored = bytes | LargeValue

KEY_BYTES_MAX = 4096
HEAD_BYTES = 9
"""Approximate bytes of a leaf without entries: longer arrays have longer heads."""
ENTRY_BYTES = 4
"""Bytes of an entry without key and value; two or three too few when they are long."""
KIND = 0x4C
ENTRY_RAM = 100
"""Bytes of an entry in memory in addition to its page bytes: two objects, a slot in each list."""

_LEAF_RAM = 500

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes], list[int]])


class Leaf:
    """Entries in order of their keys. Owned by one thread."""

    __slots__ = ("dirty", "keys", "n", "size", "used", "values")

    level = 0

    def __init__(self, n: int, keys: list[bytes], values: list[Stored], size: int) -> None:
        self.n = n
        self.keys = keys
        self.values = values
        self.size = size
        """Bytes as a page: exact after decoding and encoding, approximate between."""
        self.dirty = False
        self.used = False

    def ram(self) -> int:
        """Bytes in memory, from measurements with small objects and lists."""
        return _LEAF_RAM + ENTRY_RAM * len(self.keys) + self.size


def size_of(keys: list[bytes], values: list[Stored]) -> int:
    return HEAD_BYTES + ENTRY_BYTES * len(keys) + sum(map(len, keys)) + sum(map(len, values))


def encode(leaf: Leaf) -> bytes:
    values = leaf.values
    large = []
    if LargeValue in set(map(type, values)):  # faster than a check of each value
        large = [at for at, value in enumerate(values) if type(value) is LargeValue]
        values = list(values)
        for at in large:
            pointer = values[at]
            assert isinstance(pointer, LargeValue)
            values[at] = encode_pointer(pointer)
    page = bytearray((KIND,))
    _ENCODER.encode_into((leaf.keys, values, large), page, 1)
    return bytes(page)


def decode(n: int, data: Buffer, where: str) -> Leaf:
    """Decode a leaf; ``where`` names the page in errors."""
    if not data or data[0] != KIND:
        raise Corrupt("this is not a leaf", path=where)
    try:
        keys, raw_values, large = _DECODER.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise Corrupt(f"the entries cannot be decoded ({error})", path=where, offset=1) from None
    if len(keys) != len(raw_values):
        raise Corrupt("the numbers of keys and values do not match", path=where, offset=1)
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise Corrupt("the keys are not in order", path=where, offset=1)
    values: list[Stored] = [*raw_values]
    if large:
        if large != sorted(set(large)) or large[0] < 0 or large[-1] >= len(values):
            raise Corrupt("the list of large values is invalid", path=where, offset=1)
        for at in large:
            values[at] = decode_pointer(raw_values[at], where)
    return Leaf(n, keys, values, len(data))
