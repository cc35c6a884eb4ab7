"""Concatenates maps whose key ranges follow each other: copies leaves, builds new branches.

    result = Graft()
    for map in maps:                     in the order of their keys
        for n, page in result.add(map_pages): ...
    for n, page in result.end(): ...

Entries are not sorted or copied one by one, so it takes as long as reading the pages. Every page
gets a new number, and only pointers to large values are changed for that. A leaf at a border may be
small; it is merged with a neighbor when it changes, as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strandline.errors import Corrupt, Invalid
from strandline.reservoir.btree import branch as branches
from strandline.reservoir.btree import leaf as leaves
from strandline.reservoir.btree import root as roots
from strandline.reservoir.btree.branch import CHILD_BYTES, CHILDREN_MIN, Branch
from strandline.reservoir.btree.btree_map import PAGE_BYTES
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.overflow import LargeValue
from strandline.reservoir.btree.root import ROOT_NUMBER, TreeRoot

Page = tuple[int, bytes]
Read = Callable[[int], bytes | None]
"""Returns the page of this number in its map."""


class TreeConcat:
    """A concatenated map under construction. Owned by one thread."""

    def __init__(self, page_bytes: int = PAGE_BYTES) -> None:
        self._page_bytes = page_bytes
        self._root = TreeRoot()
        self._nodes: list[tuple[bytes, int]] = []
        self._last: bytes | None = None

    def add(self, read: Read) -> Iterator[Page]:
        """The pages of the next map, with new numbers. A map that was never saved is empty."""
        page = read(ROOT_NUMBER)
        if page is None:
            return
        root = roots.decode(page, _page_label(ROOT_NUMBER))
        if root.entries:
            yield from self._copy_subtree(read, root.top, root.height - 1)

    def end(self) -> Iterator[Page]:
        """The branches above all leaves, and the root page."""
        root = self._root
        if not self._nodes:
            yield from self._copy_leaf(Leaf(0, [], [], 0))
        while len(self._nodes) > 1:
            groups = _grouped(self._nodes, self._page_bytes)
            self._nodes = []
            for group in groups:
                keys, children = [first for first, _ in group[1:]], [n for _, n in group]
                branch = Branch(self._allocate(), root.height, keys, children, 0)
                root.branches += 1
                self._nodes.append((group[0][0], branch.n))
                yield branch.n, branches.encode(branch)
            root.height += 1
        root.top = self._nodes[0][1]
        yield ROOT_NUMBER, roots.encode(root)

    def _copy_subtree(self, read: Read, n: int, level: int) -> Iterator[Page]:
        page = read(n)
        if page is None:
            raise Corrupt("a page of a map is missing", path=_page_label(n))
        if level:
            for child in branches.decode(n, page, _page_label(n)).children:
                yield from self._copy_subtree(read, child, level - 1)
            return
        leaf = leaves.decode(n, page, _page_label(n))
        for at, value in enumerate(leaf.values):
            if type(value) is LargeValue:
                numbers = []
                for piece in value.pieces:
                    data = read(piece)
                    if data is None:
                        raise Corrupt(
                            "a piece of a large value is missing", path=_page_label(piece)
                        )
                    numbers.append(self._allocate())
                    yield numbers[-1], data
                self._root.pieces += len(numbers)
                leaf.values[at] = LargeValue(value.size, tuple(numbers))
        yield from self._copy_leaf(leaf)

    def _copy_leaf(self, leaf: Leaf) -> Iterator[Page]:
        first = leaf.keys[0] if leaf.keys else b""
        if self._last is not None and first <= self._last:
            raise Invalid(f"maps must be in the order of their keys: {first!r} is out of order")
        self._last = leaf.keys[-1] if leaf.keys else None
        n, page = self._allocate(), leaves.encode(leaf)
        self._nodes.append((first, n))
        self._root.leaves += 1
        self._root.entries += len(leaf.keys)
        self._root.leaf_bytes += len(page)
        yield n, page

    def _allocate(self) -> int:
        n = self._root.number_next
        self._root.number_next += 1
        return n


def _grouped(nodes: list[tuple[bytes, int]], page_bytes: int) -> list[list[tuple[bytes, int]]]:
    """Group nodes into branches: as many children as fit, at least two."""
    groups: list[list[tuple[bytes, int]]] = [[]]
    size = branches.size_of([])
    for node in nodes:
        node_bytes = CHILD_BYTES + len(node[0])
        if size + node_bytes > page_bytes and len(groups[-1]) >= CHILDREN_MIN:
            groups.append([])
            size = branches.size_of([])
        groups[-1].append(node)
        size += node_bytes
    if len(groups) > 1 and len(groups[-1]) < CHILDREN_MIN:
        previous = groups[-2]
        if len(previous) > CHILDREN_MIN:
            groups[-1].insert(0, previous.pop())
        else:
            previous += groups.pop()
    return groups


def _page_label(n: int) -> str:
    return f"page {n} of a map"
