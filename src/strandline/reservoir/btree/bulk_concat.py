"""Maps whose keys follow each other, made one: leaves as they are, branches anew.

    grafting = Graft()
    for map in maps:                     in the order of their keys
        for n, page in grafting.add(map_pages): ...
    for n, page in grafting.end(): ...

Entries are not sorted or copied again, so it takes as long as reading the pages does. Every page
gets a new number, and only pointers to large values have to be changed for that. A leaf at a border
may be small; it is merged with a neighbour when it changes, as any other is.
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
from strandline.reservoir.btree.overflow import Large
from strandline.reservoir.btree.root import ROOT_NUMBER, Root

Page = tuple[int, bytes]
Read = Callable[[int], bytes | None]
"""The page of this number in its map."""


class Graft:
    """One map in the making. Owned by one thread."""

    def __init__(self, page_bytes: int = PAGE_BYTES) -> None:
        self._page_bytes = page_bytes
        self._root = Root()
        self._nodes: list[tuple[bytes, int]] = []
        self._last: bytes | None = None

    def add(self, read: Read) -> Iterator[Page]:
        """The pages of the next map, under their new numbers. One that was never saved is empty."""
        page = read(ROOT_NUMBER)
        if page is None:
            return
        root = roots.decode(page, _where(ROOT_NUMBER))
        if root.entries:
            yield from self._below(read, root.top, root.height - 1)

    def end(self) -> Iterator[Page]:
        """The branches above all leaves, and the root page."""
        root = self._root
        if not self._nodes:
            yield from self._leaf(Leaf(0, [], [], 0))
        while len(self._nodes) > 1:
            groups = _grouped(self._nodes, self._page_bytes)
            self._nodes = []
            for group in groups:
                keys, children = [first for first, _ in group[1:]], [n for _, n in group]
                made = Branch(self._allocate(), root.height, keys, children, 0)
                root.branches += 1
                self._nodes.append((group[0][0], made.n))
                yield made.n, branches.encode(made)
            root.height += 1
        root.top = self._nodes[0][1]
        yield ROOT_NUMBER, roots.encode(root)

    def _below(self, read: Read, n: int, level: int) -> Iterator[Page]:
        page = read(n)
        if page is None:
            raise Corrupt("a page of a map is missing", path=_where(n))
        if level:
            for child in branches.decode(n, page, _where(n)).children:
                yield from self._below(read, child, level - 1)
            return
        leaf = leaves.decode(n, page, _where(n))
        for at, value in enumerate(leaf.values):
            if type(value) is Large:
                numbers = []
                for piece in value.pieces:
                    data = read(piece)
                    if data is None:
                        raise Corrupt("a piece of a large value is missing", path=_where(piece))
                    numbers.append(self._allocate())
                    yield numbers[-1], data
                self._root.pieces += len(numbers)
                leaf.values[at] = Large(value.size, tuple(numbers))
        yield from self._leaf(leaf)

    def _leaf(self, leaf: Leaf) -> Iterator[Page]:
        first = leaf.keys[0] if leaf.keys else b""
        if self._last is not None and first <= self._last:
            raise Invalid(f"maps follow each other by their keys: {first!r} is not the next")
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
    """Children of one branch each: as many as fit, two at least."""
    groups: list[list[tuple[bytes, int]]] = [[]]
    size = branches.size_of([])
    for node in nodes:
        more = CHILD_BYTES + len(node[0])
        if size + more > page_bytes and len(groups[-1]) >= CHILDREN_MIN:
            groups.append([])
            size = branches.size_of([])
        groups[-1].append(node)
        size += more
    if len(groups) > 1 and len(groups[-1]) < CHILDREN_MIN:
        before = groups[-2]
        if len(before) > CHILDREN_MIN:
            groups[-1].insert(0, before.pop())
        else:
            before += groups.pop()
    return groups


def _where(n: int) -> str:
    return f"page {n} of a map"
