"""Node store of a map: its pages in memory, then in the spill, then in the session.

    memory    decoded leaves and branches, and pieces not saved yet; at most ``ram_max`` bytes,
              and what one operation adds
    spill     dirty pages that did not fit into memory; without a spill, or when it is full, they
              go to the session: there the last write wins, and it is invisible before commit
    session   all other pages

The least recently used page is evicted from memory, by second chance: a page that was used since
the last check is passed over once, and loading a page does not count as a use. Pieces are evicted
before leaves, and leaves before branches until branches take half of the memory.

A page is in one of these states:

    clean     the session has its current content
    spilled   the spill has its current content, the session does not; it may be in memory as well
    dirty     only memory has its current content

``shrink`` is called between operations, never inside one: an operation that holds a page can change
it, and it is still the page that others find. It is called before an operation, so that one that
cannot free memory fails without having changed anything.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from strandline.errors import Corrupt, TooLarge
from strandline.platform.disk import Buffer
from strandline.reservoir.btree import branch as branches
from strandline.reservoir.btree import leaf as leaves
from strandline.reservoir.btree import root as roots
from strandline.reservoir.btree.branch import Branch
from strandline.reservoir.btree.leaf import Leaf
from strandline.reservoir.btree.overflow import (
    NUMBER_NEXT_MAX,
    ValuePiece,
    decode_piece,
    encode_piece,
)
from strandline.reservoir.btree.root import FREE_MAX, ROOT_NUMBER, TreeRoot
from strandline.reservoir.btree.spill import Spill

Node = Leaf | Branch | ValuePiece

_NUMBERS_SPARE = 1 << 20  # more than one operation takes


class PageStore(Protocol):
    """Pages of bytes by number, from 1 to 2^63 - 1: the interface of a reservoir session."""

    def read(self, page_id: int) -> bytes | None:
        """The page, None when it does not exist. Own writes are visible at once."""
        ...

    def write(self, page_id: int, data: Buffer) -> None:
        """Write a page, replacing an existing one."""
        ...

    def delete(self, page_id: int) -> None:
        """Delete a page; a no-op if it does not exist."""
        ...

    def commit(self) -> None:
        """Make writes and deletes visible to every session."""
        ...


class NodeStore:
    """The pages of one map. Owned by one thread."""

    def __init__(self, pages: PageStore, space: int, ram_max: int, spill: Spill | None) -> None:
        self.pages = pages
        self.ram_max = ram_max
        self.ram = 0
        self.leaves: OrderedDict[int, Leaf] = OrderedDict()
        self.branches: OrderedDict[int, Branch] = OrderedDict()
        self.pieces: OrderedDict[int, ValuePiece] = OrderedDict()
        self.dirty: dict[int, Node] = {}
        self.spilled: set[int] = set()
        self.freed: set[int] = set()
        """Free numbers whose pages may still exist in the session."""
        self.unsaved = False
        self._branch_ram = 0
        self._space = space
        self._spill = spill
        data = pages.read(self.page_id(ROOT_NUMBER))
        if data is not None:
            self.root = roots.decode(data, self.where(ROOT_NUMBER))
            return
        self.root = TreeRoot()
        first = Leaf(self.allocate(), [], [], leaves.HEAD_BYTES)
        self.root.top = first.n
        self.add(first)

    def page_id(self, n: int) -> int:
        return self._space << 32 | n

    def where(self, n: int) -> str:
        return f"page {self.page_id(n)} of the map in space {self._space}"

    def leaf(self, n: int) -> Leaf:
        found = self.leaves.get(n)
        if found is not None:
            found.used = True
            return found
        loaded = leaves.decode(n, self._stored(n), self.where(n))
        self.leaves[n] = loaded
        self.ram += loaded.ram()
        return loaded

    def branch(self, n: int, level: int) -> Branch:
        """A branch, whose level must match the path to it."""
        found = self.branches.get(n)
        if found is None:
            found = branches.decode(n, self._stored(n), self.where(n))
            self.branches[n] = found
            self._count_ram(found, 1)
        if found.level != level:
            raise Corrupt(f"a page of level {found.level} is at {level}", path=self.where(n))
        found.used = True
        return found

    def piece(self, n: int, size: int) -> Buffer:
        """The bytes of a piece. They are not cached: one large value would evict many leaves."""
        found = self.pieces.get(n)
        if found is None:
            return decode_piece(self._stored(n), size, self.where(n))
        if len(found.data) != size:
            raise Corrupt("a piece belongs to two large values", path=self.where(n))
        return found.data

    def allocate(self) -> int:
        """A page number that is not in use."""
        if self.root.free:
            n = self.root.free.pop()
            self.freed.discard(n)
            return n
        n = self.root.number_next
        self.root.number_next += 1
        return n

    def check_numbers(self) -> None:
        """Raise before an operation if the page numbers could run out during it."""
        if self.root.number_next > NUMBER_NEXT_MAX - _NUMBERS_SPARE and not self.root.free:
            raise TooLarge("the map has used up its page numbers: copy it into another space")

    def add(self, node: Node) -> None:
        """Add a new page, with a number from ``allocate``."""
        if isinstance(node, Leaf):
            self.leaves[node.n] = node
            self.root.leaves += 1
        elif isinstance(node, Branch):
            self.branches[node.n] = node
            self.root.branches += 1
        else:
            self.pieces[node.n] = node
            self.root.pieces += 1
        self.mark_dirty(node)
        self.end_resize(node)

    def remove(self, node: Leaf | Branch) -> None:
        """Remove a page without references."""
        self.begin_resize(node)
        if isinstance(node, Leaf):
            del self.leaves[node.n]
            self.root.leaves -= 1
        else:
            del self.branches[node.n]
            self.root.branches -= 1
        self._free(node.n)

    def remove_piece(self, n: int) -> None:
        self.root.pieces -= 1
        piece = self.pieces.pop(n, None)
        if piece is not None:
            self._count_ram(piece, -1)
        self._free(n)

    def begin_resize(self, node: Node) -> None:
        """Call before a page changes its size."""
        self.mark_dirty(node)
        self._count_ram(node, -1)
        if isinstance(node, Leaf):
            self.root.leaf_bytes -= node.size

    def end_resize(self, node: Node) -> None:
        """Call after a page has changed its size."""
        self._count_ram(node, 1)
        if isinstance(node, Leaf):
            self.root.leaf_bytes += node.size

    def mark_dirty(self, node: Node) -> None:
        """Mark a page dirty, before it changes."""
        self.unsaved = True
        if not node.dirty:
            node.dirty = True
            self.dirty[node.n] = node
            self._unspill(node.n)

    def shrink(self) -> None:
        """Evict pages until memory is below ``ram_max``. A page that cannot be written stays."""
        while self.ram > self.ram_max:
            pool = self._eviction_pool()
            n = next(iter(pool))
            node = pool[n]
            if node.used:
                node.used = False
                pool.move_to_end(n)
                continue
            if node.dirty:
                self._write_out(node)
            del pool[n]
            self._count_ram(node, -1)

    def save(self) -> None:
        """Write all changed pages to the session. Written pages are not written again, so a
        repetition after a failure continues with the rest."""
        for n in sorted(self.dirty):
            node = self.dirty[n]
            self.pages.write(self.page_id(n), self._encode(node))
            self._clean(node)
        for n in sorted(self.spilled):
            self.pages.write(self.page_id(n), self._stored(n))
            self._unspill(n)
        for n in sorted(self.freed):
            self.pages.delete(self.page_id(n))
            self.freed.discard(n)
        if self.unsaved:
            self.pages.write(self.page_id(ROOT_NUMBER), roots.encode(self.root))
            self.unsaved = False

    def update_sizes(self) -> None:
        """Set the exact size of every dirty page."""
        for node in self.dirty.values():
            self._encode(node)

    def spilled_bytes(self) -> int:
        return self._spill.stored_bytes if self._spill is not None else 0

    def _stored(self, n: int) -> bytes:
        page_id = self.page_id(n)
        if n in self.spilled:
            assert self._spill is not None, "only a spill has spilled pages"
            data = self._spill.get(page_id)
        else:
            data = self.pages.read(page_id)
        if data is None:
            raise Corrupt("the page is missing", path=self.where(n))
        return data

    def _eviction_pool(
        self,
    ) -> OrderedDict[int, Leaf] | OrderedDict[int, Branch] | OrderedDict[int, ValuePiece]:
        """The pages from which the next one is evicted."""
        rest = self.pieces or self.leaves
        return self.branches if self._branch_ram * 2 > self.ram_max or not rest else rest

    def _count_ram(self, node: Node, sign: int) -> None:
        ram = sign * node.ram()
        self.ram += ram
        if isinstance(node, Branch):
            self._branch_ram += ram

    def _write_out(self, node: Node) -> None:
        data = self._encode(node)
        if self._spill is not None and self._spill.put(self.page_id(node.n), data):
            self.spilled.add(node.n)
        else:
            self.pages.write(self.page_id(node.n), data)
        self._clean(node)

    def _encode(self, node: Node) -> bytes:
        """Encode a page, and set its exact size."""
        if isinstance(node, ValuePiece):
            return encode_piece(node)
        data = branches.encode(node) if isinstance(node, Branch) else leaves.encode(node)
        if node.size != len(data):
            self.begin_resize(node)
            node.size = len(data)
            self.end_resize(node)
        return data

    def _clean(self, node: Node) -> None:
        node.dirty = False
        self.dirty.pop(node.n, None)

    def _free(self, n: int) -> None:
        self.unsaved = True
        self.dirty.pop(n, None)
        self._unspill(n)
        self.freed.add(n)
        if len(self.root.free) < FREE_MAX:
            self.root.free.append(n)
        else:
            self.root.forgotten += 1

    def _unspill(self, n: int) -> None:
        if n in self.spilled:
            self.spilled.discard(n)
            assert self._spill is not None, "only a spill has spilled pages"
            self._spill.drop(self.page_id(n))
