"""The B+tree of a map: finds leaves, and balances pages after changes.

    height 1    one leaf, the only one that may be empty
    height h    a branch of level h - 1, branches below it, leaves at level 0

Invariants, between operations: every leaf is at level 0; a branch has at least two children; no
leaf is empty except the only one; keys are within the fences of the branches above them.

A page over ``page_bytes`` is split, if it has enough items. A page under a quarter of that is
merged with a neighbor if both together have at most three quarters, otherwise they share evenly.
The distance between the limits prevents repeated splits and merges. Keys may be longer than a small
``page_bytes``: then pages are larger than that.

``prepare_loss`` reads the neighbors that a loss may need. Every step that can fail thus comes
before the first change, and an operation that raises has changed nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from strandline.reservoir.btree import branch as branches
from strandline.reservoir.btree import leaf as leaves
from strandline.reservoir.btree.branch import CHILD_BYTES, CHILDREN_MIN, Branch
from strandline.reservoir.btree.leaf import ENTRY_BYTES, KEY_BYTES_MAX, Leaf
from strandline.reservoir.btree.node_store import NodeStore
from strandline.reservoir.btree.split_points import (
    even_parts,
    full_parts,
    full_parts_backwards,
    separator,
)


class InsertOrder(Enum):
    """The order in which new keys were inserted into a page."""

    ANY = 0
    ASCENDING = 1
    DESCENDING = 2


_CUTS: dict[InsertOrder, Callable[[list[int], int, int], list[int]]] = {
    InsertOrder.ANY: even_parts,
    InsertOrder.ASCENDING: full_parts,
    InsertOrder.DESCENDING: full_parts_backwards,
}


class _Step(NamedTuple):
    branch: Branch
    at: int


class Tree:
    """Finds leaves, and balances the tree after they have changed. Owned by one thread."""

    def __init__(self, store: NodeStore, page_bytes: int) -> None:
        self._store = store
        self._root = store.root
        self._page_bytes = page_bytes
        self.small = page_bytes // 4
        self._merged_max = page_bytes * 3 // 4
        self._leaves = store.leaves
        self._branches = store.branches

    def leaf(self, key: bytes) -> Leaf:
        """The leaf that contains the key, or would contain it."""
        branches_by_number = self._branches
        n = self._root.top
        level = self._root.height - 1
        while level:
            branch = branches_by_number.get(n)
            if branch is None:
                branch = self._store.branch(n, level)
            branch.used = True
            n = branch.children[bisect_right(branch.keys, key)]
            level -= 1
        leaf = self._leaves.get(n)
        if leaf is None:
            return self._store.leaf(n)
        leaf.used = True
        return leaf

    def leaf_from(self, key: bytes) -> tuple[Leaf, bytes | None]:
        """The leaf of a key, and the key from which on entries are in the leaves after it."""
        fence = None
        n = self._root.top
        for level in range(self._root.height - 1, 0, -1):
            branch = self._store.branch(n, level)
            at = bisect_right(branch.keys, key)
            if at < len(branch.keys):
                fence = branch.keys[at]
            n = branch.children[at]
        return self._store.leaf(n), fence

    def leaf_before(self, bound: bytes | None) -> tuple[Leaf, bytes | None]:
        """The leaf of the last key before the bound, and the key before which entries are in the
        leaves before it."""
        fence = None
        n = self._root.top
        for level in range(self._root.height - 1, 0, -1):
            branch = self._store.branch(n, level)
            at = len(branch.keys) if bound is None else bisect_left(branch.keys, bound)
            if at:
                fence = branch.keys[at - 1]
            n = branch.children[at]
        return self._store.leaf(n), fence

    def prepare_loss(self, key: bytes) -> None:
        """Read the pages that ``balance`` needs if the leaf of this key becomes small."""
        path, _ = self._path(key)
        for level, (branch, at) in enumerate(reversed(path)):
            self._node(branch.children[_neighbor(at)], level)
            may_be_small = branch.size - KEY_BYTES_MAX - CHILD_BYTES < self.small
            if not may_be_small and len(branch.children) > CHILDREN_MIN:
                return

    def balance(self, key: bytes, order: InsertOrder) -> None:
        """Balance the tree from the leaf of this key upwards, after it has changed."""
        path, leaf = self._path(key)
        node: Leaf | Branch = leaf
        has_split = False
        while True:
            if node.size > self._page_bytes:
                order = self._split(path, node, order)
                has_split = True
            elif not has_split and self._is_small(node):  # a small page that grows is not merged
                self._merge_small(path, node)
            else:
                return
            if not path:
                return
            node = path.pop().branch

    def _path(self, key: bytes) -> tuple[list[_Step], Leaf]:
        path = []
        n = self._root.top
        for level in range(self._root.height - 1, 0, -1):
            branch = self._store.branch(n, level)
            at = bisect_right(branch.keys, key)
            path.append(_Step(branch, at))
            n = branch.children[at]
        return path, self._store.leaf(n)

    def _node(self, n: int, level: int) -> Leaf | Branch:
        return self._store.branch(n, level) if level else self._store.leaf(n)

    def _is_small(self, node: Leaf | Branch) -> bool:
        if isinstance(node, Branch) and len(node.children) < CHILDREN_MIN:
            return True
        return node.size < self.small

    def _split(self, path: list[_Step], node: Leaf | Branch, order: InsertOrder) -> InsertOrder:
        """Split a page and update its parent; return the order of the parent's new children."""
        if isinstance(node, Leaf):
            keys, numbers = self._split_leaf(node, order)
        else:
            keys, numbers = self._split_branch(node, order)
        if not numbers:
            return order
        store = self._store
        if not path:
            children = [node.n, *numbers]
            size = branches.size_of(keys)
            top = Branch(store.allocate(), node.level + 1, keys, children, size)
            store.add(top)
            self._root.top = top.n
            self._root.height += 1
            path.append(_Step(top, 0))  # it has many children after many inserts at once
            return order
        parent, at = path[-1]
        was_last = at == len(parent.keys)
        store.begin_resize(parent)
        parent.keys[at:at] = keys
        parent.children[at + 1 : at + 1] = numbers
        parent.size += sum(map(len, keys)) + CHILD_BYTES * len(numbers)
        store.end_resize(parent)
        if was_last:
            return InsertOrder.ASCENDING
        return (
            InsertOrder.DESCENDING
            if at == 0 and order is InsertOrder.DESCENDING
            else InsertOrder.ANY
        )

    def _split_leaf(self, leaf: Leaf, order: InsertOrder) -> tuple[list[bytes], list[int]]:
        keys, values = leaf.keys, leaf.values
        if len(keys) < 2:
            return [], []
        ends = list(
            accumulate(len(k) + len(v) + ENTRY_BYTES for k, v in zip(keys, values, strict=True))
        )
        cuts = _CUTS[order](ends, self._page_bytes - leaves.HEAD_BYTES, 1)
        if not cuts:
            return [], []
        store = self._store
        separators, numbers = [], []
        for first, following in zip(cuts, [*cuts[1:], len(keys)], strict=True):
            size = leaves.HEAD_BYTES + ends[following - 1] - ends[first - 1]
            part = Leaf(store.allocate(), keys[first:following], values[first:following], size)
            store.add(part)
            separators.append(separator(keys[first - 1], keys[first]))
            numbers.append(part.n)
        store.begin_resize(leaf)
        del keys[cuts[0] :], values[cuts[0] :]
        leaf.size = leaves.HEAD_BYTES + ends[cuts[0] - 1]
        store.end_resize(leaf)
        return separators, numbers

    def _split_branch(self, branch: Branch, order: InsertOrder) -> tuple[list[bytes], list[int]]:
        keys, children = branch.keys, branch.children
        if len(children) < 2 * CHILDREN_MIN:
            return [], []
        ends = list(accumulate(len(key) + CHILD_BYTES for key in [b"", *keys]))
        cuts = _CUTS[order](ends, self._page_bytes - branches.HEAD_BYTES, CHILDREN_MIN)
        if not cuts:
            return [], []
        store = self._store
        numbers = []
        for first, following in zip(cuts, [*cuts[1:], len(children)], strict=True):
            inner = keys[first : following - 1]
            part = Branch(
                store.allocate(),
                branch.level,
                inner,
                children[first:following],
                branches.size_of(inner),
            )
            store.add(part)
            numbers.append(part.n)
        separators = [keys[cut - 1] for cut in cuts]
        store.begin_resize(branch)
        del keys[cuts[0] - 1 :], children[cuts[0] :]
        branch.size = branches.size_of(keys)
        store.end_resize(branch)
        return separators, numbers

    def _merge_small(self, path: list[_Step], node: Leaf | Branch) -> None:
        """Merge a small page with its neighbor, or share with it; at the top, remove a level."""
        if not path:
            if isinstance(node, Branch) and len(node.children) == 1:
                self._root.top = node.children[0]
                self._root.height -= 1
                self._store.remove(node)
            return
        parent, at = path[-1]
        store = self._store
        if isinstance(node, Leaf) and not node.keys:
            store.remove(node)
            self._remove_child(parent, at, max(at - 1, 0))
            return
        index = min(at, _neighbor(at))
        left = self._node(parent.children[index], node.level)
        right = self._node(parent.children[index + 1], node.level)
        store.begin_resize(left)
        store.begin_resize(right)
        merged = self._redistribute(parent, index, left, right)
        store.end_resize(left)
        store.end_resize(right)
        if merged:
            store.remove(right)
            self._remove_child(parent, index + 1, index)

    def _redistribute(
        self, parent: Branch, index: int, left: Leaf | Branch, right: Leaf | Branch
    ) -> bool:
        """Move all items to the left, or half to each; return whether all were moved."""
        if isinstance(left, Leaf) and isinstance(right, Leaf):
            return self._redistribute_entries(parent, index, left, right)
        assert isinstance(left, Branch), "neighbors have the same level"
        assert isinstance(right, Branch), "neighbors have the same level"
        return self._redistribute_children(parent, index, left, right)

    def _redistribute_entries(self, parent: Branch, index: int, left: Leaf, right: Leaf) -> bool:
        keys, values = left.keys + right.keys, left.values + right.values
        size = left.size + right.size - leaves.HEAD_BYTES
        if size <= self._merged_max:
            left.keys, left.values, left.size = keys, values, size
            right.keys, right.values, right.size = [], [], leaves.HEAD_BYTES
            return True
        ends = list(
            accumulate(len(k) + len(v) + ENTRY_BYTES for k, v in zip(keys, values, strict=True))
        )
        cut = even_parts(ends, ends[-1], 1)[0]
        left.keys, left.values = keys[:cut], values[:cut]
        right.keys, right.values = keys[cut:], values[cut:]
        left.size = leaves.size_of(left.keys, left.values)
        right.size = leaves.size_of(right.keys, right.values)
        self._replace_key(parent, index, separator(keys[cut - 1], keys[cut]))
        return False

    def _redistribute_children(
        self, parent: Branch, index: int, left: Branch, right: Branch
    ) -> bool:
        keys = [*left.keys, parent.keys[index], *right.keys]
        children = left.children + right.children
        if branches.size_of(keys) <= self._merged_max or len(children) < 2 * CHILDREN_MIN:
            left.keys, left.children, left.size = keys, children, branches.size_of(keys)
            right.keys, right.children, right.size = [], [], branches.HEAD_BYTES
            return True
        ends = list(accumulate(len(key) + CHILD_BYTES for key in [b"", *keys]))
        cut = even_parts(ends, ends[-1], CHILDREN_MIN)[0]
        left.keys, left.children = keys[: cut - 1], children[:cut]
        right.keys, right.children = keys[cut:], children[cut:]
        left.size = branches.size_of(left.keys)
        right.size = branches.size_of(right.keys)
        self._replace_key(parent, index, keys[cut - 1])
        return False

    def _replace_key(self, parent: Branch, index: int, key: bytes) -> None:
        self._store.begin_resize(parent)
        parent.size += len(key) - len(parent.keys[index])
        parent.keys[index] = key
        self._store.end_resize(parent)

    def _remove_child(self, parent: Branch, child: int, key: int) -> None:
        self._store.begin_resize(parent)
        parent.size -= CHILD_BYTES + len(parent.keys[key])
        del parent.children[child]
        del parent.keys[key]
        self._store.end_resize(parent)


def _neighbor(at: int) -> int:
    return at - 1 if at else 1
