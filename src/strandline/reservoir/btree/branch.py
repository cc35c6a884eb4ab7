"""Branch pages <-> bytes. Pure.

    offset  size  field
    0       1     kind: 0x42 ("B")
    1       1     level: 1 when the children are leaves, one more for each level above
    2       n     MessagePack, an array of two:
                    keys      array of bin, strictly ascending
                    children  array of int, page numbers, one more than keys

All keys under ``children[i]`` are at least ``keys[i - 1]`` and less than ``keys[i]``. A key here
may not be the key of an entry: it is the shortest that separates the two sides.

A page keeps its number when it changes, so a changed leaf changes no branch: only splits and
merges do.
"""

from __future__ import annotations

from itertools import islice
from operator import lt
from typing import Annotated

import msgspec

from strandline.errors import Corrupt
from strandline.platform.disk import Buffer
from strandline.reservoir.btree.overflow import NUMBER_FIRST, NUMBER_NEXT_MAX

HEAD_BYTES = 9
CHILD_BYTES = 7
"""Maximum bytes of a child without the key before it, except for long keys."""
CHILDREN_MIN = 2
LEVEL_MAX = 31
KIND = 0x42

_BRANCH_RAM = 500
_CHILD_RAM = 100

_Number = Annotated[int, msgspec.Meta(ge=NUMBER_FIRST, lt=NUMBER_NEXT_MAX)]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[list[bytes], list[_Number]])


class Branch:
    """Children in order, and the keys between them. Owned by one thread."""

    __slots__ = ("children", "dirty", "keys", "level", "n", "size", "used")

    def __init__(
        self, n: int, level: int, keys: list[bytes], children: list[int], size: int
    ) -> None:
        self.n = n
        self.level = level
        self.keys = keys
        self.children = children
        self.size = size
        """Bytes as a page: exact after decoding and encoding, approximate between."""
        self.dirty = False
        self.used = False

    def ram(self) -> int:
        return _BRANCH_RAM + _CHILD_RAM * len(self.children) + self.size


def size_of(keys: list[bytes]) -> int:
    return HEAD_BYTES + CHILD_BYTES * (len(keys) + 1) + sum(map(len, keys))


def encode(branch: Branch) -> bytes:
    page = bytearray((KIND, branch.level))
    _ENCODER.encode_into((branch.keys, branch.children), page, 2)
    return bytes(page)


def decode(n: int, data: Buffer, where: str) -> Branch:
    """Decode a branch; ``where`` names the page in errors."""
    if len(data) < 2 or data[0] != KIND:
        raise Corrupt("this is not a branch", path=where)
    level = data[1]
    if not 0 < level <= LEVEL_MAX:
        raise Corrupt(f"a branch cannot be at level {level}", path=where, offset=1)
    try:
        keys, children = _DECODER.decode(memoryview(data)[2:])
    except msgspec.DecodeError as error:
        raise Corrupt(f"the children cannot be decoded ({error})", path=where, offset=2) from None
    if len(children) != len(keys) + 1 or len(children) < CHILDREN_MIN:
        raise Corrupt("the numbers of keys and children do not match", path=where, offset=2)
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise Corrupt("the keys are not in order", path=where, offset=2)
    if len(set(children)) < len(children):
        raise Corrupt("a child occurs twice", path=where, offset=2)
    return Branch(n, level, keys, children, len(data))
