"""One version of a topic in the lake: its live files, and the seqs that are hidden in them. Pure.

A manifest is a value. A change returns a new one, or raises ``Conflict`` when it no longer fits
because another commit was first. Every change is idempotent: a change that changes nothing returns
the same object. So a writer that does not know whether its commit happened repeats the change.

Rules, which a decoder checks too:

1. Live files are sorted by seq and do not overlap.
2. A file that leaves goes into ``removed``, with the number of the first manifest that does not
   name it, and stays there until its object is deleted. Its name is never used again: a file's
   bytes hold a random id, its name holds their hash, and while it is in ``removed`` it is rejected.
3. So a file in ``removed`` is named by no manifest from its number on, which is all that
   ``lake/gc.py`` relies on.
4. Every live file that has typed columns has its schema in ``schemas``.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from pyroaring import BitMap64

from strandline.errors import Conflict, Invalid
from strandline.lake.manifest.file_entry import LakeFile
from strandline.schema import NO_SCHEMA, Schema

_first_seq = attrgetter("first_seq")
_NAME_DIGITS = 20
_COMPARE_STEP = 1024


class RemovedFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file that left, whose object may still exist."""

    name: str
    number: int
    """The first manifest that does not name it."""
    at_us: int
    """When it left."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A version of one topic in the lake. Immutable, its bitmap included."""

    number: int
    topic_id: int
    name: str
    epoch: int
    term: int = 0
    """The highest term of all commits."""
    created_us: int
    """When this version was created."""
    floor: int = 1
    """Records below are removed."""
    oldest: int = 1
    """The number of a full manifest: versions before it are no longer retained."""
    files: tuple[LakeFile, ...] = ()
    deleted: BitMap64 | None = None
    """Seqs that are hidden although a file may hold them. Never changed in place."""
    removed: tuple[RemovedFile, ...] = ()
    dropped: bool = False
    """The topic was deleted."""
    schemas: tuple[Schema, ...] = ()
    """The versions that live files have, and last the newest, for new files."""

    @property
    def schema(self) -> Schema:
        """The newest schema: new files have these typed columns."""
        return self.schemas[-1] if self.schemas else NO_SCHEMA

    @property
    def last_seq(self) -> int:
        """The last seq that the lake covers: it is in a file, or below the floor."""
        return max(self.floor - 1, self.files[-1].last_seq if self.files else 0)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all live files."""
        return sum(file.size for file in self.files)

    def file_at(self, seq: int) -> LakeFile | None:
        """The file that covers a seq."""
        index = bisect.bisect_right(self.files, seq, key=_first_seq) - 1
        if index >= 0 and seq <= self.files[index].last_seq:
            return self.files[index]
        return None

    def files_between(self, first_seq: int, last_seq: int) -> Sequence[LakeFile]:
        """The files that cover any of these seqs, both ends included."""
        start = bisect.bisect_left(self.files, first_seq, key=attrgetter("last_seq"))
        following = bisect.bisect_right(self.files, last_seq, key=_first_seq)
        return self.files[start:following]

    def find_file(self, name: str) -> LakeFile | None:
        """The live file of this name."""
        digits = name[:_NAME_DIGITS]
        file = self.file_at(int(digits)) if digits.isdecimal() else None
        return file if file is not None and file.name() == name else None

    def with_added(self, files: Iterable[LakeFile]) -> Manifest:
        """Add live files."""
        new = [file for file in files if self.find_file(file.name()) != file]
        if not new:
            return self
        self._check_new(new)
        for file in new:
            if file.last_seq < self.floor:
                raise Conflict(f"{file.name()} is all below the floor, which is now {self.floor}")
        merged, problem = merge(self.files, new)
        if problem:
            raise Conflict(f"cannot add: {problem}")
        return msgspec.structs.replace(self, files=merged)

    def with_replaced(
        self,
        old: Iterable[str],
        new: Iterable[LakeFile],
        *,
        at_us: int,
        purged: BitMap64 | None = None,
    ) -> Manifest:
        """Replace files by new ones for the same seqs, without the seqs in ``purged``."""
        names = set(old)
        fresh = tuple(sorted(new, key=_first_seq))
        live = {name: file for name in names if (file := self.find_file(name)) is not None}
        if not live and all(self.find_file(file.name()) == file for file in fresh):
            return self
        if len(live) < len(names):
            raise Conflict(f"no longer live: {', '.join(sorted(names - set(live)))}")
        staying = {file.name() for file in fresh} & names
        self._check_new([file for file in fresh if file.name() not in staying])
        replaced = sorted(live.values(), key=_first_seq)
        problem = find_disorder(fresh)
        if problem or _covered(replaced) != _covered(fresh):
            raise Invalid(f"new files must cover the same seqs as the old: {problem or replaced}")
        replaced_seqs = {file.first_seq for file in replaced}
        unchanged = [file for file in self.files if file.first_seq not in replaced_seqs]
        deleted = self.deleted - purged if self.deleted and purged else self.deleted
        return msgspec.structs.replace(
            self,
            files=tuple(sorted((*unchanged, *fresh), key=_first_seq)),
            deleted=deleted or None,
            removed=self._removed_with((name for name in live if name not in staying), at_us),
        )

    def with_floor(self, floor: int, *, at_us: int) -> Manifest:
        """Raise the floor; files that lie entirely below it leave."""
        if floor <= self.floor:
            return self
        following = bisect.bisect_left(self.files, floor, key=attrgetter("last_seq"))
        return msgspec.structs.replace(
            self,
            floor=floor,
            files=self.files[following:],
            deleted=_from(self.deleted, floor),
            removed=self._removed_with((each.name() for each in self.files[:following]), at_us),
        )

    def with_deleted(self, seqs: BitMap64) -> Manifest:
        """Hide these seqs, also in files that are added later."""
        new = _from(seqs, self.floor)
        if new is None or (self.deleted is not None and new <= self.deleted):
            return self
        return msgspec.structs.replace(
            self, deleted=new if self.deleted is None else self.deleted | new
        )

    def with_schema(self, schema: Schema) -> Manifest:
        """Set the typed columns of new files.

        The version is that of the schema, or the next number if other fields have that version: a
        store that lost its newest records counts it a second time.
        """
        newest = self.schema
        if schema.fields == newest.fields and schema.version <= newest.version:
            return self
        version = max(schema.version, newest.version + 1)
        used = {file.schema_version for file in self.files}
        older = [old for old in self.schemas if old.version in used]
        return msgspec.structs.replace(self, schemas=(*older, Schema(version, schema.fields)))

    def with_epoch(self, epoch: int) -> Manifest:
        return self if epoch == self.epoch else msgspec.structs.replace(self, epoch=epoch)

    def with_oldest(self, oldest: int) -> Manifest:
        """Release the versions before this full manifest."""
        return self if oldest <= self.oldest else msgspec.structs.replace(self, oldest=oldest)

    def with_dropped(self, *, at_us: int) -> Manifest:
        """Delete the topic: every file leaves, and none can be added."""
        if self.dropped:
            return self
        return msgspec.structs.replace(
            self,
            files=(),
            deleted=None,
            removed=self._removed_with((file.name() for file in self.files), at_us),
            dropped=True,
        )

    def with_condemned(self, names: Iterable[str], *, at_us: int) -> Manifest:
        """Treat objects that no manifest names as files that left just now."""
        known = {entry.name for entry in self.removed}
        orphans = [name for name in names if name not in known and self.find_file(name) is None]
        if not orphans:
            return self
        return msgspec.structs.replace(self, removed=self._removed_with(orphans, at_us))

    def without_removed(self, names: Iterable[str]) -> Manifest:
        """Remove the entries of files whose objects are deleted."""
        deleted = set(names)
        remaining = tuple(entry for entry in self.removed if entry.name not in deleted)
        if len(remaining) == len(self.removed):
            return self
        return msgspec.structs.replace(self, removed=remaining)

    def _check_new(self, files: Iterable[LakeFile]) -> None:
        if self.dropped:
            raise Conflict(f"topic {self.name!r} was deleted from the lake")
        leaving = {entry.name for entry in self.removed}
        known = {0, *(schema.version for schema in self.schemas)}
        for file in files:
            if file.schema_version not in known:
                raise Conflict(f"{file.name()} has an older schema: write it again")
            if not 1 <= file.first_seq <= file.last_seq:
                raise Invalid(f"{file.name()} covers no seqs")
            if file.name() in leaving:
                raise Conflict(f"{file.name()} has left and may be deleted: upload a new file")

    def _removed_with(self, names: Iterable[str], at_us: int) -> tuple[RemovedFile, ...]:
        leaving = (RemovedFile(name, self.number + 1, at_us) for name in names)
        return (*self.removed, *leaving)


def find_disorder(files: Sequence[LakeFile]) -> str:
    """The problem with the order of files, empty when there is none."""
    last_seq = 0
    for file in files:
        if not last_seq < file.first_seq <= file.last_seq:
            return f"{file.name()} overlaps another file"
        last_seq = file.last_seq
    return ""


def merge(files: Iterable[LakeFile], new: Iterable[LakeFile]) -> tuple[tuple[LakeFile, ...], str]:
    """Files with new ones sorted in, and the problem with their order, empty when there is none."""
    merged = list(files)
    for file in new:
        bisect.insort(merged, file, key=_first_seq)
    for file in new:
        index = bisect.bisect_left(merged, file.first_seq, key=_first_seq)
        problem = find_disorder(merged[max(0, index - 1) : index + 2])
        if problem:
            return (), problem
    return tuple(merged), ""


def difference(
    old: Sequence[LakeFile], new: Sequence[LakeFile]
) -> tuple[list[LakeFile], list[LakeFile]]:
    """The files that left and those that were added. Usually all old files are still there."""
    same = 0
    while same < len(old) and old[same : same + _COMPARE_STEP] == new[same : same + _COMPARE_STEP]:
        same += _COMPARE_STEP
    old_files = {file.first_seq: file for file in old[same:]}
    new_files = {file.first_seq: file for file in new[same:]}
    return (
        [file for seq, file in old_files.items() if new_files.get(seq) != file],
        [file for seq, file in new_files.items() if old_files.get(seq) != file],
    )


def _covered(files: Iterable[LakeFile]) -> list[tuple[int, int]]:
    """The seqs that sorted files cover, as the fewest runs."""
    runs: list[tuple[int, int]] = []
    for file in files:
        if runs and runs[-1][1] + 1 == file.first_seq:
            runs[-1] = (runs[-1][0], file.last_seq)
        else:
            runs.append((file.first_seq, file.last_seq))
    return runs


def _from(seqs: BitMap64 | None, floor: int) -> BitMap64 | None:
    """The seqs at or above a floor, None when there are none."""
    if not seqs:
        return None
    remaining = BitMap64(seqs)
    remaining.remove_range(0, floor)
    return remaining or None
