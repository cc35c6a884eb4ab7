"""Merges small files of a lake into large ones, and drops removed rows.

Files of topics are merged in order of seq, those of event tables (``NAME:table``) by context and
time.

    1 read the newest manifest of each topic, select groups of files (``compaction_planner.py``)
    2 tasks write one file for each group, upload it and read it back (``compaction_task.py``)
    3 each finished group is committed at once: the new file replaces the old ones, and the rows
      that were deleted in them need no longer be hidden

The store may be open at the same time, in any process, and relocate, delete and rewrite; other
compactions may run. A commit is rejected when one of the files has left the manifest since; then
the group is skipped, its new file is deleted, and the summary reports it. Readers of an older
version continue: replaced files stay for ``lake.grace_s``, then the store deletes them.

Killed at any point: commits stay, files that were only uploaded are in no manifest and are deleted
as orphans, and the next compaction makes a new plan. A damaged file is left unchanged with its
group, and reported; the other groups continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import msgspec
from pyroaring import BitMap64

from strandline.config.settings import LakeSettings
from strandline.errors import Conflict, Invalid
from strandline.lake import object_keys
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestCommitter
from strandline.log.progress import Progress
from strandline.pipelines.compaction.compaction_planner import FileGroup, dead_rows, groups_of
from strandline.pipelines.compaction.compaction_task import MergeResult, MergeSettings, merge
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import OpenLake, open_lake
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.views.table.files.layout import index_key


class SkippedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Files that were to be merged, and were left unchanged."""

    topic: str
    first_seq: int
    last_seq: int
    files: int
    """All three 0 when the topic's manifests cannot be read."""
    reason: str
    damaged: bool = False
    """Whether the reason is damage: run ``strandline pipeline run scrub``."""


class CompactSummary(msgspec.Struct, kw_only=True):
    """The result of a compaction, or with ``dry_run`` its plan."""

    lake: str
    engine: str = ""
    dry_run: bool = False
    topics: int = 0
    groups: int = 0
    """Groups of files that were merged."""
    files_before: int = 0
    files_after: int = 0
    rows_before: int = 0
    rows_after: int = 0
    rows_dropped: int = 0
    """Removed rows that are no longer in any file. With ``dry_run`` those known to be removed."""
    bytes_before: int = 0
    bytes_after: int = 0
    """Stored bytes. With ``dry_run`` the same as before: the sizes of new files are not known."""
    bytes_read: int = 0
    bytes_written: int = 0
    released_records: int = 0
    """Records that key-value views no longer need, and that were removed from the log first
    (``compact_by_key.py``).
    """
    seconds: float = 0.0
    skipped: list[SkippedGroup] = []

    @property
    def damaged(self) -> list[SkippedGroup]:
        return [each for each in self.skipped if each.damaged]


def compact(
    lake: str | Store | Objects,
    topics: Sequence[str] = (),
    *,
    engine: Engine | Chooser | None = None,
    settings: LakeSettings | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    options: Mapping[str, str] | None = None,
    spool: str = "",
    clock: Clock | None = None,
) -> CompactSummary:
    """Compact topics (names or patterns; by default all) of the lake of a store, or at a url.

    ``engine`` runs the tasks: by default ``Embedded()``, or a function that chooses one by the
    stored bytes of the selected files. Of the settings only ``file_bytes``, ``dead_share``,
    ``zone_rows`` and ``zone_bytes`` are used. ``options`` are those of the object store, ``spool``
    is a folder for files that wait to be uploaded.
    """
    settings = check_settings(settings or LakeSettings())
    with closing(open_lake(lake, options=options)) as opened:
        merging = MergeSettings(
            place=opened.location,
            zone_rows=settings.zone_rows,
            zone_bytes=settings.zone_bytes,
            spool=spool,
        )
        run = _Compaction(opened, merging, settings, clock or SystemClock(), progress)
        return run.run(topics, engine or Embedded(), dry_run=dry_run)


def check_settings(settings: LakeSettings) -> LakeSettings:
    """The settings themselves; Invalid if one is out of range."""
    if settings.file_bytes < 1 or not 0 <= settings.dead_share <= 1:
        raise Invalid("file_bytes is 1 or more, dead_share from 0 to 1")
    return settings


class _Compaction:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self,
        lake: OpenLake,
        merging: MergeSettings,
        settings: LakeSettings,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        self._lake = lake
        self._merging = merging
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._ledgers: dict[int, ManifestCommitter] = {}
        self._summary = CompactSummary(lake=lake.objects.name)
        self._summary.skipped = []

    def run(
        self, topics: Sequence[str], engine: Engine | Chooser, *, dry_run: bool
    ) -> CompactSummary:
        started_s = self._clock.monotonic()
        summary = self._summary
        chosen_topics = self._lake.manifests(topics)
        manifests = chosen_topics.manifests
        self._count(manifests)
        for name, reason in chosen_topics.damaged.values():
            self._summary.skipped.append(
                SkippedGroup(
                    topic=name, first_seq=0, last_seq=0, files=0, reason=reason, damaged=True
                )
            )
        groups = list(self._plan(manifests))
        chosen = engine(sum(group.size for group in groups)) if callable(engine) else engine
        summary.engine, summary.dry_run = chosen.name, dry_run
        if dry_run:
            by_topic = {manifest.topic_id: manifest for manifest in manifests}
            for group in groups:
                dead = sum(dead_rows(by_topic[group.topic_id], file) for file in group.files)
                self._count_merge(group, 1, dead, 0)
        else:
            self._run(chosen, groups)
        summary.seconds = self._clock.monotonic() - started_s
        return summary

    def _run(self, engine: Engine, groups: list[FileGroup]) -> None:
        # The largest first, so that the last to finish is a small one.
        groups.sort(key=lambda group: -group.size)
        objects = self._lake.objects if engine.in_process else None
        work = partial(merge, self._merging, objects=objects)
        done, total = 0, sum(group.size for group in groups)
        for index, merged in engine.run(work, groups):
            group = groups[index]
            self._commit(group, merged)
            done += group.size
            if self._progress is not None:
                self._progress("compact", done, total)

    def _plan(self, manifests: Sequence[Manifest]) -> Iterator[FileGroup]:
        settings = self._settings
        for manifest in manifests:
            yield from groups_of(
                manifest, file_bytes=settings.file_bytes, dead_share=settings.dead_share
            )

    def _commit(self, group: FileGroup, merged: MergeResult) -> None:
        """Commit the new file of a task, or report why it cannot be committed."""
        if merged.damage:
            self._skip(group, merged.damage, damaged=True)
            return
        ledger = self._ledger(group.topic_id)
        if merged.file is None:
            is_lost = ledger.load().find_file(merged.missing) is not None
            reason = f"{merged.missing} is missing" if is_lost else f"{merged.missing} has left"
            self._skip(group, reason, damaged=is_lost)
            return
        new_file, names = merged.file, [file.name() for file in group.files]
        at_us = self._clock.now_us()
        # The store of a table keeps its hidden seqs too, and would add them to the manifest again.
        hidden = BitMap64() if group.is_of_table else group.hidden()
        try:
            ledger.commit(
                lambda old: old.with_replaced(names, [new_file], at_us=at_us, purged=hidden)
            )
        except Conflict as error:
            # Rejected, so no valid version lists the file, now or later: its name is unique.
            self._lake.objects.delete(_objects_of(group, new_file))
            self._skip(group, f"another writer was first: {error}")
            return
        self._count_merge(group, 1, merged.dropped, new_file.size)

    def _ledger(self, topic_id: int) -> ManifestCommitter:
        """Without a term: a store that opens meanwhile and this run do not fence each other."""
        if topic_id not in self._ledgers:
            self._ledgers[topic_id] = ManifestCommitter(
                self._lake.objects,
                self._lake.store_id,
                topic_id,
                self._clock,
                OsDisk().random_id,
            )
        return self._ledgers[topic_id]

    def _count(self, manifests: Sequence[Manifest]) -> None:
        summary = self._summary
        summary.topics = len(manifests)
        summary.files_before = summary.files_after = sum(len(each.files) for each in manifests)
        summary.rows_before = summary.rows_after = sum(each.rows for each in manifests)
        summary.bytes_before = summary.bytes_after = sum(each.size for each in manifests)

    def _count_merge(self, group: FileGroup, files: int, dropped: int, size: int) -> None:
        summary = self._summary
        summary.groups += 1
        summary.files_after += files - len(group.files)
        summary.rows_after -= dropped
        summary.rows_dropped += dropped
        if size:
            summary.bytes_read += group.size
            summary.bytes_written += size
            summary.bytes_after += size - group.size

    def _skip(self, group: FileGroup, reason: str, *, damaged: bool = False) -> None:
        self._summary.skipped.append(
            SkippedGroup(
                topic=group.topic,
                first_seq=group.first_seq,
                last_seq=group.last_seq,
                files=len(group.files),
                reason=reason,
                damaged=damaged,
            )
        )


def _objects_of(group: FileGroup, file: LakeFile) -> list[str]:
    """The keys of a file and of its indexes."""
    keys = [object_keys.data_key(group.topic_id, file.name())]
    return [*keys, index_key(group.topic_id, file.name())] if group.is_of_table else keys
