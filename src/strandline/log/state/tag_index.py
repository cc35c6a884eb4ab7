"""Which records of a topic have a tag: an index in memory, made when it is first needed.

It covers the records that are in no segment of the topic's own: those in memory, in the log, and in
shared segments. The footers of own segments have the rest (``log/segments/tag_directory.py``). A
record
keeps its tag wherever it moves, so an entry is never wrong; it is only of no more use once the
record is deleted, evicted or sealed, and goes when entries are merged.

Appends leave their tags in ``_waiting``, in one step per batch and without looking at them. The
next lookup takes them into ``_recent``, a dictionary; when that is full, it becomes a ``TagPart``:
tags in order, each once, with their seqs. Parts of similar size are merged, so that there are few.

    entry          where          memory
    appended       _waiting       the list of tags that the caller gave
    taken in       _recent        about 200 bytes
    in a part      _parts         8 bytes, and once per tag: its bytes, and 12

Appends that no delete follows do not fill memory: an index with more waiting than it has entries
(and more than ``WAITING_MAX``) is dropped, and made again when it is needed. So making it costs
each append at most a constant. ``TagIndexes`` bounds what all topics of a store take together.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.log.segments.reader import BlockCache

WAITING_MAX = 65_536
"""Records whose tags may wait for the next lookup, at least."""
RECENT_MAX = 4096
"""Entries in the dictionary at most."""
_RECENT_RAM = 200
_PART_BYTES_MAX = 1 << 30
"""Bytes of tags in a part at most: Arrow counts them with 32 bits."""

Tags: TypeAlias = str | Sequence[str | None] | pa.Array | None
"""Of a batch: one tag for all, one for each, or none."""


class TagRange(NamedTuple):
    """Tags from one, as UTF-8, up to another that is not included."""

    low: bytes
    high: bytes


def tag_range(match: str) -> TagRange:
    """The tags that a match means: one, or with ``*`` at its end all that begin like it."""
    if match.endswith("*"):
        low = match[:-1].encode()
        return TagRange(low, low + b"\xff")  # no UTF-8 text has this byte
    low = match.encode()
    return TagRange(low, low + b"\0")  # the next longer text


class TagPart:
    """Tags in order, each once, with their seqs in order. Only ``spend`` changes it."""

    __slots__ = (
        "_ends",
        "_found",
        "_places",
        "_seqs",
        "_spent",
        "_starts",
        "_text",
        "last_seq",
        "size",
    )

    def __init__(self, tags: pa.Array, codes: np.ndarray, seqs: np.ndarray) -> None:
        """Of tags that differ, and entries: the place of a tag, and a seq."""
        order = np.asarray(pc.sort_indices(tags))
        rank = np.empty(len(order), dtype="<i8")
        rank[order] = np.arange(len(order))
        codes = rank[codes]
        self._seqs = seqs[np.lexsort((seqs, codes))]
        self._starts = np.zeros(len(order) + 1, dtype="<i8")
        np.cumsum(np.bincount(codes, minlength=len(order)), out=self._starts[1:])
        _, ends, text = tags.take(pa.array(order)).buffers()
        self._ends = memoryview(ends).cast("i")[: len(order) + 1]
        self._text = b"" if text is None else bytes(memoryview(text)[: self._ends[-1]])
        self._places = range(len(order))
        self._spent = bytearray(len(order))
        self._found = (TagRange(b"", b""), 0, 0)
        self.last_seq = int(seqs.max()) if len(seqs) else 0
        self.size = len(self._text) + 13 * len(order) + 8 * len(seqs)

    def __len__(self) -> int:
        return len(self._seqs)

    def find(self, wanted: TagRange) -> np.ndarray:
        """Seqs of these tags, by tag."""
        first, following = self._find(wanted)
        if self._spent.find(1, first, following) < 0:
            return self._seqs[self._starts[first] : self._starts[following]]
        places = np.flatnonzero(self._are_live()[first:following]) + first
        found = [self._seqs[self._starts[place] : self._starts[place + 1]] for place in places]
        return np.concatenate([self._seqs[:0], *found])

    def spend(self, wanted: TagRange) -> None:
        """All records of these tags are gone: do not find them again."""
        first, following = self._find(wanted)
        self._spent[first:following] = bytes([1]) * (following - first)

    def entries(self, edges: Sequence[int]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Tags, and entries that are not spent and lie between the edges, two by two."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        tags = pa.Array.from_buffers(pa.string(), len(self._places), buffers)
        codes = np.repeat(np.arange(len(self._places)), np.diff(self._starts))
        limits = np.array(edges, dtype="<u8")
        kept = np.searchsorted(limits, self._seqs, side="right") % 2 == 1
        kept &= self._are_live()[codes]
        return tags, codes[kept], self._seqs[kept]

    def _are_live(self) -> np.ndarray:
        return np.asarray(np.frombuffer(self._spent, dtype="u1") == 0)

    def _find(self, wanted: TagRange) -> tuple[int, int]:
        if self._found[0] is not wanted:
            self._found = (wanted, *self._search(wanted))
        return self._found[1:]

    def _search(self, wanted: TagRange) -> tuple[int, int]:
        first = bisect_left(self._places, wanted.low, key=self._tag)
        count = len(self._places)
        if first == count or self._tag(first) >= wanted.high:
            return first, first
        if first + 1 == count or self._tag(first + 1) >= wanted.high:
            return first, first + 1
        return first, bisect_left(self._places, wanted.high, first + 1, key=self._tag)

    def _tag(self, place: int) -> bytes:
        return self._text[self._ends[place] : self._ends[place + 1]]


class TagIndex:
    """One topic's. Tags are left by appends; all else happens under ``lock``."""

    __slots__ = (
        "_noted",
        "_parts",
        "_recent",
        "_recent_count",
        "_recent_tags",
        "_taken",
        "_waiting",
        "is_complete",
        "lock",
        "next_seq",
    )

    def __init__(self, next_seq: int) -> None:
        self.lock = threading.Lock()
        """Held by a delete by tag. Taken before the maintenance lock."""
        self.next_seq = next_seq
        """Records from here on are noted by those that append them."""
        self.is_complete = False
        """Whether those before have been taken in, too."""
        self._waiting: deque[tuple[int, int, Tags]] = deque()
        self._noted = 0  # changed by appends only
        self._taken = 0  # changed by lookups only
        self._recent: dict[bytes, list[int]] = {}
        self._recent_tags: list[bytes] = []
        self._recent_count = 0
        self._parts: list[TagPart] = []

    def __len__(self) -> int:
        return self._recent_count + sum(map(len, self._parts))

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return _RECENT_RAM * self._recent_count + sum(part.size for part in self._parts)

    def note(self, tags: Tags, first_seq: int, count: int) -> bool:
        """Note tags of records that are being published; False when too many wait.

        Writer's lock held.
        """
        if tags is None:
            return True
        if isinstance(tags, pa.Array):
            tags = tags.cast(pa.string()).dictionary_encode()  # a copy: not a view of all columns
        self._waiting.append((first_seq, count, tags))
        self._noted += count
        waiting = self._noted - self._taken
        return waiting <= WAITING_MAX or waiting <= len(self) or not self.is_complete

    def take_in(self, edges: Sequence[int]) -> None:
        """Make what waits part of the index. Entries outside the edges may be dropped."""
        waiting = self._noted - self._taken
        arriving = []
        while self._waiting:
            entry = self._waiting.popleft()
            self._taken += entry[1]
            arriving.append(entry)
        if waiting > RECENT_MAX:
            self._add_part(*_entries(arriving), edges)
            return
        for first_seq, count, tags in arriving:
            each = [tags] * count if isinstance(tags, str) else _as_list(tags)
            for seq, tag in enumerate(each, first_seq):
                if tag is not None:
                    self._add_recent(tag.encode(), seq)
        if self._recent_count > RECENT_MAX:
            self._freeze(edges)

    def take_in_older(self, batches: Iterable[tuple[int, int, Tags]], edges: Sequence[int]) -> None:
        """Make records before ``next_seq`` part of the index."""
        held: list[tuple[int, int, Tags]] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += batch[1]
            if count >= 16 * WAITING_MAX:
                self._add_part(*_entries(held), edges)
                held, count = [], 0
        if held:
            self._add_part(*_entries(held), edges)

    def find(self, wanted: TagRange) -> BitMap64:
        """Seqs of these tags, also of records that are gone."""
        found = BitMap64()
        for part in self._parts:
            found.update(part.find(wanted).tolist())
        for tag in self._recent_in(wanted):
            found.update(self._recent.get(tag, ()))
        return found

    def spend(self, wanted: TagRange, before: int) -> None:
        """All records of these tags before a seq are gone: do not find them again."""
        for part in self._parts:
            if part.last_seq < before:
                part.spend(wanted)
        for tag in self._recent_in(wanted):
            seqs = self._recent.pop(tag, [])
            kept = [seq for seq in seqs if seq >= before]
            self._recent_count -= len(seqs) - len(kept)
            if kept:
                self._recent[tag] = kept
        if len(self._recent_tags) > 9 * len(self._recent) // 8 + 8:
            self._recent_tags = sorted(self._recent)

    def trim(self, edges: Sequence[int]) -> None:
        """Drop entries outside the edges."""
        parts, self._parts = self._parts, []
        for part in parts:
            self._add_part(*part.entries(edges), edges)

    def _add_recent(self, tag: bytes, seq: int) -> None:
        seqs = self._recent.get(tag)
        if seqs is None:
            self._recent[tag] = [seq]
            self._recent_tags.append(tag)
        else:
            seqs.append(seq)
        self._recent_count += 1

    def _recent_in(self, wanted: TagRange) -> list[bytes]:
        if wanted.high == wanted.low + b"\0":
            return [wanted.low]
        tags = self._recent_tags
        tags.sort()  # it is in order but for the newest
        return tags[bisect_left(tags, wanted.low) : bisect_left(tags, wanted.high)]

    def _freeze(self, edges: Sequence[int]) -> None:
        recent, self._recent, self._recent_tags, self._recent_count = self._recent, {}, [], 0
        tags = pa.array(list(recent), pa.binary()).cast(pa.string())
        counts = [len(seqs) for seqs in recent.values()]
        seqs = np.array([seq for seqs in recent.values() for seq in seqs], dtype="<u8")
        self._add_part(tags, np.repeat(np.arange(len(counts)), counts), seqs, edges)

    def _add_part(
        self, tags: pa.Array, codes: np.ndarray, seqs: np.ndarray, edges: Sequence[int]
    ) -> None:
        """Add entries, together with parts that are not much larger."""
        while self._parts and len(self._parts[-1]) <= 2 * len(seqs):
            if self._parts[-1].size + tags.nbytes > _PART_BYTES_MAX:
                break
            older = self._parts.pop().entries(edges)
            both = pa.concat_arrays([older[0], tags]).dictionary_encode()
            place = np.asarray(both.indices)
            codes = np.concatenate([place[older[1]], place[len(older[0]) :][codes]])
            tags, seqs = both.dictionary, np.concatenate([older[2], seqs])
        if len(seqs):
            used = np.zeros(len(tags), dtype=bool)
            used[codes] = True
            codes = (np.cumsum(used) - 1)[codes]
            self._parts.append(TagPart(tags.filter(pa.array(used)), codes, seqs))


class Holder(Protocol):
    """What has an index: a topic."""

    tags: TagIndex | None


class TagIndexes:
    """The indexes of a store, least recently used out first. Safe from many threads.

    They take from the room of the block cache, and of that at most half; but the newest stays,
    however large it is: the records that it covers are few enough to be in shared segments.
    """

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._sizes: OrderedDict[Holder, int] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes that all of them take, as they were when last used."""
        return sum(self._sizes.values())

    def used(self, holder: Holder) -> None:
        """An index was made or used: it may be larger than it was."""
        index = holder.tags
        with self._lock:
            self._sizes.pop(holder, None)
            if index is not None:
                self._sizes[holder] = index.size
            total = self.size
            while total > self._cache.size_max // 2 and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                oldest.tags = None
                total -= size
            self._cache.lend(total)


def _as_list(tags: Tags) -> list[str | None]:
    if isinstance(tags, pa.Array):
        return list(tags.to_pylist())
    return list(tags or ())


def _entries(batches: list[tuple[int, int, Tags]]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Tags that differ, and entries: the place of a tag, and a seq."""
    arrays: list[pa.Array] = []
    seqs: list[np.ndarray] = []
    texts: list[str | None] = []
    numbers: list[int] = []
    for first_seq, count, tags in batches:
        if isinstance(tags, str):
            texts.extend([tags] * count)
            numbers.extend(range(first_seq, first_seq + count))
        elif tags is not None:
            arrays.append(tags if isinstance(tags, pa.Array) else pa.array(tags, pa.string()))
            seqs.append(np.arange(first_seq, first_seq + count, dtype="<u8"))
    arrays.append(pa.array(texts, pa.string()))
    seqs.append(np.array(numbers, dtype="<u8"))
    every = pa.chunked_array([array.cast(pa.string()) for array in arrays])
    encoded = every.combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1))
    has_tag = codes >= 0
    return encoded.dictionary, codes[has_tag], np.concatenate(seqs)[has_tag]
