"""An ordered map, bytes -> bytes, on pages: larger than memory; a save writes only changed pages.

    map = PagedMap(session, space=1)
    map.put(b"key", b"value")
    version = map.checkpoint(reservoir)

A map uses one space of a session's pages: page ``space << 32 | n``. Number 1 is its root page
(root.py), the others are leaves (leaf.py), branches (branch.py) and pieces of large values
(overflow.py), linked as a B+tree (tree.py). Opening only reads the root page; other pages are read
when they are needed, and evicted when memory is short (node_store.py).

Guarantees:

- An operation that raises has changed nothing, except ``put_many``: what it had put stays.
- Changes are durable only after ``save``, commit and checkpoint. Then a crash leaves the map
  exactly as it was saved.
- ``save`` can be repeated after a failure, and writes only what it had not written.
- Commit through ``checkpoint``, or right after ``save``: a map without a spill may write pages to
  the session at any time, and they are consistent only after ``save``. Maps that share a session
  are all saved before it is committed.
- An iterator sees puts and deletes between its steps, if their keys are after the last one that it
  returned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from strandline.errors import Invalid, TooLarge
from strandline.platform.disk import Buffer
from strandline.reservoir.btree.batch import merge_entries
from strandline.reservoir.btree.leaf import ENTRY_BYTES, ENTRY_RAM, KEY_BYTES_MAX, Leaf, Stored
from strandline.reservoir.btree.node_store import NodeStore, PageStore
from strandline.reservoir.btree.overflow import (
    PIECE_BYTES,
    VALUE_BYTES_MAX,
    LargeValue,
    ValuePiece,
    split_value,
)
from strandline.reservoir.btree.spill import Spill
from strandline.reservoir.btree.tree import InsertOrder, Tree
from strandline.reservoir.btree.verify import check

__all__ = ["Checkpointing", "MapStatistics", "PageStore", "PagedMap"]

PAGE_BYTES = 32 * 1024
PAGE_BYTES_MIN = 128
PAGE_BYTES_MAX = 256 * 1024
RAM_BYTES = 64 * 1024 * 1024
SPACE_NEXT = 1 << 31

_BATCH_ENTRIES_MAX = 50_000
_BATCH_BYTES_MAX = 8 * 1024 * 1024

Pair = tuple[bytes, bytes]


class Checkpointing(Protocol):
    """Makes committed pages durable: a reservoir."""

    def checkpoint(self, meta: bytes = b"") -> int:
        """Write a checkpoint; return its version."""
        ...


class MapStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and sizes of a map."""

    entries: int
    leaves: int
    branches: int
    pieces: int
    height: int
    fill: float
    """Bytes of all leaves, as a share of the bytes of as many full pages."""
    ram_bytes: int
    spilled_bytes: int
    unsaved_pages: int


class PagedMap:
    """An ordered map on pages. Owned by one thread."""

    def __init__(
        self,
        pages: PageStore,
        *,
        space: int = 0,
        page_bytes: int = PAGE_BYTES,
        ram_bytes: int = RAM_BYTES,
        spill: Spill | None = None,
    ) -> None:
        if not 0 <= space < SPACE_NEXT:
            raise Invalid(f"space is {space}: give at least 0 and less than 2^31")
        if not PAGE_BYTES_MIN <= page_bytes <= PAGE_BYTES_MAX:
            raise Invalid(f"page_bytes is {page_bytes}: give {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}")
        if ram_bytes < 0:
            raise Invalid(f"ram_bytes is {ram_bytes}: give at least 0")
        self._pages = pages
        self._page_bytes = page_bytes
        self._inline_max = page_bytes // 4
        self._store = NodeStore(pages, space, ram_bytes, spill)
        self._root = self._store.root
        self._tree = Tree(self._store, page_bytes)
        self._changes = 0

    def __len__(self) -> int:
        return self._root.entries

    def __contains__(self, key: Buffer) -> bool:
        return self._find(key) is not None

    def get(self, key: Buffer) -> bytes | None:
        """The value of a key, None when it does not exist."""
        value = self._find(key)
        return self._read_large(value) if type(value) is LargeValue else value

    def get_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys, in their order; every leaf is looked up once."""
        plain = [key if type(key) is bytes else _to_bytes(key) for key in keys]
        results: list[bytes | None] = [None] * len(plain)
        order = sorted(range(len(plain)), key=plain.__getitem__)
        store = self._store
        known: list[bytes] = []
        values: list[Stored] = []
        fence: bytes | None = b""
        for index in order:
            key = plain[index]
            if fence is not None and key >= fence:
                if store.ram > store.ram_max:
                    store.shrink()
                leaf, fence = self._tree.leaf_from(key)
                known, values = leaf.keys, leaf.values
            at = bisect_left(known, key)
            if at < len(known) and known[at] == key:
                value = values[at]
                results[index] = self._read_large(value) if type(value) is LargeValue else value
        return results

    def put(self, key: Buffer, value: Buffer) -> None:
        """Set the value of a key."""
        if type(key) is not bytes:
            key = _to_bytes(key)
        if type(value) is not bytes:
            value = _to_bytes(value)
        if len(key) > KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
            raise _too_large(key, value)
        store = self._store
        if store.ram > store.ram_max:
            store.shrink()
        leaf = self._tree.leaf(key)
        keys = leaf.keys
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            self._replace(leaf, at, value)
        elif len(value) <= self._inline_max:
            self._insert(leaf, at, key, value)
        else:
            store.check_numbers()
            self._insert(leaf, at, key, self._write_pieces(value))

    def put_many(self, pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
        """Put many pairs; the last value of a key counts. Sorted pairs are faster."""
        batch: dict[bytes, bytes] = {}
        size = 0
        for raw_key, raw_value in pairs:
            key = raw_key if type(raw_key) is bytes else _to_bytes(raw_key)
            value = raw_value if type(raw_value) is bytes else _to_bytes(raw_value)
            if len(key) > KEY_BYTES_MAX or len(value) > self._inline_max:
                self.put(key, value)  # may raise: then the batch is unchanged
                batch.pop(key, None)
                continue
            batch[key] = value
            size += len(key) + len(value)
            if len(batch) >= _BATCH_ENTRIES_MAX or size >= _BATCH_BYTES_MAX:
                self._put_batch(batch)
                batch, size = {}, 0
        self._put_batch(batch)

    def delete(self, key: Buffer) -> bool:
        """Remove a key; return whether it existed."""
        if type(key) is not bytes:
            key = _to_bytes(key)
        store = self._store
        if store.ram > store.ram_max:
            store.shrink()
        leaf = self._tree.leaf(key)
        at = bisect_left(leaf.keys, key)
        if at == len(leaf.keys) or leaf.keys[at] != key:
            return False
        old = leaf.values[at]
        size = leaf.size - len(key) - len(old) - ENTRY_BYTES
        is_small = size < self._tree.small
        if is_small:
            self._tree.prepare_loss(key)
        store.begin_resize(leaf)
        del leaf.keys[at], leaf.values[at]
        leaf.size = size
        store.end_resize(leaf)
        self._root.entries -= 1
        self._changes += 1
        self._remove_pieces(old)
        if is_small:
            self._tree.balance(key, InsertOrder.ANY)
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
        """Entries from ``first`` (inclusive) to ``next`` (exclusive), in order or reverse order."""
        low = None if first is None else _to_bytes(first)
        high = None if next is None else _to_bytes(next)
        return self._descending(low, high) if reverse else self._ascending(low or b"", high)

    def prefix(self, prefix: Buffer, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose keys have this prefix."""
        first = _to_bytes(prefix)
        return self.range(first, _after_prefix(first), reverse=reverse)

    def save(self) -> None:
        """Write all changed pages to the session. They are visible after commit."""
        self._store.save()

    def checkpoint(self, reservoir: Checkpointing, meta: bytes = b"") -> int:
        """Save, commit and make the changes durable; return the version."""
        self.save()
        self._pages.commit()
        return reservoir.checkpoint(meta)

    def check(self) -> None:
        """Read every page, and raise Corrupt at the first inconsistency."""
        check(self._store)

    def statistics(self) -> MapStatistics:
        root, store = self._root, self._store
        return MapStatistics(
            entries=root.entries,
            leaves=root.leaves,
            branches=root.branches,
            pieces=root.pieces,
            height=root.height,
            fill=root.leaf_bytes / (root.leaves * self._page_bytes),
            ram_bytes=store.ram,
            spilled_bytes=store.spilled_bytes(),
            unsaved_pages=len(store.dirty) + len(store.spilled),
        )

    def _find(self, key: Buffer) -> Stored | None:
        if type(key) is not bytes:
            key = _to_bytes(key)
        store = self._store
        if store.ram > store.ram_max:
            store.shrink()
        leaf = self._tree.leaf(key)
        keys = leaf.keys
        at = bisect_left(keys, key)
        return leaf.values[at] if at < len(keys) and keys[at] == key else None

    def _insert(self, leaf: Leaf, at: int, key: bytes, value: Stored) -> None:
        store, root = self._store, self._root
        if not leaf.dirty:
            store.mark_dirty(leaf)
        leaf.keys.insert(at, key)
        leaf.values.insert(at, value)
        # As begin and end of the node store, inlined here, where their time counts.
        grown = len(key) + len(value) + ENTRY_BYTES
        leaf.size += grown
        store.ram += grown + ENTRY_RAM
        root.leaf_bytes += grown
        root.entries += 1
        self._changes += 1
        if leaf.size > self._page_bytes:
            self._split_grown(leaf, at, key)

    def _split_grown(self, leaf: Leaf, at: int, key: bytes) -> None:
        if at == len(leaf.keys) - 1:
            order = InsertOrder.ASCENDING
        else:
            order = InsertOrder.ANY if at else InsertOrder.DESCENDING
        self._tree.balance(key, order)

    def _replace(self, leaf: Leaf, at: int, value: bytes) -> None:
        key, old = leaf.keys[at], leaf.values[at]
        is_small = leaf.size - len(old) + len(value) < self._tree.small
        if is_small:
            self._tree.prepare_loss(key)
        stored: Stored = value
        if len(value) > self._inline_max:
            self._store.check_numbers()
            stored = self._write_pieces(value)
        self._store.begin_resize(leaf)
        leaf.values[at] = stored
        leaf.size += len(stored) - len(old)
        self._store.end_resize(leaf)
        self._changes += 1
        self._remove_pieces(old)
        if is_small or leaf.size > self._page_bytes:
            self._tree.balance(key, InsertOrder.ANY)

    def _write_pieces(self, value: bytes) -> LargeValue:
        numbers = []
        for data in split_value(value):
            piece = ValuePiece(self._store.allocate(), data)
            self._store.add(piece)
            numbers.append(piece.n)
        return LargeValue(len(value), tuple(numbers))

    def _read_large(self, large: LargeValue) -> bytes:
        remaining = large.size
        parts = []
        for n in large.pieces:
            parts.append(self._store.piece(n, min(remaining, PIECE_BYTES)))
            remaining -= PIECE_BYTES
        return b"".join(parts)

    def _remove_pieces(self, old: Stored) -> None:
        if type(old) is LargeValue:
            for n in old.pieces:
                self._store.remove_piece(n)

    def _put_batch(self, batch: dict[bytes, bytes]) -> None:
        """Put inline values into the leaves in order, every leaf once."""
        keys = sorted(batch)
        store = self._store
        store.check_numbers()
        at = 0
        while at < len(keys):
            if store.ram > store.ram_max:
                store.shrink()
            leaf, fence = self._tree.leaf_from(keys[at])
            following = len(keys) if fence is None else bisect_left(keys, fence, at)
            self._put_run(leaf, keys[at:following], batch)
            at = following

    def _put_run(self, leaf: Leaf, run: list[bytes], batch: dict[bytes, bytes]) -> None:
        """Put the keys of one leaf, in order."""
        merged = merge_entries(leaf, run, batch)
        is_small = merged.size < leaf.size and merged.size < self._tree.small
        if is_small:
            self._tree.prepare_loss(run[0])
        store = self._store
        store.begin_resize(leaf)
        self._root.entries += len(merged.keys) - len(leaf.keys)
        leaf.keys, leaf.values, leaf.size = merged.keys, merged.values, merged.size
        store.end_resize(leaf)
        self._changes += 1
        for old in merged.replaced:
            self._remove_pieces(old)
        if is_small or leaf.size > self._page_bytes:
            self._tree.balance(
                run[0], InsertOrder.ASCENDING if merged.appended else InsertOrder.ANY
            )

    def _ascending(self, first: bytes, next: bytes | None) -> Iterator[Pair]:
        position, is_after = first, False
        while True:
            self._store.shrink()
            leaf, fence = self._tree.leaf_from(position)
            changes = self._changes
            keys, values = leaf.keys, leaf.values
            at = bisect_right(keys, position) if is_after else bisect_left(keys, position)
            following = len(keys) if next is None else bisect_left(keys, next)
            while at < following:
                key, value = keys[at], values[at]
                yield key, self._read_large(value) if type(value) is LargeValue else value
                if self._changes != changes:
                    position, is_after = key, True
                    break
                at += 1
            else:
                if fence is None or (next is not None and next <= fence):
                    return
                position, is_after = fence, False

    def _descending(self, first: bytes | None, next: bytes | None) -> Iterator[Pair]:
        while True:
            self._store.shrink()
            leaf, fence = self._tree.leaf_before(next)
            changes = self._changes
            keys, values = leaf.keys, leaf.values
            at = len(keys) if next is None else bisect_left(keys, next)
            lowest = 0 if first is None else bisect_left(keys, first)
            while at > lowest:
                at -= 1
                key, value = keys[at], values[at]
                yield key, self._read_large(value) if type(value) is LargeValue else value
                if self._changes != changes:
                    next = key
                    break
            else:
                if fence is None or (first is not None and fence <= first):
                    return
                next = fence


def _to_bytes(value: Buffer) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Invalid(f"keys and values must be bytes, not {type(value).__name__}")


def _after_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix, None when there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None


def _too_large(key: bytes, value: bytes) -> TooLarge:
    if len(key) > KEY_BYTES_MAX:
        return TooLarge(f"a key of {len(key)} bytes: {KEY_BYTES_MAX} are allowed")
    return TooLarge(f"a value of {len(value)} bytes: {VALUE_BYTES_MAX} are allowed")
