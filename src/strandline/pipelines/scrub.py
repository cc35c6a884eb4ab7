"""Reads every byte of a lake again, many files in parallel, and reports damage.

    driver   the identity of the lake, terms, names, and every kept manifest of the selected
             topics; with the folder of the store also its checkpoints, log and segments
             (``log/repair/verify.py``)
    tasks    all bytes of every live file, compared with the hash in its manifest

Nothing is changed or repaired: that is the work of the store's own scrub job. The store may be open
at the same time. Damage is checked a second time, and files that have left the lake since are not
reported. Reading changes nothing, so a run that was killed is started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import msgspec

from strandline.config.settings import MIB, Settings
from strandline.errors import Corrupt, Invalid, NotFound
from strandline.lake import object_keys, verify
from strandline.lake.files.file_reader import LakeFileReader
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.progress import Progress, silent
from strandline.log.repair.verify import VerifyProblem, verify_store
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.lake_selection import (
    LakeLocation,
    OpenLake,
    SelectedTopics,
    objects_at,
    open_lake,
)
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.views.table.files.layout import is_table
from strandline.views.table.files.verify import check_indexes_of

_TASK_BYTES = 256 * MIB


class FilesToCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A task: some files of a topic."""

    topic: str
    topic_id: int
    files: tuple[LakeFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class BadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a task that differs from its manifest."""

    file: LakeFile
    path: str
    reason: str


class ScrubFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged place."""

    path: str
    kind: str
    """lake, or a kind of ``strandline verify``: system, closed, checkpoint, wal, segment."""
    reason: str
    offset: int = 0
    topic: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None


class ScrubSummary(msgspec.Struct, kw_only=True):
    """What was read and found."""

    lake: str
    engine: str = ""
    dry_run: bool = False
    """Whether the work was only planned: then files and bytes are those that would be read."""
    topics: int = 0
    files: int = 0
    """Live files of the lake."""
    bytes_read: int = 0
    local_files: int = 0
    """Checkpoints, log files and segments, if the store's folder was given."""
    seconds: float = 0.0
    findings: list[ScrubFinding] = []

    @property
    def ok(self) -> bool:
        return not self.findings


def scrub(
    lake: str | Store | Objects,
    topics: Sequence[str] = (),
    *,
    engine: Engine | Chooser | None = None,
    store: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
    options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> ScrubSummary:
    """Check topics (names or patterns; by default all) of the lake of a store, or at a url.

    ``store`` is the folder of the store, if its own files are to be checked too.
    """
    clock, disk = clock or SystemClock(), disk or OsDisk()
    started_s = clock.monotonic()
    with closing(open_lake(lake, options=options, disk=disk)) as opened:
        summary = ScrubSummary(lake=opened.objects.name, dry_run=dry_run)
        summary.findings = []
        selected = opened.manifests(topics)
        manifests = selected.manifests
        tasks = list(_tasks(manifests))
        summary.topics = len(manifests)
        summary.files = sum(len(task.files) for task in tasks)
        total = sum(task.size for task in tasks)
        engine_or_chooser: Engine | Chooser = engine or Embedded()
        chosen = engine_or_chooser(total) if callable(engine_or_chooser) else engine_or_chooser
        summary.engine = chosen.name
        if dry_run:
            summary.bytes_read = total
        else:
            if store:
                _check_local(disk, store, summary, progress)
            _check_manifests(opened, selected, summary)
            _check_files(opened, chosen, tasks, summary, progress)
    summary.seconds = clock.monotonic() - started_s
    return summary


def check_files(
    place: LakeLocation, task: FilesToCheck, *, objects: Objects | None = None
) -> list[BadFile]:
    """Run a task; returns the damaged files."""
    damaged = []
    with objects_at(place, objects) as lake:
        for file in task.files:
            key = object_keys.data_key(task.topic_id, file.name())
            fetch = partial(_fetch, lake, key)
            reader = LakeFileReader(fetch, file, task.topic_id, f"{lake.name}/{key}")
            for step in verify.check_file(reader, file):
                if isinstance(step, Corrupt):
                    damaged.append(BadFile(file=file, path=reader.label, reason=step.reason))
            if is_table(task.topic_id):
                for step in check_indexes_of(lake, task.topic_id, file):
                    if isinstance(step, Corrupt):
                        damaged.append(BadFile(file=file, path=step.path, reason=step.reason))
    return damaged


def _fetch(objects: Objects, key: str, start: int, length: int) -> bytes:
    try:
        return objects.get_range(key, start, length)
    except NotFound as error:
        raise Corrupt("a lake file is missing", path=key) from error
    except Invalid as error:
        raise Corrupt(str(error), path=key) from error


def _tasks(manifests: Sequence[Manifest]) -> Iterator[FilesToCheck]:
    for manifest in manifests:
        files: list[LakeFile] = []
        size = 0
        for file in manifest.files:
            if files and size + file.size > _TASK_BYTES:
                yield _task(manifest, files)
                files, size = [], 0
            files.append(file)
            size += file.size
        if files:
            yield _task(manifest, files)


def _task(manifest: Manifest, files: Sequence[LakeFile]) -> FilesToCheck:
    return FilesToCheck(topic=manifest.name, topic_id=manifest.topic_id, files=tuple(files))


def _check_local(disk: Disk, store: str, summary: ScrubSummary, progress: Progress | None) -> None:
    report = verify_store(disk, store, Settings(), progress or silent, lake=False)
    summary.local_files = report.files
    summary.bytes_read += report.bytes_read
    summary.findings += [_finding_of(problem) for problem in report.problems]


def _check_manifests(lake: OpenLake, chosen: SelectedTopics, summary: ScrubSummary) -> None:
    walks: list[tuple[str | None, Iterator[verify.VerifyStep]]] = [
        (None, verify.check_head(lake.objects, lake.store_id))
    ]
    topics = {manifest.topic_id: manifest.name for manifest in chosen.manifests}
    topics.update({topic_id: name for topic_id, (name, _) in chosen.damaged.items()})
    for topic_id, name in topics.items():
        walks.append((name, verify.check_versions(lake.objects, lake.store_id, topic_id)))
    for topic, walk in walks:
        for step in walk:
            if isinstance(step, int):
                summary.bytes_read += step
            else:
                summary.findings.append(
                    ScrubFinding(path=step.path, kind="lake", reason=step.reason, topic=topic)
                )


def _check_files(
    lake: OpenLake,
    engine: Engine,
    tasks: Sequence[FilesToCheck],
    summary: ScrubSummary,
    progress: Progress | None,
) -> None:
    work = partial(check_files, lake.location, objects=lake.objects if engine.in_process else None)
    done, total = 0, sum(task.size for task in tasks)
    for index, damaged in engine.run(work, tasks):
        task = tasks[index]
        summary.findings += _still_in_use(lake, task, damaged)
        summary.bytes_read += task.size
        done += task.size
        if progress is not None:
            progress("scrub", done, total)


def _still_in_use(
    lake: OpenLake, task: FilesToCheck, damaged: Sequence[BadFile]
) -> Iterator[ScrubFinding]:
    """The damaged files that are still in use; the others may have been deleted."""
    if not damaged:
        return
    newest = ManifestHistory(lake.objects, lake.store_id, task.topic_id).newest().manifest
    for file_damage in damaged:
        if newest.find_file(file_damage.file.name()) is not None:
            yield ScrubFinding(
                path=file_damage.path,
                kind="lake",
                reason=file_damage.reason,
                topic=task.topic,
                first_seq=file_damage.file.first_seq,
                last_seq=file_damage.file.last_seq,
            )


def _finding_of(problem: VerifyProblem) -> ScrubFinding:
    return msgspec.convert(problem, ScrubFinding, from_attributes=True)
