"""Which files of a topic a compaction merges: neighbours that together make one large file. Pure.

    large        a file of half the wanted payload or more: left alone
    mostly dead  a file of which more than ``dead_share`` is gone: rewritten, merged if it is small
    small        all others: neighbours in order of seq, up to the wanted payload

A file of an eighth or more that is larger than all that would be added to it is left out of the
group. So whoever compacts a growing topic again and again rewrites a row a few times, not always.

A group is whole files with no seq missing between them, and becomes one file that answers for the
same seqs. What it drops is what the manifest calls gone: below the floor, or deleted. Typed columns
are those of the newest schema, made anew from the records. Files of event tables are chosen alike,
and merged in their own order (``table_compaction_task.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.table.files.layout import is_table


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Files that become one. A task of a compaction."""

    topic: str
    topic_id: int
    floor: int
    """Rows with a seq below are gone."""
    deleted: bytes
    """The seqs of these files that are gone, as a bitmap."""
    files: tuple[LakeFile, ...]
    schema: Schema = NO_SCHEMA
    """The typed columns of the new file."""
    schemas: tuple[Schema, ...] = ()
    """The versions that files of an event table were written in."""

    @property
    def is_of_table(self) -> bool:
        """Whether the files are those of an event table."""
        return is_table(self.topic_id)

    @property
    def first_seq(self) -> int:
        return self.files[0].first_seq

    @property
    def last_seq(self) -> int:
        return self.files[-1].last_seq

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Stored bytes."""
        return sum(file.size for file in self.files)

    def hidden(self) -> BitMap64:
        return BitMap64.deserialize(self.deleted) if self.deleted else BitMap64()


def groups_of(manifest: Manifest, *, file_bytes: int, dead_share: float) -> list[Group]:
    """What there is to merge in a topic, the oldest first."""
    found = []
    for files in _neighbours(manifest, file_bytes):
        chosen = _worth_it(manifest, files, file_bytes, dead_share)
        if chosen:
            found.append(_group(manifest, chosen))
    return found


def dead_rows(manifest: Manifest, file: LakeFile) -> int:
    """Rows of a file that are gone, at least. A seq that was deleted need not have a row here."""
    first_seq = max(file.first_seq, manifest.floor)
    live = max(0, file.last_seq - first_seq + 1)
    if live and manifest.deleted:
        live -= manifest.deleted.range_cardinality(first_seq, file.last_seq + 1)
    return max(0, file.rows - live)


def _neighbours(manifest: Manifest, file_bytes: int) -> Iterator[list[LakeFile]]:
    """Runs of files that fit into one, each large one alone."""
    run: list[LakeFile] = []
    payload = 0
    for file in manifest.files:
        added = _live_payload(manifest, file)
        large = added * 2 >= file_bytes
        apart = bool(run) and (
            run[-1].last_seq + 1 != file.first_seq or payload + added > file_bytes
        )
        if run and (large or apart):
            yield run
            run, payload = [], 0
        run.append(file)
        payload += added
        if large:
            yield run
            run, payload = [], 0
    if run:
        yield run


def _worth_it(
    manifest: Manifest, files: Sequence[LakeFile], file_bytes: int, dead_share: float
) -> Sequence[LakeFile]:
    """The files without those in front that are larger than all the rest, and not dead."""
    chosen = list(files)
    while len(chosen) > 1:
        first, *rest = chosen
        if _is_mostly_dead(manifest, first, dead_share):
            return chosen
        added = sum(_live_payload(manifest, each) for each in rest)
        if _live_payload(manifest, first) <= max(added, file_bytes // 8):
            return chosen
        chosen = rest
    if chosen and _is_mostly_dead(manifest, chosen[0], dead_share):
        return chosen
    return ()


def _is_mostly_dead(manifest: Manifest, file: LakeFile, dead_share: float) -> bool:
    return dead_rows(manifest, file) > dead_share * file.rows


def _live_payload(manifest: Manifest, file: LakeFile) -> int:
    if not file.rows:
        return 0
    return file.payload * (file.rows - dead_rows(manifest, file)) // file.rows


def _group(manifest: Manifest, files: Sequence[LakeFile]) -> Group:
    first_seq, last_seq = files[0].first_seq, files[-1].last_seq
    deleted = b""
    if manifest.deleted and manifest.deleted.range_cardinality(first_seq, last_seq + 1):
        deleted = (manifest.deleted & BitMap64(range(first_seq, last_seq + 1))).serialize()
    return Group(
        topic=manifest.name,
        topic_id=manifest.topic_id,
        floor=manifest.floor,
        deleted=deleted,
        files=tuple(files),
        schema=manifest.schema,
        schemas=manifest.schemas if is_table(manifest.topic_id) else (),
    )
