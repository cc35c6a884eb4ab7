"""Whether a map fits together: every page read, every number compared.

Looked for, beyond what decoding finds by itself: keys outside the fences that the branches set for
them, empty leaves, pages in two places, counts that are not those of the root page, pieces that are
missing, and pages that nothing points to.

Memory is bounded: a bit for each page number, and the branches of one path.
"""

from __future__ import annotations

from itertools import islice
from operator import lt

from pyroaring import BitMap

from strandline.errors import Corrupt
from strandline.reservoir.btree.branch import CHILDREN_MIN, Branch
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.node_store import Tiers
from strandline.reservoir.btree.overflow import NUMBER_FIRST, PIECE_BYTES, Large
from strandline.reservoir.btree.root import ROOT_NUMBER


def check(tiers: Tiers) -> None:
    """Raise Corrupt for the first thing that does not fit."""
    tiers.measure()
    found = _Walk(tiers)
    root = tiers.root
    found.visit(root.top, root.height - 1, None, None)
    found.compare_counts()
    found.look_for_others()


class _Walk:
    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._seen = BitMap()
        self._entries = 0
        self._leaves = 0
        self._branches = 0
        self._pieces = 0
        self._leaf_bytes = 0

    def visit(self, n: int, level: int, low: bytes | None, high: bytes | None) -> None:
        """A page and those below it; its keys are from ``low`` on and before ``high``."""
        tiers = self._tiers
        tiers.shrink()
        self._see(n)
        if not level:
            self._visit_leaf(tiers.leaf(n), low, high)
            return
        branch = tiers.branch(n, level)
        self._check_keys(branch, low, high)
        self._expect(len(branch.children) == len(branch.keys) + 1, n, "children do not fit")
        self._expect(len(branch.children) >= CHILDREN_MIN, n, "a branch has too few children")
        self._branches += 1
        fences = [low, *branch.keys, high]
        for at, child in enumerate(branch.children):
            self.visit(child, level - 1, fences[at], fences[at + 1])

    def compare_counts(self) -> None:
        root = self._tiers.root
        for name, counted, kept in (
            ("entries", self._entries, root.entries),
            ("leaves", self._leaves, root.leaves),
            ("branches", self._branches, root.branches),
            ("pieces", self._pieces, root.pieces),
            ("bytes of leaves", self._leaf_bytes, root.leaf_bytes),
        ):
            reason = f"there are {counted} {name}, and the root page says {kept}"
            self._expect(counted == kept, ROOT_NUMBER, reason)

    def look_for_others(self) -> None:
        """Pages that are there and should not be."""
        tiers = self._tiers
        root = tiers.root
        free = BitMap(root.free)
        self._expect(len(free) == len(root.free), ROOT_NUMBER, "a page is free twice")
        both = free & self._seen
        self._expect(not both, ROOT_NUMBER, f"pages {list(both[:5])} are in use and free")
        held = BitMap([*tiers.leaves, *tiers.branches, *tiers.pieces, *tiers.spilled])
        self._expect(held <= self._seen, ROOT_NUMBER, "memory has pages that nothing points to")
        rest = BitMap(range(NUMBER_FIRST, root.number_next))
        rest -= self._seen
        rest -= BitMap(tiers.freed)
        for n in rest:
            data = tiers.pages.read(tiers.page_id(n))
            self._expect(data is None, n, "nothing points to the page")

    def _visit_leaf(self, leaf: Leaf, low: bytes | None, high: bytes | None) -> None:
        self._check_keys(leaf, low, high)
        is_only = leaf.n == self._tiers.root.top
        self._expect(bool(leaf.keys) or is_only, leaf.n, "an empty leaf")
        self._expect(len(leaf.keys) == len(leaf.values), leaf.n, "values do not fit")
        self._entries += len(leaf.keys)
        self._leaves += 1
        self._leaf_bytes += leaf.size
        for value in leaf.values:
            if type(value) is Large:
                self._visit_pieces(value)

    def _visit_pieces(self, large: Large) -> None:
        rest = large.size
        for n in large.pieces:
            self._see(n)
            self._tiers.piece(n, min(rest, PIECE_BYTES))
            rest -= PIECE_BYTES
            self._pieces += 1

    def _check_keys(self, node: Leaf | Branch, low: bytes | None, high: bytes | None) -> None:
        keys = node.keys
        in_order = all(map(lt, keys, islice(keys, 1, None)))
        self._expect(in_order, node.n, "the keys are not in order")
        if keys:
            within = (low is None or low <= keys[0]) and (high is None or keys[-1] < high)
            self._expect(within, node.n, "keys are outside their fences")

    def _see(self, n: int) -> None:
        is_number = NUMBER_FIRST <= n < self._tiers.root.number_next
        self._expect(is_number, n, "a page has a number that was not given out")
        self._expect(n not in self._seen, n, "a page is in two places")
        self._seen.add(n)

    def _expect(self, holds: bool, n: int, reason: str) -> None:  # noqa: FBT001 - as in assert
        if not holds:
            raise Corrupt(reason, path=self._tiers.where(n))
