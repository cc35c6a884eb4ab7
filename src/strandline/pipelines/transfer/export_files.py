"""Exports a topic as files of a folder or object store: the records of one position, each once.

    <to>/_export.json                                options and position; written first
    <to>/<topic>-<first seq>-<last seq>.parquet      the records of a range of seqs
    <to>/day=2026-11-16/<the same>                   with partitions
    <to>/_parts/<first seq>-<last seq>               a finished range: its files, and its losses
    <to>/_columns.json                               the columns for fields of JSON
    <to>/_SUCCESS                                    the summary of a complete export; written last

Ranges are divided by seqs only, and a file appears whole or not at all. So a run that was killed is
continued by the next one: it reads position and ranges from ``_export.json`` and skips finished
ranges. Two concurrent runs write the same files. A folder with any other content is rejected.

Deleted records are omitted. Records that retention removed or a crash lost are reported in the
summary, as in a read. Appends may continue; they are after the position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypedDict, Unpack

import msgspec
import pyarrow as pa

from strandline.config.settings import MIB
from strandline.errors import Conflict, Corrupt, Invalid, NotFound, ObjectExists, RecordsLost
from strandline.log.progress import Progress
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.splits import record_schema as named
from strandline.pipelines.splits import split_reader
from strandline.pipelines.splits.flatten_json import (
    FlattenedField,
    Kinds,
    add_kinds,
    columns_of,
    merge_kinds,
)
from strandline.pipelines.splits.snapshot_position import open_readonly, path_of, take_position
from strandline.pipelines.splits.split_reader import (
    WORKER_STORES,
    HotPart,
    OpenStores,
    ThreadStores,
)
from strandline.pipelines.transfer.export_plan import (
    ExportedRange,
    ExportFile,
    ExportJob,
    ExportManifest,
    ExportTask,
    check_same,
    plan_export,
    row_bytes_of,
    tasks_of,
    without_locations,
)
from strandline.pipelines.transfer.file_writers import ExportFormat, write_files
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.local import ASIDE, FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.records import Tombstone
from strandline.store import Store

MANIFEST = "_export.json"
COLUMNS = "_columns.json"
SUCCESS = "_SUCCESS"
DONE = "_parts"
FILE_BYTES = 128 * MIB
"""Approximate payload of a file without ``file_rows``: a task holds a file in memory."""

_FILE_ROWS = (1_000, 1_000_000)
_TOPIC_LOST = ("deleted", "recreated")


class ExportOptions(TypedDict, total=False):
    """Options of an export."""

    format: str
    columns: Sequence[str]
    data: str
    """binary, text or json; the default is binary for Parquet and text for the others."""
    from_: str | int
    until: str | int
    """The first record, and the first one after the range: a seq, or a time in ISO format."""
    as_of: str
    """Only records up to a position (from ``position``) or a time."""
    partition_by: str
    file_rows: int
    lake: str


class ExportSummary(msgspec.Struct, kw_only=True):
    """The result of an export, or with ``dry_run`` its plan."""

    store: str
    topic: str
    to: str
    format: str
    engine: str = ""
    dry_run: bool = False
    complete: bool = False
    """Whether the export was complete before: nothing was left to do."""
    first_seq: int = 0
    last_seq: int = 0
    ranges: int = 0
    ranges_before: int = 0
    """Ranges that an earlier run exported."""
    files: int = 0
    rows: int = 0
    """Rows of the whole export; with ``dry_run`` an upper bound."""
    bytes: int = 0
    """Size of the files; with ``dry_run`` the approximate payload of the records."""
    lost: list[Tombstone] = []
    seconds: float = 0.0


def export(
    store: str | Store,
    topic: str,
    to: str,
    *,
    engine: Engine | Chooser | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Clock | None = None,
    **options: Unpack[ExportOptions],
) -> ExportSummary:
    """Write the records of a topic to files in a folder or at a url.

    ``engine`` runs the tasks: by default ``Embedded()``, or a function that chooses one by the
    bytes of the records.
    """
    kind = options.get("format", "parquet")
    job = ExportJob(
        store=path_of(store),
        topic=topic,
        to=to,
        format=kind,
        columns=tuple(options.get("columns") or named.RECORD),
        data=options.get("data") or ("binary" if kind == "parquet" else "text"),
        begin=str(options.get("from_", "")),
        end=str(options.get("until", "")),
        as_of=options.get("as_of", ""),
        partition_by=options.get("partition_by", ""),
        file_rows=options.get("file_rows", 0),
        lake=options.get("lake", ""),
    )
    job.check()
    objects = open_objects(to)
    try:
        run = _Export(job, objects, progress, clock or SystemClock())
        return run.run(engine or Embedded(), dry_run=dry_run)
    finally:
        objects.close()


class _Export:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(
        self, job: ExportJob, objects: Objects, progress: Progress | None, clock: Clock
    ) -> None:
        self._job = job
        self._objects = objects
        self._progress = progress
        self._clock = clock
        self._summary = ExportSummary(
            store=job.store, topic=job.topic, to=objects.name, format=job.format
        )
        self._summary.lost = []

    def run(self, engine: Engine | Chooser, *, dry_run: bool) -> ExportSummary:
        started_s = self._clock.monotonic()
        summary = self._summary
        summary.dry_run = dry_run
        existing = self._load_manifest()
        with open_readonly(self._job.store, self._job.lake) as store:
            position = take_position(store, [self._job.topic], self._job.lake)
            topic = store.existing_topic(self._job.topic)
            manifest = existing or plan_export(self._job, store, position, topic)
            check_same(manifest, self._job, position)
            row_bytes = row_bytes_of(topic)
        if not existing and not dry_run:
            manifest = self._create_manifest(manifest)
        summary.first_seq, summary.last_seq = manifest.first_seq, manifest.last_seq
        finished = self._load_summary()
        done = {} if finished else self._finished_ranges()
        tasks = [] if finished else list(tasks_of(manifest, position))
        todo = [task for task in tasks if task.name() not in done]
        seqs = sum(task.last_seq - task.first_seq + 1 for task in todo)
        chosen = engine(seqs * row_bytes) if callable(engine) else engine
        summary.engine = chosen.name
        if finished is not None:
            _copy_totals(summary, finished)
            self._objects.delete(
                [] if dry_run else [f"{DONE}/{name}" for name in self._finished_ranges()]
            )
        elif dry_run:
            summary.ranges, summary.ranges_before = len(tasks), len(done)
            summary.files, summary.rows, summary.bytes = len(todo), seqs, seqs * row_bytes
            summary.lost = [*manifest.lost, *(lost for task in tasks for lost in task.lost)]
        else:
            self._run(chosen, manifest, tasks, done)
        summary.seconds = self._clock.monotonic() - started_s
        return summary

    def _run(
        self,
        engine: Engine,
        manifest: ExportManifest,
        tasks: list[ExportTask],
        done: dict[str, ExportedRange],
    ) -> None:
        summary = self._summary
        summary.ranges, summary.ranges_before = len(tasks), len(done)
        with ThreadStores() as opened:
            threads = opened if engine.in_process else None
            rendering = self._rendering(engine, tasks, threads)
            todo = [task for task in tasks if task.name() not in done]
            work = partial(export_range, self._job, rendering, threads=threads)
            for index, result in engine.run(work, todo):
                done[todo[index].name()] = result
                if self._progress is not None:
                    self._progress("export", len(done), len(tasks))
        results = [done[task.name()] for task in tasks]
        files = [file for result in results for file in result.files]
        summary.files = len(files)
        summary.rows = sum(file.rows for file in files)
        summary.bytes = sum(file.size for file in files)
        summary.lost = [*manifest.lost, *(lost for result in results for lost in result.lost)]
        self._objects.put(SUCCESS, msgspec.json.encode(summary))
        # After _SUCCESS: without both, a run would have to export everything again.
        self._objects.delete([*(f"{DONE}/{name}" for name in done), COLUMNS])

    def _load_manifest(self) -> ExportManifest | None:
        """The export in the folder, if any; Invalid when the folder has other content."""
        try:
            data = self._objects.get(MANIFEST)
        except NotFound:
            content = _existing_content(self._objects)
            if content:
                raise Invalid(
                    f"{self._objects.name} is not empty ({content}) and has no export: name "
                    "another folder"
                ) from None
            return None
        try:
            return msgspec.json.decode(data, type=ExportManifest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            path = f"{self._objects.name}/{MANIFEST}"
            raise Corrupt(f"the export cannot be read ({error})", path=path) from error

    def _create_manifest(self, manifest: ExportManifest) -> ExportManifest:
        try:
            self._objects.create(MANIFEST, msgspec.json.encode(manifest), writer=manifest.attempt)
        except ObjectExists:  # another run was faster: use its position
            other = self._load_manifest()
            assert other is not None
            if without_locations(other.job) != without_locations(self._job):
                raise Conflict(f"another export has just begun in {self._objects.name}") from None
            return other
        return manifest

    def _load_summary(self) -> ExportSummary | None:
        try:
            return msgspec.json.decode(self._objects.get(SUCCESS), type=ExportSummary)
        except NotFound:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            path = f"{self._objects.name}/{SUCCESS}"
            raise Corrupt(f"the export summary cannot be read ({error})", path=path) from error

    def _finished_ranges(self) -> dict[str, ExportedRange]:
        finished = {}
        for info in list(self._objects.list(DONE)):
            name = info.key.removeprefix(f"{DONE}/")
            with contextlib.suppress(NotFound):  # another run has just ended
                finished[name] = msgspec.json.decode(
                    self._objects.get(info.key), type=ExportedRange
                )
        return finished

    def _rendering(
        self, engine: Engine, tasks: Sequence[ExportTask], threads: ThreadStores | None
    ) -> ExportFormat:
        job = self._job
        rendering = ExportFormat(
            format=job.format, columns=job.columns, data=job.data, partition_by=job.partition_by
        )
        if not rendering.flattens_json:
            return rendering
        try:
            data = self._objects.get(COLUMNS)
        except NotFound:
            kinds_by_task: dict[int, Kinds] = {}
            for index, kinds in engine.run(partial(find_kinds, threads=threads), tasks):
                kinds_by_task[index] = kinds
                if self._progress is not None:
                    self._progress("columns", len(kinds_by_task), len(tasks))
            ordered = merge_kinds(kinds_by_task[index] for index in sorted(kinds_by_task))
            data = msgspec.json.encode(columns_of(ordered, rendering.file_columns()))
            self._objects.put(COLUMNS, data)
        expanded = msgspec.json.decode(data, type=tuple[FlattenedField, ...])
        return msgspec.structs.replace(rendering, expanded=expanded)


def export_range(
    job: ExportJob,
    rendering: ExportFormat,
    task: ExportTask,
    *,
    threads: ThreadStores | None = None,
) -> ExportedRange:
    """Run a task: write the files of a range, then record that it is finished."""
    lost = list(task.lost)
    objects = open_objects(job.to)
    try:
        stores = threads.of_this_thread() if threads else WORKER_STORES
        files = write_files(rendering, _batches(task, rendering.needed(), stores, lost))
        written = []
        for file in files:
            name = f"{job.topic.replace(':', '_')}-{task.name()}.{job.format}"
            size = objects.put(f"{file.folder}{name}", file.content)
            written.append(ExportFile(key=f"{file.folder}{name}", rows=file.rows, size=size))
        done = ExportedRange(files=tuple(written), lost=tuple(lost))
        objects.put(f"{DONE}/{task.name()}", msgspec.json.encode(done))
    finally:
        objects.close()
    return done


def find_kinds(task: ExportTask, *, threads: ThreadStores | None = None) -> Kinds:
    """Run a task: find the kinds of the fields of its records."""
    kinds: Kinds = {}
    stores = threads.of_this_thread() if threads else WORKER_STORES
    for batch in _batches(task, ("seq", "data"), stores, []):
        add_kinds(kinds, batch.column("seq").to_pylist(), batch.column("data").to_pylist())
    return kinds


def _batches(
    task: ExportTask, names: Sequence[str], stores: OpenStores, lost: list[Tombstone]
) -> Iterator[pa.RecordBatch]:
    """The records of a range; those that were lost in the meantime are added to ``lost``."""
    waiting = list(reversed(task.parts))
    while waiting:
        part = waiting.pop()
        next_seq = 0
        try:
            for batch in split_reader.read([part], names, (), stores=stores):
                yield batch
                next_seq = batch.column("seq")[-1].as_py() + 1
        except RecordsLost as error:
            if not isinstance(part, HotPart) or error.reason in _TOPIC_LOST:
                raise
            first, last = max(part.first_seq, next_seq), part.last_seq
            gap_from, gap_to = max(first, error.gap_from), min(last, error.gap_to)
            if gap_to < gap_from:
                raise
            lost.append(Tombstone(gap_from=gap_from, gap_to=gap_to, reason=error.reason))
            # Rows before the gap may have been read without being yielded.
            for low, high in ((gap_to + 1, last), (first, gap_from - 1)):
                if low <= high:
                    waiting.append(msgspec.structs.replace(part, first_seq=low, last_seq=high))


def _copy_totals(summary: ExportSummary, earlier: ExportSummary) -> None:
    summary.complete = True
    summary.ranges = summary.ranges_before = earlier.ranges
    summary.files, summary.rows, summary.bytes = earlier.files, earlier.rows, earlier.bytes
    summary.lost = list(earlier.lost)


def _existing_content(objects: Objects) -> str:
    """The name of an object in a folder or below a url; empty when there is none."""
    if isinstance(objects, FolderObjects) and objects.real_folder is not None:
        disk = OsDisk()
        if not disk.exists(objects.real_folder):
            return ""
        if not disk.is_dir(objects.real_folder):
            raise Invalid(f"{objects.name} is a file: name a folder to export to")
        return next((name for name in disk.list_dir(objects.real_folder) if name != ASIDE), "")
    return next((info.key for info in objects.list()), "")
