"""Index of a topic's cold part in the store: which lake files cover which seqs.

A projection of one manifest, small enough for every checkpoint (80 bytes a file), so that opening a
store, routing a read and applying retention send no request to the object store. Immutable: a new
manifest has a new index.

The lake may also hold records that are still on the local disk. ``released`` is the seq up to which
local copies have been released, which is done by whole files. Up to there payload is counted by
whole files: a file counts in full until it leaves. What was deleted or fell below the floor while
the rows were still local has been counted there already, so ``payloads`` may be less than in the
manifest. Files after ``released`` do not count: their records do, one by one.

Other processes may merge files meanwhile (``pipelines/compaction/compact.py``). Then one file may
begin at or before ``released`` and end after it: ``released_part`` is the payload that counts of
it, until the rest is released. A file that replaces others counts for at most what was counted for
those (``succeeded``).
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from strandline.lake.manifest.file_entry import LakeFile

_CONTENT_DIGITS = 16


class ColdEntry(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A topic's cold part in a checkpoint: columns of little-endian 8-byte numbers."""

    manifest: int = 0
    firsts: bytes = b""
    lasts: bytes = b""
    contents: bytes = b""
    sizes: bytes = b""
    rows: bytes = b""
    payloads: bytes = b""
    ts_mins: bytes = b""
    ts_maxs: bytes = b""
    tail_offsets: bytes = b""
    tail_checksums: bytes = b""
    released: int = 0
    """Local copies up to this seq have been released."""
    released_part: int = 0
    """Payload that counts of the file that begins before that and ends after it."""


_COLUMNS = ColdEntry.__struct_fields__[1:-2]
_SIGNED = frozenset({"ts_mins", "ts_maxs"})


class ColdFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs of one file."""

    first_seq: int
    last_seq: int
    content: int
    size: int
    tail_offset: int
    tail_checksum: int

    def name(self) -> str:
        return f"{self.first_seq:020d}-{self.last_seq:020d}-{self.content:016x}.parquet"


class ColdSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The cold part of a topic in numbers."""

    manifest: int
    """The newest manifest that the store has read."""
    files: int
    rows: int
    """Rows in the files, deleted ones included."""
    size: int
    """Bytes of the files."""
    first_seq: int
    last_seq: int
    """The lake covers first_seq to last_seq; both 0 without files."""


class ColdIndex:
    """Files of one topic by seq. Immutable; safe from many threads."""

    __slots__ = ("manifest", "released", "released_part", *_COLUMNS)

    firsts: array[int]
    lasts: array[int]
    contents: array[int]
    sizes: array[int]
    rows: array[int]
    payloads: array[int]
    ts_mins: array[int]
    ts_maxs: array[int]
    tail_offsets: array[int]
    tail_checksums: array[int]

    def __init__(self, manifest: int, released: int, released_part: int = 0) -> None:
        self.manifest = manifest
        self.released = released
        self.released_part = released_part
        for name in _COLUMNS:
            setattr(self, name, array("q" if name in _SIGNED else "Q"))

    @classmethod
    def of_files(
        cls,
        manifest: int,
        files: Iterable[LakeFile],
        payloads: Mapping[int, int],
        *,
        released: int,
        released_part: int = 0,
    ) -> ColdIndex:
        """The files of a manifest; payloads by content where they are less than in the manifest."""
        cold = cls(manifest, released, released_part)
        for file in files:
            content = _content(file)
            cold.firsts.append(file.first_seq)
            cold.lasts.append(file.last_seq)
            cold.contents.append(content)
            cold.sizes.append(file.size)
            cold.rows.append(file.rows)
            cold.payloads.append(payloads.get(content, file.payload))
            cold.ts_mins.append(file.ts_min)
            # Stamps never decrease, and a search relies on it: a file without rows has none.
            previous = cold.ts_maxs[-1] if cold.ts_maxs else file.ts_max
            cold.ts_maxs.append(file.ts_max if file.rows else previous)
            cold.tail_offsets.append(file.tail_offset)
            cold.tail_checksums.append(file.tail_checksum)
        return cold

    @classmethod
    def decode(cls, entry: ColdEntry) -> ColdIndex | None:
        """The index of a checkpoint, None when the topic has no cold part."""
        if not entry.manifest:
            return None
        cold = cls(entry.manifest, entry.released, entry.released_part)
        for name in _COLUMNS:
            getattr(cold, name).frombytes(getattr(entry, name))
        return cold

    def with_released(self, released: int, payloads: Mapping[int, int]) -> ColdIndex:
        """The same after local copies were released up to the end of a file; payloads by content of
        the files concerned."""
        cold = ColdIndex(self.manifest, released)
        for name in _COLUMNS:
            setattr(cold, name, getattr(self, name))
        counted = zip(self.contents, self.payloads, strict=True)
        cold.payloads = array("Q", (payloads.get(*pair) for pair in counted))
        return cold

    def encode(self) -> ColdEntry:
        columns = {name: getattr(self, name).tobytes() for name in _COLUMNS}
        return ColdEntry(
            manifest=self.manifest,
            released=self.released,
            released_part=self.released_part,
            **columns,
        )

    def __len__(self) -> int:
        return len(self.firsts)

    @property
    def last_seq(self) -> int:
        """The last seq that the lake covers, 0 when it is empty."""
        return self.lasts[-1] if self.lasts else 0

    def find(self, seq: int) -> int:
        """The index of the file that covers a seq, -1 when none does."""
        index = bisect.bisect_right(self.firsts, seq) - 1
        return index if index >= 0 and seq <= self.lasts[index] else -1

    def covers(self, first_seq: int, last_seq: int) -> bool:
        """Whether the lake covers all of these seqs."""
        index = self.find(first_seq)
        while index >= 0 and self.lasts[index] < last_seq:
            index = self.find(self.lasts[index] + 1)
        return index >= 0

    def file(self, index: int) -> ColdFile:
        return ColdFile(
            first_seq=self.firsts[index],
            last_seq=self.lasts[index],
            content=self.contents[index],
            size=self.sizes[index],
            tail_offset=self.tail_offsets[index],
            tail_checksum=self.tail_checksums[index],
        )

    def summary(self) -> ColdSummary:
        return ColdSummary(
            manifest=self.manifest,
            files=len(self),
            rows=sum(self.rows),
            size=sum(self.sizes),
            first_seq=self.firsts[0] if self.firsts else 0,
            last_seq=self.last_seq,
        )

    def known_payloads(self) -> dict[int, int]:
        """Payload by content, for the index of the next manifest."""
        return dict(zip(self.contents, self.payloads, strict=True))

    def counted(self, index: int) -> int:
        """Payload that counts of a file: all of it, its released part, or 0."""
        if self.firsts[index] > self.released:
            return 0
        return self.payloads[index] if self.lasts[index] <= self.released else self.released_part

    def counted_last(self, index: int) -> int:
        """The last seq up to which a file counts as a whole; it leaves when the floor passes it."""
        return min(self.lasts[index], self.released)

    def payload_below(self, old_floor: int, new_floor: int) -> int:
        """Payload that leaves when the floor rises: all that counts of a file, or nothing."""
        first = bisect.bisect_left(self.lasts, old_floor)
        released = bisect.bisect_right(self.lasts, self.released)
        following = min(bisect.bisect_left(self.lasts, new_floor), released)
        total = sum(self.payloads[first:following])
        return total + (self.released_part if old_floor <= self.released < new_floor else 0)

    def first_reaching(self, ts: int, seq: int) -> int:
        """The first index at or after a seq whose file holds this time or a later one."""
        start = bisect.bisect_left(self.lasts, seq)
        return bisect.bisect_left(self.ts_maxs, ts, lo=start)


def replace_manifest(
    old: ColdIndex | None, manifest: int, files: Sequence[LakeFile], floor: int
) -> tuple[ColdIndex, int]:
    """The index of a newer manifest, and by how much less payload counts now.

    What leaves below the floor is counted already. A replacement replaces whole files, so what
    counted for them is what may count for the new one.
    """
    if old is None:
        return ColdIndex.of_files(manifest, files, {}, released=0), 0
    known = dict(zip(old.contents, range(len(old)), strict=True))
    payloads = old.known_payloads()
    fresh = {content: file for file in files if (content := _content(file)) not in known}
    staying = {_content(file) for file in files} - set(fresh)
    budgets = {
        index: old.counted(index) if old.counted_last(index) >= floor else 0
        for index in range(len(old))
        if old.contents[index] not in staying and old.firsts[index] <= old.released
    }
    left = sum(budgets.values())
    part = old.released_part if _straddler(old) in staying else 0
    added = 0
    for content, file in fresh.items():
        if file.first_seq > old.released:
            continue
        counts = _move_payload(old, budgets, file)
        added += counts
        if file.last_seq > old.released:
            part = counts
        else:
            payloads[content] = counts
    new = ColdIndex.of_files(manifest, files, payloads, released=old.released, released_part=part)
    return new, left - added


def _move_payload(old: ColdIndex, budgets: dict[int, int], file: LakeFile) -> int:
    """Move payload that counted for replaced files to a new file; return how much it counts."""
    start = bisect.bisect_left(old.lasts, file.first_seq)
    moved = 0
    for index in range(start, len(old)):
        if old.firsts[index] > file.last_seq:
            break
        share = min(budgets.get(index, 0), file.payload - moved)
        if share:
            budgets[index] -= share
            moved += share
    return moved


def _straddler(cold: ColdIndex) -> int:
    """The content of the file that begins at or before ``released`` and ends after it, or -1."""
    index = cold.find(cold.released)
    return cold.contents[index] if index >= 0 and cold.lasts[index] > cold.released else -1


def _content(file: LakeFile) -> int:
    return int(file.content[:_CONTENT_DIGITS], 16)
