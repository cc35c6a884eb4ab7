"""An ordered map, bytes -> bytes, on pages: larger than memory, saved by what has changed.

    map = PagedMap(session, space=1)
    map.put(b"key", b"value")
    version = map.checkpoint(reservoir)

A map lives in one space of a session's pages: page ``space << 32 | n``. Number 1 is its root page
(root.py), the others are leaves (leaf.py), branches (branch.py) and pieces of large values
(overflow.py), linked as a B+tree (tree.py). Opening reads the root page and nothing else;
other pages come when they are needed, and go when memory is short (node_store.py).

What holds:

- An operation that raises has changed nothing, but for ``put_many``: what it had put stays.
- Without ``save`` nothing of what was done can be relied on. With it, and commit and checkpoint, a
  crash leaves the map exactly as it was saved.
- ``save`` can be repeated after a failure, and writes only what it had not written.
- Commit through ``checkpoint``, or right after ``save``: a map without a spill may hand pages to
  the session at any time, and they fit together only after ``save``. Maps that share a session are
  all saved before it is committed.
- An iterator sees what is put and deleted between its steps, as far as it lies behind the key it
  gave last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from strandline.errors import Invalid, TooLarge
from strandline.platform.disk import Buffer
from strandline.reservoir.btree.batch import merge
from strandline.reservoir.btree.leaf import ENTRY_BYTES, ENTRY_RAM, KEY_BYTES_MAX, Leaf, Stored
from strandline.reservoir.btree.node_store import Pages, Tiers
from strandline.reservoir.btree.overflow import PIECE_BYTES, VALUE_BYTES_MAX, Large, Piece, cut
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.btree.tree import Order, Tree
from strandline.reservoir.btree.verify import check

__all__ = ["Checkpoints", "PagedMap", "Pages", "Statistics"]

PAGE_BYTES = 32 * 1024
PAGE_BYTES_MIN = 128
PAGE_BYTES_MAX = 256 * 1024
RAM_BYTES = 64 * 1024 * 1024
SPACE_NEXT = 1 << 31

_BATCH_ENTRIES_MAX = 50_000
_BATCH_BYTES_MAX = 8 * 1024 * 1024

Pair = tuple[bytes, bytes]


class Checkpoints(Protocol):
    """What makes committed pages durable: a reservoir."""

    def checkpoint(self, meta: bytes = b"") -> int:
        """Returns the version."""
        ...


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """A map in numbers."""

    entries: int
    leaves: int
    branches: int
    pieces: int
    height: int
    fill: float
    """Bytes of all leaves, as a part of what as many full pages have."""
    ram_bytes: int
    spilled_bytes: int
    unsaved_pages: int


class PagedMap:
    """An ordered map on pages. Owned by one thread."""

    def __init__(
        self,
        pages: Pages,
        *,
        space: int = 0,
        page_bytes: int = PAGE_BYTES,
        ram_bytes: int = RAM_BYTES,
        spill: Spill | None = None,
    ) -> None:
        if not 0 <= space < SPACE_NEXT:
            raise Invalid(f"space {space} cannot be: it is at least 0 and less than 2^31")
        if not PAGE_BYTES_MIN <= page_bytes <= PAGE_BYTES_MAX:
            raise Invalid(f"pages of {page_bytes} bytes: from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}")
        if ram_bytes < 0:
            raise Invalid(f"{ram_bytes} bytes of memory cannot be")
        self._pages = pages
        self._page_bytes = page_bytes
        self._inline_max = page_bytes // 4
        self._tiers = Tiers(pages, space, ram_bytes, spill)
        self._root = self._tiers.root
        self._tree = Tree(self._tiers, page_bytes)
        self._changes = 0

    def __len__(self) -> int:
        return self._root.entries

    def __contains__(self, key: Buffer) -> bool:
        return self._find(key) is not None

    def get(self, key: Buffer) -> bytes | None:
        """The value, None when there is none."""
        found = self._find(key)
        return self._whole(found) if type(found) is Large else found

    def get_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys, in the order of the keys: every leaf is searched for once."""
        wanted = [key if type(key) is bytes else _plain(key) for key in keys]
        found: list[bytes | None] = [None] * len(wanted)
        order = sorted(range(len(wanted)), key=wanted.__getitem__)
        tiers = self._tiers
        known: list[bytes] = []
        values: list[Stored] = []
        fence: bytes | None = b""
        for place in order:
            key = wanted[place]
            if fence is not None and key >= fence:
                if tiers.ram > tiers.ram_max:
                    tiers.shrink()
                leaf, fence = self._tree.leaf_from(key)
                known, values = leaf.keys, leaf.values
            at = bisect_left(known, key)
            if at < len(known) and known[at] == key:
                value = values[at]
                found[place] = self._whole(value) if type(value) is Large else value
        return found

    def put(self, key: Buffer, value: Buffer) -> None:
        """Give the key this value, whatever it had before."""
        if type(key) is not bytes:
            key = _plain(key)
        if type(value) is not bytes:
            value = _plain(value)
        if len(key) > KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
            raise _too_large(key, value)
        tiers = self._tiers
        if tiers.ram > tiers.ram_max:
            tiers.shrink()
        leaf = self._tree.leaf(key)
        keys = leaf.keys
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            self._replace(leaf, at, value)
        elif len(value) <= self._inline_max:
            self._insert(leaf, at, key, value)
        else:
            tiers.check_numbers()
            self._insert(leaf, at, key, self._in_pieces(value))

    def put_many(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
        """Put many, of which the last of a key counts. Sorted or not; sorted is quicker."""
        batch: dict[bytes, bytes] = {}
        size = 0
        for given_key, given_value in pairs:
            key = given_key if type(given_key) is bytes else _plain(given_key)
            value = given_value if type(given_value) is bytes else _plain(given_value)
            if len(key) > KEY_BYTES_MAX or len(value) > self._inline_max:
                self.put(key, value)  # which may refuse: then the batch is as it was
                batch.pop(key, None)
                continue
            batch[key] = value
            size += len(key) + len(value)
            if len(batch) >= _BATCH_ENTRIES_MAX or size >= _BATCH_BYTES_MAX:
                self._put_batch(batch)
                batch, size = {}, 0
        self._put_batch(batch)

    def delete(self, key: Buffer) -> bool:
        """Remove the key; whether it was there."""
        if type(key) is not bytes:
            key = _plain(key)
        tiers = self._tiers
        if tiers.ram > tiers.ram_max:
            tiers.shrink()
        leaf = self._tree.leaf(key)
        at = bisect_left(leaf.keys, key)
        if at == len(leaf.keys) or leaf.keys[at] != key:
            return False
        old = leaf.values[at]
        size = leaf.size - len(key) - len(old) - ENTRY_BYTES
        small = size < self._tree.small
        if small:
            self._tree.prepare_loss(key)
        tiers.begin(leaf)
        del leaf.keys[at], leaf.values[at]
        leaf.size = size
        tiers.end(leaf)
        self._root.entries -= 1
        self._changes += 1
        self._forget(old)
        if small:
            self._tree.balance(key, Order.ANY)
        return True

    def first_key(self) -> bytes | None:
        """The smallest key, None when the map is empty."""
        for key, _ in self._ascending(b"", None):
            return key
        return None

    def last_key(self) -> bytes | None:
        """The largest key, None when the map is empty."""
        for key, _ in self._descending(None, None):
            return key
        return None

    def range(
        self, first: Buffer | None = None, next: Buffer | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries from ``first`` on and before ``next``, in order or in reverse order of keys."""
        low = None if first is None else _plain(first)
        high = None if next is None else _plain(next)
        return self._descending(low, high) if reverse else self._ascending(low or b"", high)

    def prefix(self, prefix: Buffer, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose keys begin so."""
        first = _plain(prefix)
        return self.range(first, _behind(first), reverse=reverse)

    def save(self) -> None:
        """Hand all that has changed to the session. It is visible after commit."""
        self._tiers.save()

    def checkpoint(self, reservoir: Checkpoints, meta: bytes = b"") -> int:
        """Save, commit and make it durable; returns the version."""
        self.save()
        self._pages.commit()
        return reservoir.checkpoint(meta)

    def check(self) -> None:
        """Read every page, and raise Corrupt when anything does not fit together."""
        check(self._tiers)

    def statistics(self) -> Statistics:
        root, tiers = self._root, self._tiers
        return Statistics(
            entries=root.entries,
            leaves=root.leaves,
            branches=root.branches,
            pieces=root.pieces,
            height=root.height,
            fill=root.leaf_bytes / (root.leaves * self._page_bytes),
            ram_bytes=tiers.ram,
            spilled_bytes=tiers.spilled_bytes(),
            unsaved_pages=len(tiers.dirty) + len(tiers.spilled),
        )

    def _find(self, key: Buffer) -> Stored | None:
        if type(key) is not bytes:
            key = _plain(key)
        tiers = self._tiers
        if tiers.ram > tiers.ram_max:
            tiers.shrink()
        leaf = self._tree.leaf(key)
        keys = leaf.keys
        at = bisect_left(keys, key)
        return leaf.values[at] if at < len(keys) and keys[at] == key else None

    def _insert(self, leaf: Leaf, at: int, key: bytes, value: Stored) -> None:
        tiers, root = self._tiers, self._root
        if not leaf.dirty:
            tiers.mark(leaf)
        leaf.keys.insert(at, key)
        leaf.values.insert(at, value)
        # As begin and end of the tiers do, in the one place where their time counts.
        grown = len(key) + len(value) + ENTRY_BYTES
        leaf.size += grown
        tiers.ram += grown + ENTRY_RAM
        root.leaf_bytes += grown
        root.entries += 1
        self._changes += 1
        if leaf.size > self._page_bytes:
            self._grown(leaf, at, key)

    def _grown(self, leaf: Leaf, at: int, key: bytes) -> None:
        if at == len(leaf.keys) - 1:
            order = Order.ASCENDING
        else:
            order = Order.ANY if at else Order.DESCENDING
        self._tree.balance(key, order)

    def _replace(self, leaf: Leaf, at: int, value: bytes) -> None:
        key, old = leaf.keys[at], leaf.values[at]
        small = leaf.size - len(old) + len(value) < self._tree.small
        if small:
            self._tree.prepare_loss(key)
        stored: Stored = value
        if len(value) > self._inline_max:
            self._tiers.check_numbers()
            stored = self._in_pieces(value)
        self._tiers.begin(leaf)
        leaf.values[at] = stored
        leaf.size += len(stored) - len(old)
        self._tiers.end(leaf)
        self._changes += 1
        self._forget(old)
        if small or leaf.size > self._page_bytes:
            self._tree.balance(key, Order.ANY)

    def _in_pieces(self, value: bytes) -> Large:
        numbers = []
        for data in cut(value):
            piece = Piece(self._tiers.allocate(), data)
            self._tiers.add(piece)
            numbers.append(piece.n)
        return Large(len(value), tuple(numbers))

    def _whole(self, large: Large) -> bytes:
        rest = large.size
        parts = []
        for n in large.pieces:
            parts.append(self._tiers.piece(n, min(rest, PIECE_BYTES)))
            rest -= PIECE_BYTES
        return b"".join(parts)

    def _forget(self, old: Stored) -> None:
        if type(old) is Large:
            for n in old.pieces:
                self._tiers.remove_piece(n)

    def _put_batch(self, batch: dict[bytes, bytes]) -> None:
        """Inline values, sorted into the leaves, every leaf once."""
        keys = sorted(batch)
        tiers = self._tiers
        tiers.check_numbers()
        at = 0
        while at < len(keys):
            if tiers.ram > tiers.ram_max:
                tiers.shrink()
            leaf, fence = self._tree.leaf_from(keys[at])
            following = len(keys) if fence is None else bisect_left(keys, fence, at)
            self._put_run(leaf, keys[at:following], batch)
            at = following

    def _put_run(self, leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> None:
        """Keys of one leaf, in order."""
        merged = merge(leaf, run, batch)
        lost = merged.size < leaf.size and merged.size < self._tree.small
        if lost:
            self._tree.prepare_loss(run[0])
        tiers = self._tiers
        tiers.begin(leaf)
        self._root.entries += len(merged.keys) - len(leaf.keys)
        leaf.keys, leaf.values, leaf.size = merged.keys, merged.values, merged.size
        tiers.end(leaf)
        self._changes += 1
        for old in merged.replaced:
            self._forget(old)
        if lost or leaf.size > self._page_bytes:
            self._tree.balance(run[0], Order.ASCENDING if merged.appended else Order.ANY)

    def _ascending(self, first: bytes, next: bytes | None) -> Iterator[Pair]:
        position, behind = first, False
        while True:
            self._tiers.shrink()
            leaf, fence = self._tree.leaf_from(position)
            changes = self._changes
            keys, values = leaf.keys, leaf.values
            at = bisect_right(keys, position) if behind else bisect_left(keys, position)
            following = len(keys) if next is None else bisect_left(keys, next)
            while at < following:
                key, value = keys[at], values[at]
                yield key, self._whole(value) if type(value) is Large else value
                if self._changes != changes:
                    position, behind = key, True
                    break
                at += 1
            else:
                if fence is None or (next is not None and next <= fence):
                    return
                position, behind = fence, False

    def _descending(self, first: bytes | None, next: bytes | None) -> Iterator[Pair]:
        while True:
            self._tiers.shrink()
            leaf, fence = self._tree.leaf_before(next)
            changes = self._changes
            keys, values = leaf.keys, leaf.values
            at = len(keys) if next is None else bisect_left(keys, next)
            lowest = 0 if first is None else bisect_left(keys, first)
            while at > lowest:
                at -= 1
                key, value = keys[at], values[at]
                yield key, self._whole(value) if type(value) is Large else value
                if self._changes != changes:
                    next = key
                    break
            else:
                if fence is None or (first is not None and fence <= first):
                    return
                next = fence


def _plain(given: Buffer) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise Invalid(f"keys and values are bytes, not {type(given).__name__}")


def _behind(prefix: bytes) -> bytes | None:
    """The first key behind all that begin so, None when there is none."""
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes((rest[-1] + 1,)) if rest else None


def _too_large(key: bytes, value: bytes) -> TooLarge:
    if len(key) > KEY_BYTES_MAX:
        return TooLarge(f"a key of {len(key)} bytes: {KEY_BYTES_MAX} are allowed")
    return TooLarge(f"a value of {len(value)} bytes: {VALUE_BYTES_MAX} are allowed")
