"""Merges small files of a lake into large ones, without the rows that are gone.

Files of topics, in order of seq, and those of event tables (``NAME:table``), by context and time.

    1 take the newest manifest of each topic, choose groups of files (``compaction_planner.py``)
    2 tasks write one file for each group, uploaded and read back (``compaction_task.py``)
    3 each that is finished is committed at once: out the old files, in the new one, and what was
      deleted in them need no longer be hidden

The store may be open meanwhile, here or elsewhere, and move, delete and rewrite; other compactions
may run. A commit is refused when one of the files has left since; then the group is skipped, what
was written for it is deleted, and the summary tells. A reader of an older version goes on: files
that left stay for ``lake.grace_s``, and the store sweeps them.

Killed at any point: what was committed stays, what was only uploaded is named by no manifest and
swept as an orphan, and the next compaction plans from what it finds. A file that is damaged, and
its group with it, is left as it is and told of; everything else goes on.
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
from strandline.lake.manifest.manifest_commit import Ledger
from strandline.log.progress import Progress
from strandline.pipelines.compaction.compaction_planner import Group, dead_rows, groups_of
from strandline.pipelines.compaction.compaction_task import Merged, Merging, merge
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import OpenLake, open_lake
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.views.table.files.layout import side_key


class SkippedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Files that were left as they are, though they were to be merged."""

    topic: str
    first_seq: int
    last_seq: int
    files: int
    """All three 0 when the topic's manifests cannot be read."""
    reason: str
    damaged: bool = False
    """Whether that is because of bad bytes: run ``strandline pipeline run scrub``."""


class CompactSummary(msgspec.Struct, kw_only=True):
    """What a compaction did, or with ``dry_run`` would do."""

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
    """Rows that were gone, and now are in no file. With ``dry_run`` those known to be."""
    bytes_before: int = 0
    bytes_after: int = 0
    """Stored bytes. With ``dry_run`` those that nothing would be done to, and of groups the old."""
    bytes_read: int = 0
    bytes_written: int = 0
    let_go: int = 0
    """Records that key-value views no longer need, and that left the log before
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
    """Compact topics (names or patterns; all without any) of the lake of a store, or at a url.

    ``engine`` runs the tasks: ``Embedded()`` unless told otherwise, or a function that chooses one
    by the stored bytes of what there is to do. Of the settings ``file_bytes``, ``dead_share``,
    ``zone_rows`` and ``zone_bytes`` count. ``options`` are those of the object store, ``spool`` is
    a folder for files that wait to be uploaded.
    """
    wanted = check_settings(settings or LakeSettings())
    with closing(open_lake(lake, options=options)) as opened:
        merging = Merging(
            place=opened.place,
            zone_rows=wanted.zone_rows,
            zone_bytes=wanted.zone_bytes,
            spool=spool,
        )
        run = _Compaction(opened, merging, wanted, clock or SystemClock(), progress)
        return run.run(topics, engine or Embedded(), dry_run=dry_run)


def check_settings(settings: LakeSettings) -> LakeSettings:
    """The settings themselves, or an error."""
    if settings.file_bytes < 1 or not 0 <= settings.dead_share <= 1:
        raise Invalid("file_bytes is 1 or more, dead_share from 0 to 1")
    return settings


class _Compaction:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self,
        lake: OpenLake,
        merging: Merging,
        settings: LakeSettings,
        clock: Clock,
        progress: Progress | None,
    ) -> None:
        self._lake = lake
        self._merging = merging
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._ledgers: dict[int, Ledger] = {}
        self._summary = CompactSummary(lake=lake.objects.name)
        self._summary.skipped = []

    def run(
        self, topics: Sequence[str], engine: Engine | Chooser, *, dry_run: bool
    ) -> CompactSummary:
        begun_s = self._clock.monotonic()
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
            dead = {manifest.topic_id: manifest for manifest in manifests}
            for group in groups:
                known = sum(dead_rows(dead[group.topic_id], file) for file in group.files)
                self._merged(group, 1, known, 0)
        else:
            self._run(chosen, groups)
        summary.seconds = self._clock.monotonic() - begun_s
        return summary

    def _run(self, engine: Engine, groups: list[Group]) -> None:
        # The largest first: the last to finish is then a small one.
        groups.sort(key=lambda group: -group.size)
        objects = self._lake.objects if engine.in_process else None
        work = partial(merge, self._merging, objects=objects)
        done, total = 0, sum(group.size for group in groups)
        for place, merged in engine.run(work, groups):
            group = groups[place]
            self._settle(group, merged)
            done += group.size
            if self._progress is not None:
                self._progress("compact", done, total)

    def _plan(self, manifests: Sequence[Manifest]) -> Iterator[Group]:
        wanted = self._settings
        for manifest in manifests:
            yield from groups_of(
                manifest, file_bytes=wanted.file_bytes, dead_share=wanted.dead_share
            )

    def _settle(self, group: Group, merged: Merged) -> None:
        """Commit what a task wrote, or say why not."""
        if merged.damage:
            self._skip(group, merged.damage, damaged=True)
            return
        ledger = self._ledger(group.topic_id)
        if merged.file is None:
            lost = ledger.load().named(merged.missing) is not None
            reason = f"{merged.missing} is missing" if lost else f"{merged.missing} has left"
            self._skip(group, reason, damaged=lost)
            return
        new, names = merged.file, [file.name() for file in group.files]
        at_us = self._clock.now_us()
        # What is hidden in a table its store knows, too, and would tell the manifest again.
        hidden = BitMap64() if group.is_of_table else group.hidden()
        try:
            ledger.commit(lambda old: old.with_replaced(names, [new], at_us=at_us, purged=hidden))
        except Conflict as error:
            # Refused, so no version that counts lists it, nor will one: its name is its own.
            self._lake.objects.delete(_objects_of(group, new))
            self._skip(group, f"somebody else was first: {error}")
            return
        self._merged(group, 1, merged.dropped, new.size)

    def _ledger(self, topic_id: int) -> Ledger:
        """Without a term: a store that opens meanwhile does not fence us, nor we it."""
        if topic_id not in self._ledgers:
            self._ledgers[topic_id] = Ledger(
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

    def _merged(self, group: Group, files: int, dropped: int, size: int) -> None:
        summary = self._summary
        summary.groups += 1
        summary.files_after += files - len(group.files)
        summary.rows_after -= dropped
        summary.rows_dropped += dropped
        if size:
            summary.bytes_read += group.size
            summary.bytes_written += size
            summary.bytes_after += size - group.size

    def _skip(self, group: Group, reason: str, *, damaged: bool = False) -> None:
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


def _objects_of(group: Group, file: LakeFile) -> list[str]:
    """A file, and the indexes beside it."""
    found = [object_keys.data_key(group.topic_id, file.name())]
    return [*found, side_key(group.topic_id, file.name())] if group.is_of_table else found
