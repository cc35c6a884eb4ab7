"""The index of a topic's tags in memory: tag to seqs. Built when it is first needed.

It covers the records that are not in dedicated segments: those in memory, in the log, and in shared
segments. The footers of dedicated segments have the rest (``log/segments/tag_directory.py``). A
record keeps its tag wherever it moves, so an entry is never wrong; it is only useless once the
record is deleted, evicted or sealed, and is removed when entries are merged.

Appends add their tags to ``_waiting``, in one step per batch and without examining them. The next
lookup moves them to ``_recent``, a dictionary; when that is full, it becomes a ``_TagPart``: tags
in order, each once, with their seqs. Parts of similar size are merged, so that there are few.

    entry          where          memory
    appended       _waiting       the list of tags of the append
    indexed        _recent        about 200 bytes
    in a part      _parts         8 bytes, and once per tag: its bytes, and 12

Appends without deletes do not fill memory: an index with more waiting tags than entries (and more
than ``WAITING_MAX``) is dropped, and built again when it is needed. So building it costs each
append at most a constant. ``TagIndexes`` bounds the memory of the indexes of all topics.
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
"""Up to so many records, tags may always wait for the next lookup."""
RECENT_MAX = 4096
"""The most entries in the dictionary."""
_RECENT_RAM = 200
_PART_BYTES_MAX = 1 << 30
"""The most bytes of tags in a part: Arrow's offsets have 32 bits."""

Tags: TypeAlias = str | Sequence[str | None] | pa.Array | None
"""The tags of a batch: one for all, one for each record, or none."""


class TagRange(NamedTuple):
    """Tags in UTF-8, from ``low`` to below ``high``."""

    low: bytes
    high: bytes


def tag_range(match: str) -> TagRange:
    """The tags of a match: the tag itself, or with ``*`` at its end all tags with this prefix."""
    if match.endswith("*"):
        low = match[:-1].encode()
        return TagRange(low, low + b"\xff")  # no UTF-8 text has this byte
    low = match.encode()
    return TagRange(low, low + b"\0")  # the next longer text


class _TagPart:
    """Tags in order, each once, with their seqs in order. Only ``spend`` changes it."""

    __slots__ = (
        "_ends",
        "_last_search",
        "_places",
        "_seqs",
        "_spent",
        "_starts",
        "_text",
        "last_seq",
        "size",
    )

    def __init__(self, tags: pa.Array, codes: np.ndarray, seqs: np.ndarray) -> None:
        """From distinct tags, and entries: the place of a tag, and a seq."""
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
        self._last_search = (TagRange(b"", b""), 0, 0)
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

    def drop(self, wanted: TagRange) -> None:
        """Skip these tags from now on: all of their records are gone."""
        first, following = self._find(wanted)
        self._spent[first:following] = bytes([1]) * (following - first)

    def entries(self, edges: Sequence[int]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Tags, and entries that are not spent and are in the ranges between pairs of edges."""
        buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(self._text)]
        tags = pa.Array.from_buffers(pa.string(), len(self._places), buffers)
        codes = np.repeat(np.arange(len(self._places)), np.diff(self._starts))
        limits = np.array(edges, dtype="<u8")
        keep = np.searchsorted(limits, self._seqs, side="right") % 2 == 1
        keep &= self._are_live()[codes]
        return tags, codes[keep], self._seqs[keep]

    def _are_live(self) -> np.ndarray:
        return np.asarray(np.frombuffer(self._spent, dtype="u1") == 0)

    def _find(self, wanted: TagRange) -> tuple[int, int]:
        if self._last_search[0] is not wanted:
            self._last_search = (wanted, *self._search(wanted))
        return self._last_search[1:]

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
    """The index of one topic. Appends call ``note``; all else happens under ``lock``."""

    __slots__ = (
        "_indexed",
        "_noted",
        "_parts",
        "_recent",
        "_recent_count",
        "_recent_tags",
        "_waiting",
        "is_complete",
        "lock",
        "next_seq",
    )

    def __init__(self, next_seq: int) -> None:
        self.lock = threading.Lock()
        """Held by a delete by tag. Taken before the maintenance lock."""
        self.next_seq = next_seq
        """Tags of records from here on are noted by their appends."""
        self.is_complete = False
        """Whether records before ``next_seq`` are indexed, too."""
        self._waiting: deque[tuple[int, int, Tags]] = deque()
        self._noted = 0  # changed by appends only
        self._indexed = 0  # changed by lookups only
        self._recent: dict[bytes, list[int]] = {}
        self._recent_tags: list[bytes] = []
        self._recent_count = 0
        self._parts: list[_TagPart] = []

    def __len__(self) -> int:
        return self._recent_count + sum(map(len, self._parts))

    @property
    def size(self) -> int:
        """Bytes of memory, approximately."""
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
        waiting = self._noted - self._indexed
        return waiting <= WAITING_MAX or waiting <= len(self) or not self.is_complete

    def add_waiting(self, edges: Sequence[int]) -> None:
        """Index the waiting tags. Entries outside the edges may be dropped."""
        waiting = self._noted - self._indexed
        arriving = []
        while self._waiting:
            entry = self._waiting.popleft()
            self._indexed += entry[1]
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

    def add_older(self, batches: Iterable[tuple[int, int, Tags]], edges: Sequence[int]) -> None:
        """Index records before ``next_seq``."""
        older: list[tuple[int, int, Tags]] = []
        count = 0
        for batch in batches:
            older.append(batch)
            count += batch[1]
            if count >= 16 * WAITING_MAX:
                self._add_part(*_entries(older), edges)
                older, count = [], 0
        if older:
            self._add_part(*_entries(older), edges)

    def find(self, wanted: TagRange) -> BitMap64:
        """Seqs of these tags, also of records that are gone."""
        found = BitMap64()
        for part in self._parts:
            found.update(part.find(wanted).tolist())
        for tag in self._recent_in(wanted):
            found.update(self._recent.get(tag, ()))
        return found

    def drop(self, wanted: TagRange, before: int) -> None:
        """Skip these tags below a seq from now on: all of their records are gone."""
        for part in self._parts:
            if part.last_seq < before:
                part.drop(wanted)
        for tag in self._recent_in(wanted):
            seqs = self._recent.pop(tag, [])
            later = [seq for seq in seqs if seq >= before]
            self._recent_count -= len(seqs) - len(later)
            if later:
                self._recent[tag] = later
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
        tags.sort()  # it is in order except for the newest
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
            self._parts.append(_TagPart(tags.filter(pa.array(used)), codes, seqs))


class _IndexOwner(Protocol):
    """The owner of an index: a topic."""

    tags: TagIndex | None


class TagIndexes:
    """The indexes of a store; drops the least recently used first. Safe from many threads.

    They use memory of the block cache, at most half of it; but the newest stays, however large it
    is: the records that it covers are few enough to be in shared segments.
    """

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._sizes: OrderedDict[_IndexOwner, int] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes of all indexes, as of their last use."""
        return sum(self._sizes.values())

    def touch(self, holder: _IndexOwner) -> None:
        """Update the size of an index that was built or used, and drop others if necessary."""
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
            self._cache.reserve(total)


def _as_list(tags: Tags) -> list[str | None]:
    if isinstance(tags, pa.Array):
        return list(tags.to_pylist())
    return list(tags or ())


def _entries(batches: list[tuple[int, int, Tags]]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Distinct tags, and entries: the place of a tag, and a seq."""
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
