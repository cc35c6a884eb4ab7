"""The cold part of a topic as the store keeps it: which lake files answer for which seqs.

A projection of one manifest, small enough to live in every checkpoint (80 bytes a file), so that
opening a store, routing a read and applying retention ask the object store nothing. Immutable: a
new manifest makes a new one.

The lake may hold what the local disk still has, too. ``released`` says up to where local copies
have been let go, which is done by whole files. Up to there payload is counted by whole files: a
file counts in full until it leaves. What was deleted or fell below the floor while the rows were
still local has been counted there already, which is why ``payloads`` may be less than the manifest
says. Files behind ``released`` do not count: their records do, one by one.

Others may merge files meanwhile (``pipelines/compaction/compact.py``). Then one file may begin at
or before
``released`` and end behind it: ``released_part`` is what counts of it, until the rest is let go. A
file that takes the place of others counts for at most what was counted for those (``succeeded``).
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from strandline.lake.manifest.file_entry import LakeFile

_CONTENT_DIGITS = 16


class ColdEntry(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A topic's cold part as a checkpoint keeps it: columns of little-endian 8-byte numbers."""

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
    """Local copies up to this seq have been let go."""
    released_part: int = 0
    """Payload that counts of the file that begins before that and ends behind it."""


_COLUMNS = ColdEntry.__struct_fields__[1:-2]
_SIGNED = frozenset({"ts_mins", "ts_maxs"})


class ColdFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to read one file."""

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
    """The newest version of the lake that the store knows of."""
    files: int
    rows: int
    """Rows in the files, those that were deleted since included."""
    size: int
    """Bytes of the files."""
    first_seq: int
    last_seq: int
    """The lake answers for first_seq to last_seq; both 0 without files."""


class Cold:
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
    ) -> Cold:
        """The files of a manifest; payloads by content where they are known to be less."""
        made = cls(manifest, released, released_part)
        for file in files:
            content = _content(file)
            made.firsts.append(file.first_seq)
            made.lasts.append(file.last_seq)
            made.contents.append(content)
            made.sizes.append(file.size)
            made.rows.append(file.rows)
            made.payloads.append(payloads.get(content, file.payload))
            made.ts_mins.append(file.ts_min)
            # Stamps never decrease, and a search relies on it: a file without rows has none.
            before = made.ts_maxs[-1] if made.ts_maxs else file.ts_max
            made.ts_maxs.append(file.ts_max if file.rows else before)
            made.tail_offsets.append(file.tail_offset)
            made.tail_checksums.append(file.tail_checksum)
        return made

    @classmethod
    def decode(cls, entry: ColdEntry) -> Cold | None:
        """What a checkpoint kept, None when the topic has no cold part."""
        if not entry.manifest:
            return None
        made = cls(entry.manifest, entry.released, entry.released_part)
        for name in _COLUMNS:
            getattr(made, name).frombytes(getattr(entry, name))
        return made

    def with_released(self, released: int, payloads: Mapping[int, int]) -> Cold:
        """The same after local copies were let go up to the end of a file; payloads by content of
        the files concerned."""
        made = Cold(self.manifest, released)
        for name in _COLUMNS:
            setattr(made, name, getattr(self, name))
        counted = zip(self.contents, self.payloads, strict=True)
        made.payloads = array("Q", (payloads.get(*pair) for pair in counted))
        return made

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
        """The last seq that the lake answers for, 0 when it is empty."""
        return self.lasts[-1] if self.lasts else 0

    def find(self, seq: int) -> int:
        """The place of the file that answers for a seq, -1 when none does."""
        place = bisect.bisect_right(self.firsts, seq) - 1
        return place if place >= 0 and seq <= self.lasts[place] else -1

    def covers(self, first_seq: int, last_seq: int) -> bool:
        """Whether the lake answers for all of these seqs."""
        place = self.find(first_seq)
        while place >= 0 and self.lasts[place] < last_seq:
            place = self.find(self.lasts[place] + 1)
        return place >= 0

    def file(self, place: int) -> ColdFile:
        return ColdFile(
            first_seq=self.firsts[place],
            last_seq=self.lasts[place],
            content=self.contents[place],
            size=self.sizes[place],
            tail_offset=self.tail_offsets[place],
            tail_checksum=self.tail_checksums[place],
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
        """Payload by content, to be carried over to the next manifest's projection."""
        return dict(zip(self.contents, self.payloads, strict=True))

    def counted(self, place: int) -> int:
        """What counts of a file: all of it, its released part, or nothing."""
        if self.firsts[place] > self.released:
            return 0
        return self.payloads[place] if self.lasts[place] <= self.released else self.released_part

    def counted_last(self, place: int) -> int:
        """The last seq up to which a file counts as a whole; it leaves when the floor is behind."""
        return min(self.lasts[place], self.released)

    def payload_below(self, old_floor: int, new_floor: int) -> int:
        """Payload of what leaves when the floor rises: all that counts of a file, or nothing."""
        first = bisect.bisect_left(self.lasts, old_floor)
        behind = bisect.bisect_right(self.lasts, self.released)
        following = min(bisect.bisect_left(self.lasts, new_floor), behind)
        total = sum(self.payloads[first:following])
        return total + (self.released_part if old_floor <= self.released < new_floor else 0)

    def reaching(self, ts: int, seq: int) -> int:
        """The first place at or behind a seq whose file holds this time or a later one."""
        start = bisect.bisect_left(self.lasts, seq)
        return bisect.bisect_left(self.ts_maxs, ts, lo=start)


def succeeded(
    old: Cold | None, manifest: int, files: Sequence[LakeFile], floor: int
) -> tuple[Cold, int]:
    """The projection of a newer manifest, and how much less counts now.

    What leaves below the floor is counted already. Who replaces files replaces whole ones, so what
    counted for them is what may count for the new one.
    """
    if old is None:
        return Cold.of_files(manifest, files, {}, released=0), 0
    known = dict(zip(old.contents, range(len(old)), strict=True))
    payloads = old.known_payloads()
    fresh = {content: file for file in files if (content := _content(file)) not in known}
    staying = {_content(file) for file in files} - set(fresh)
    budgets = {
        place: old.counted(place) if old.counted_last(place) >= floor else 0
        for place in range(len(old))
        if old.contents[place] not in staying and old.firsts[place] <= old.released
    }
    left = sum(budgets.values())
    part = old.released_part if _straddler(old) in staying else 0
    came = 0
    for content, file in fresh.items():
        if file.first_seq > old.released:
            continue
        counts = _take(old, budgets, file)
        came += counts
        if file.last_seq > old.released:
            part = counts
        else:
            payloads[content] = counts
    new = Cold.of_files(manifest, files, payloads, released=old.released, released_part=part)
    return new, left - came


def _take(old: Cold, budgets: dict[int, int], file: LakeFile) -> int:
    """How much of what counted for the files in its place a new file counts for."""
    start = bisect.bisect_left(old.lasts, file.first_seq)
    taken = 0
    for place in range(start, len(old)):
        if old.firsts[place] > file.last_seq:
            break
        share = min(budgets.get(place, 0), file.payload - taken)
        if share:
            budgets[place] -= share
            taken += share
    return taken


def _straddler(cold: Cold) -> int:
    """The content of the file that begins at or before ``released`` and ends behind it, or -1."""
    place = cold.find(cold.released)
    return cold.contents[place] if place >= 0 and cold.lasts[place] > cold.released else -1


def _content(file: LakeFile) -> int:
    return int(file.content[:_CONTENT_DIGITS], 16)
