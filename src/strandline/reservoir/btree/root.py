"""The root page of a map <-> bytes: the facts needed to open it. Pure.

    offset  size  field
    0       8     magic "STRNDMAP"
    8       2     format version, of this page and of all others of the map: 1
    10      2     height: 1 when the top is a leaf
    12      4     top: page number of the topmost leaf or branch
    16      8     next page number never used, at most 2^32
    24      8     entries
    32      8     leaves
    40      8     branches
    48      8     pieces of large values
    56      8     bytes of all leaves
    64      8     count of page numbers that were used and are lost
    72      4     f, how many free page numbers follow
    76      4*f   page numbers that were used and are free

All little-endian. Page numbers are 1 for this page and from 2 on for others. At most FREE_MAX free
numbers are stored; more are lost, which only costs numbers out of 2^32. Every number below the next
is that of a page, or free, or lost: so the counts add up.
"""

from __future__ import annotations

import struct

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.platform.disk import Buffer
from strandline.reservoir.btree.branch import LEVEL_MAX
from strandline.reservoir.btree.overflow import NUMBER_FIRST, NUMBER_NEXT_MAX

FORMAT_VERSION = 1
ROOT_NUMBER = 1
FREE_MAX = 4096

_MAGIC = b"STRNDMAP"
_FIXED = struct.Struct("<8sHHIQQQQQQQI")


class TreeRoot:
    """The content of a root page. Owned by one thread."""

    __slots__ = (
        "branches",
        "entries",
        "forgotten",
        "free",
        "height",
        "leaf_bytes",
        "leaves",
        "number_next",
        "pieces",
        "top",
    )

    def __init__(self) -> None:
        self.height = 1
        self.top = 0
        self.number_next = NUMBER_FIRST
        self.entries = 0
        self.leaves = 0
        self.branches = 0
        self.pieces = 0
        self.leaf_bytes = 0
        self.forgotten = 0
        self.free: list[int] = []


def encode(root: TreeRoot) -> bytes:
    fixed = _FIXED.pack(
        _MAGIC,
        FORMAT_VERSION,
        root.height,
        root.top,
        root.number_next,
        root.entries,
        root.leaves,
        root.branches,
        root.pieces,
        root.leaf_bytes,
        root.forgotten,
        len(root.free),
    )
    return fixed + struct.pack(f"<{len(root.free)}I", *root.free)


def decode(data: Buffer, where: str) -> TreeRoot:
    """Decode a root page; ``where`` names the page in errors."""
    if len(data) < _FIXED.size or bytes(data[:8]) != _MAGIC:
        raise Corrupt("this is not the root of a map", path=where)
    root = TreeRoot()
    _, version, root.height, root.top, root.number_next, *counts, free = _FIXED.unpack_from(data)
    if version > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{where} has format {version}, and this Strandline reads 1: upgrade it"
        )
    root.entries, root.leaves, root.branches, root.pieces, root.leaf_bytes, root.forgotten = counts
    if free > FREE_MAX or len(data) != _FIXED.size + 4 * free:
        raise Corrupt("the list of free pages has another length", path=where, offset=72)
    root.free = list(struct.unpack_from(f"<{free}I", data, _FIXED.size))
    if version < 1 or not _is_consistent(root):
        raise Corrupt("the numbers contradict each other", path=where, offset=8)
    return root


def _is_consistent(root: TreeRoot) -> bool:
    if not NUMBER_FIRST < root.number_next <= NUMBER_NEXT_MAX:
        return False
    pages = root.leaves + root.branches + root.pieces
    numbers = [root.top, *root.free]
    return (
        0 < root.height <= LEVEL_MAX + 1
        and root.leaves > 0
        and (root.branches > 0) == (root.height > 1)
        and (root.entries >= root.leaves or (root.entries, root.leaves) == (0, 1))
        and root.leaf_bytes >= root.leaves
        and pages + len(root.free) + root.forgotten == root.number_next - NUMBER_FIRST
        and min(numbers) >= NUMBER_FIRST
        and max(numbers) < root.number_next
        and len(set(numbers)) == len(numbers)
    )
