"""Verifies a map: reads every page and compares every count.

In addition to the checks of decoding, it finds keys outside the fences of the branches, empty
leaves, pages in two places, counts that differ from the root page, missing pieces, and pages
without a reference.

Memory is bounded: a bit for each page number, and the branches of one path.
"""

from __future__ import annotations

from itertools import islice
from operator import lt

from pyroaring import BitMap

from strandline.errors import Corrupt
from strandline.reservoir.btree.branch import CHILDREN_MIN, Branch
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.node_store import NodeStore
from strandline.reservoir.btree.overflow import NUMBER_FIRST, PIECE_BYTES, LargeValue
from strandline.reservoir.btree.root import ROOT_NUMBER


def check(tiers: NodeStore) -> None:
    """Raise Corrupt at the first inconsistency."""
    tiers.update_sizes()
    walk = _Walk(tiers)
    root = tiers.root
    walk.visit(root.top, root.height - 1, None, None)
    walk.compare_counts()
    walk.check_unreferenced()


class _Walk:
    def __init__(self, tiers: NodeStore) -> None:
        self._tiers = tiers
        self._visited = BitMap()
        self._entries = 0
        self._leaves = 0
        self._branches = 0
        self._pieces = 0
        self._leaf_bytes = 0

    def visit(self, n: int, level: int, low: bytes | None, high: bytes | None) -> None:
        """Check a page and those below it; its keys are from ``low`` on and before ``high``."""
        tiers = self._tiers
        tiers.shrink()
        self._mark_visited(n)
        if not level:
            self._visit_leaf(tiers.leaf(n), low, high)
            return
        branch = tiers.branch(n, level)
        self._check_keys(branch, low, high)
        self._expect(
            len(branch.children) == len(branch.keys) + 1,
            n,
            "wrong number of children",
        )
        self._expect(len(branch.children) >= CHILDREN_MIN, n, "a branch has too few children")
        self._branches += 1
        fences = [low, *branch.keys, high]
        for at, child in enumerate(branch.children):
            self.visit(child, level - 1, fences[at], fences[at + 1])

    def compare_counts(self) -> None:
        root = self._tiers.root
        for name, counted, stored in (
            ("entries", self._entries, root.entries),
            ("leaves", self._leaves, root.leaves),
            ("branches", self._branches, root.branches),
            ("pieces", self._pieces, root.pieces),
            ("bytes of leaves", self._leaf_bytes, root.leaf_bytes),
        ):
            reason = f"there are {counted} {name}, and the root page has {stored}"
            self._expect(counted == stored, ROOT_NUMBER, reason)

    def check_unreferenced(self) -> None:
        """Check that no page exists without a reference."""
        tiers = self._tiers
        root = tiers.root
        free = BitMap(root.free)
        self._expect(len(free) == len(root.free), ROOT_NUMBER, "a page is free twice")
        in_use_and_free = free & self._visited
        self._expect(
            not in_use_and_free,
            ROOT_NUMBER,
            f"pages {list(in_use_and_free[:5])} are in use and free",
        )
        in_memory = BitMap([*tiers.leaves, *tiers.branches, *tiers.pieces, *tiers.spilled])
        self._expect(
            in_memory <= self._visited, ROOT_NUMBER, "memory has pages without a reference"
        )
        unreferenced = BitMap(range(NUMBER_FIRST, root.number_next))
        unreferenced -= self._visited
        unreferenced -= BitMap(tiers.freed)
        for n in unreferenced:
            data = tiers.pages.read(tiers.page_id(n))
            self._expect(data is None, n, "the page has no reference")

    def _visit_leaf(self, leaf: Leaf, low: bytes | None, high: bytes | None) -> None:
        self._check_keys(leaf, low, high)
        is_only = leaf.n == self._tiers.root.top
        self._expect(bool(leaf.keys) or is_only, leaf.n, "an empty leaf")
        self._expect(
            len(leaf.keys) == len(leaf.values),
            leaf.n,
            "wrong number of values",
        )
        self._entries += len(leaf.keys)
        self._leaves += 1
        self._leaf_bytes += leaf.size
        for value in leaf.values:
            if type(value) is LargeValue:
                self._visit_pieces(value)

    def _visit_pieces(self, large: LargeValue) -> None:
        unreferenced = large.size
        for n in large.pieces:
            self._mark_visited(n)
            self._tiers.piece(n, min(unreferenced, PIECE_BYTES))
            unreferenced -= PIECE_BYTES
            self._pieces += 1

    def _check_keys(self, node: Leaf | Branch, low: bytes | None, high: bytes | None) -> None:
        keys = node.keys
        in_order = all(map(lt, keys, islice(keys, 1, None)))
        self._expect(in_order, node.n, "the keys are not in order")
        if keys:
            within = (low is None or low <= keys[0]) and (high is None or keys[-1] < high)
            self._expect(within, node.n, "keys are outside their fences")

    def _mark_visited(self, n: int) -> None:
        is_number = NUMBER_FIRST <= n < self._tiers.root.number_next
        self._expect(is_number, n, "a page has a number that was not allocated")
        self._expect(n not in self._visited, n, "a page is in two places")
        self._visited.add(n)

    def _expect(self, holds: bool, n: int, reason: str) -> None:  # noqa: FBT001 - as in assert
        if not holds:
            raise Corrupt(reason, path=self._tiers.where(n))
