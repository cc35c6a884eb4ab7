"""Selects the files that a compaction merges: neighbours that together make one large file. Pure.

    large        a file of half the target payload or more: left unchanged
    mostly dead  a file of which more than ``dead_share`` is removed: rewritten, and merged if small
    small        all others: merged with neighbours in order of seq, up to the target payload

A file of an eighth of the target or more that is larger than all files that would be added to it is
left out of the group. So repeated compactions of a growing topic rewrite a row a few times, not
each time.

A group is whole files with no seq missing between them, and becomes one file that covers the same
seqs. It drops the rows that the manifest has removed: below the floor, or deleted. Typed columns
are those of the newest schema, computed again from the records. Files of event tables are selected
in the same way, and merged in their own order (``table_compaction_task.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.schema import NO_SCHEMA, Schema
from strandline.views.table.files.layout import is_table


class FileGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A task: files that become one."""

    topic: str
    topic_id: int
    floor: int
    """Rows with a lower seq are removed."""
    deleted: bytes
    """The deleted seqs of these files, as a bitmap."""
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


def groups_of(manifest: Manifest, *, file_bytes: int, dead_share: float) -> list[FileGroup]:
    """The groups to merge in a topic, the oldest first."""
    groups = []
    for files in _runs(manifest, file_bytes):
        chosen = _without_large_head(manifest, files, file_bytes, dead_share)
        if chosen:
            groups.append(_group(manifest, chosen))
    return groups


def dead_rows(manifest: Manifest, file: LakeFile) -> int:
    """Removed rows of a file, at least: a deleted seq need not have a row in this file."""
    first_seq = max(file.first_seq, manifest.floor)
    live = max(0, file.last_seq - first_seq + 1)
    if live and manifest.deleted:
        live -= manifest.deleted.range_cardinality(first_seq, file.last_seq + 1)
    return max(0, file.rows - live)


def _runs(manifest: Manifest, file_bytes: int) -> Iterator[list[LakeFile]]:
    """Runs of files that fit into one file; each large file is a run of its own."""
    run: list[LakeFile] = []
    payload = 0
    for file in manifest.files:
        added = _live_payload(manifest, file)
        is_large = added * 2 >= file_bytes
        does_not_fit = bool(run) and (
            run[-1].last_seq + 1 != file.first_seq or payload + added > file_bytes
        )
        if run and (is_large or does_not_fit):
            yield run
            run, payload = [], 0
        run.append(file)
        payload += added
        if is_large:
            yield run
            run, payload = [], 0
    if run:
        yield run


def _without_large_head(
    manifest: Manifest, files: Sequence[LakeFile], file_bytes: int, dead_share: float
) -> Sequence[LakeFile]:
    """The files without leading ones that are larger than all that follow, and not mostly dead."""
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


def _group(manifest: Manifest, files: Sequence[LakeFile]) -> FileGroup:
    first_seq, last_seq = files[0].first_seq, files[-1].last_seq
    deleted = b""
    if manifest.deleted and manifest.deleted.range_cardinality(first_seq, last_seq + 1):
        deleted = (manifest.deleted & BitMap64(range(first_seq, last_seq + 1))).serialize()
    return FileGroup(
        topic=manifest.name,
        topic_id=manifest.topic_id,
        floor=manifest.floor,
        deleted=deleted,
        files=tuple(files),
        schema=manifest.schema,
        schemas=manifest.schemas if is_table(manifest.topic_id) else (),
    )
