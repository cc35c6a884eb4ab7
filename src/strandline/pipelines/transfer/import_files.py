"""Imports files into a topic: every row once, in the order of the files.

    1 find the files, divide them into parts of about ``PART_BYTES``, number the parts from 1
    2 tasks read one part each, convert and stage its rows (``ingest/staged_files.py``)
    3 parts are delivered one after the other, in the order of their numbers
      (``pipelines/delivery_client.py``)

The topic stores the highest number that the import has delivered. Killed at any point and started
again, the import continues after it: no row is missing, none is there twice. A complete import that
is started again appends nothing. Two concurrent runs of one import are safe, and so is a process
that has the store open: it appends the delivered rows.

An import is identified by its id and by a fingerprint of topic, files (name, size, ETag or time of
modification), format and fields, and for CSV whether its values are typed. Without an id the
fingerprint is the id. Only one fingerprint can be imported under an id, so files that have changed
since are detected. With ``types`` auto an import that was started as text continues as text.

Values that do not fit the topic's schema are imported unchanged, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, TypedDict, Unpack

import msgspec
import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from strandline.config.settings import MIB
from strandline.errors import Invalid, UnknownTopic
from strandline.ingest import delivery_codec, staged_files
from strandline.ingest.delivery_codec import StagedFile
from strandline.lake.files.typed_columns import typed_columns_of
from strandline.log.progress import Progress
from strandline.pipelines.delivery_client import (
    WAIT_S_MAX,
    await_delivered,
    deliver,
    discard,
    lake_of,
)
from strandline.pipelines.engine import Chooser, Embedded, Engine
from strandline.pipelines.splits.snapshot_position import (
    check_lake,
    matching,
    open_readonly,
    path_of,
)
from strandline.pipelines.transfer.csv_types import column_types, schema_types
from strandline.pipelines.transfer.file_formats import (
    FORMATS,
    FileSlice,
    is_csv,
    number_columns,
    read_slice,
    slices_of,
)
from strandline.pipelines.transfer.row_mapping import BAD_ROWS_LISTED_MAX, BadRow, Fields
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.input_files import SourceFile, find_sources
from strandline.platform.objectstore.cloud import open_objects
from strandline.records import check_topic_name
from strandline.schema import Schema
from strandline.store import Store

PART_BYTES = 64 * MIB
STAGED_PARTS_MAX = 64
"""Most parts that are staged and not delivered yet."""

ID_SIZE_MAX = 100
PLAN_VERSION = 1
"""Part of the fingerprint: the version of the division of files into parts."""

OnBad = Literal["fail", "skip"]
Types = Literal["auto", "infer", "text"]


class ImportOptions(TypedDict, total=False):
    """Options of an import."""

    format: str
    """parquet, csv, json, jsonl; ``auto`` uses the names of the files."""
    fields: Fields
    id: str
    create: bool
    """Whether a missing topic is created."""
    on_bad: OnBad
    splittable: bool
    """No value of a CSV file has a line break: large files may be divided."""
    types: Types
    """Values of CSV files: typed by schema and content (``csv_types.py``), or all text. ``auto`` is
    ``infer``, but continues an import that was started as text."""
    lake: str
    part_bytes: int
    wait_s_max: float


class ImportJob(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an import."""

    store: str
    topic: str
    sources: tuple[str, ...]
    format: str = "auto"
    fields: Fields = Fields()
    id: str = ""
    create: bool = False
    on_bad: OnBad = "fail"
    splittable: bool = False
    types: Types = "auto"
    lake: str = ""
    part_bytes: int = PART_BYTES
    wait_s_max: float = WAIT_S_MAX

    def check(self) -> None:
        check_topic_name(self.topic)
        self.fields.check()
        if not self.sources:
            raise Invalid("name files to import: paths, folders, patterns or urls")
        if self.format not in ("auto", *FORMATS):
            raise Invalid(
                f"format is auto, {', '.join(FORMATS)}, not {self.format!r}; Spark reads others: "
                "strandline.spark.import_format"
            )
        if self.on_bad not in ("fail", "skip"):
            raise Invalid(f"on_bad is fail or skip, not {self.on_bad!r}")
        if len(self.id.encode()) > ID_SIZE_MAX or "/" in self.id:
            raise Invalid(f"an id has {ID_SIZE_MAX} bytes at most, and no /")
        if self.types not in ("auto", "infer", "text"):
            raise Invalid(f"types is auto, infer or text, not {self.types!r}")
        if self.part_bytes < 1:
            raise Invalid("part_bytes is 1 or more")


class ImportPart(msgspec.Struct, frozen=True, kw_only=True):
    """A task: rows that are delivered together."""

    number: int
    slices: tuple[FileSlice, ...]

    @property
    def size(self) -> int:
        return sum(slice_.size for slice_ in self.slices)


class ImportMisfit(msgspec.Struct, frozen=True, kw_only=True):
    """Imported values that do not fit the topic's schema: they are null in the typed column."""

    field: str
    type: str
    count: int
    example: str
    """The first of them, as JSON."""


class StagedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The staged files of a task."""

    files: tuple[StagedFile, ...]
    skipped: int = 0
    bad: tuple[BadRow, ...] = ()
    misfits: tuple[ImportMisfit, ...] = ()


class ImportSummary(msgspec.Struct, kw_only=True):
    """The result of an import, or with ``dry_run`` its plan."""

    store: str
    topic: str
    id: str
    engine: str = ""
    dry_run: bool = False
    complete: bool = False
    """Whether all rows were in the topic before: nothing was left to do."""
    files: int = 0
    bytes: int = 0
    """Size of all files."""
    parts: int = 0
    parts_before: int = 0
    """Parts that an earlier run delivered."""
    rows: int | None = 0
    """Appended rows; with ``dry_run`` the rows to append, None if their number is not known."""
    rows_skipped: int = 0
    bad: list[BadRow] = []
    """The first bad rows that were skipped."""
    misfits: list[ImportMisfit] = []
    """For each field: values of this run that do not fit the topic's schema."""
    seconds: float = 0.0


def import_files(
    store: str | Store,
    topic: str,
    sources: str | Sequence[str],
    *,
    engine: Engine | Chooser | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Clock | None = None,
    **options: Unpack[ImportOptions],
) -> ImportSummary:
    """Append the rows of files to a topic, each once.

    ``engine`` runs the tasks: by default ``Embedded()``, or a function that chooses one by the
    size of the files.
    """
    paths = (sources,) if isinstance(sources, str) else tuple(sources)
    job = ImportJob(store=path_of(store), topic=topic, sources=paths, **options)
    job.check()
    return _Import(job, progress, clock or SystemClock()).run(engine or Embedded(), dry_run=dry_run)


class _Import:
    """One run. Owned by one thread; the tasks run elsewhere."""

    def __init__(self, job: ImportJob, progress: Progress | None, clock: Clock) -> None:
        self._job = job
        self._progress = progress
        self._clock = clock
        self._id = ""
        self._producer = ""
        self._fields: dict[str, str] = {}
        """The topic's schema."""

    def run(self, engine: Engine | Chooser, *, dry_run: bool) -> ImportSummary:
        job, started_s = self._job, self._clock.monotonic()
        files = find_sources(job.sources)
        self._identify(files)
        parts = list(_parts(job, files, count=dry_run))
        size = sum(file.size for file in files)
        chosen = engine(size) if callable(engine) else engine
        delivered = self._delivered_number(wait=not dry_run)
        summary = ImportSummary(
            store=job.store,
            topic=job.topic,
            id=self._id,
            engine=chosen.name,
            dry_run=dry_run,
            files=len(files),
            bytes=size,
            parts=len(parts),
            parts_before=min(delivered, len(parts)),
            complete=delivered >= len(parts) > 0,
        )
        summary.bad, summary.misfits = [], []
        todo = parts[delivered:]
        if dry_run:
            summary.rows = _known_rows(todo)
        else:
            todo = self._with_types(chosen, todo)
            for first in range(0, len(todo), STAGED_PARTS_MAX):
                self._run_wave(chosen, todo[first : first + STAGED_PARTS_MAX], summary)
        summary.seconds = self._clock.monotonic() - started_s
        return summary

    def _identify(self, files: Sequence[SourceFile]) -> None:
        """Set the id and the producer; with ``auto`` those of a text import, if it was started."""
        job = self._job
        types: list[Types] = ["text", "infer"] if job.types == "auto" else [job.types]
        for each in types:
            self._job = msgspec.structs.replace(job, types=each)
            fingerprint = _fingerprint(self._job, files)
            self._id = job.id or fingerprint
            self._producer = f"import/{job.id}/{fingerprint}" if job.id else f"import/{fingerprint}"
            if each != types[-1] and self._is_started():
                return

    def _is_started(self) -> bool:
        job = self._job
        with open_readonly(job.store, job.lake) as store:
            if job.topic not in store.topics():
                return False
            return store.existing_topic(job.topic).last_number(self._producer) is not None

    def _with_types(self, engine: Engine, parts: list[ImportPart]) -> list[ImportPart]:
        """The parts, with the types of columns in their CSV slices."""
        if self._job.types == "text" or self._job.fields.data:
            return parts
        files = {
            slice_.file.url: msgspec.structs.replace(slice_, first=0, next=-1)
            for part in parts
            for slice_ in part.slices
            if slice_.format == "csv"
        }
        numbers = dict(engine.run(number_columns, list(files.values()))) if files else {}
        fields = schema_types(self._fields)
        types = {url: column_types(fields, numbers[index]) for index, url in enumerate(files)}
        return [
            msgspec.structs.replace(
                part,
                slices=tuple(
                    msgspec.structs.replace(slice_, types=types.get(slice_.file.url, ()))
                    for slice_ in part.slices
                ),
            )
            for part in parts
        ]

    def _delivered_number(self, *, wait: bool) -> int:
        """The highest part number that is in the topic."""
        job = self._job
        if wait:
            await_delivered(
                job.store,
                job.topic,
                self._producer,
                lake=job.lake,
                wait_s_max=job.wait_s_max,
                clock=self._clock,
            )
        with open_readonly(job.store, job.lake) as store:
            check_lake(store)
            if job.create and job.topic not in store.topics():
                return 0
            try:
                matching(store, [job.topic])
            except UnknownTopic as error:
                error.add_note("create=True, or --create, creates it")
                raise
            topic = store.existing_topic(job.topic)
            self._fields = dict(topic.config.schema)
            others = topic.producers(f"import/{job.id}/") if job.id else []
            if any(producer != self._producer for producer in others):
                raise Invalid(
                    f"the import {job.id!r} was started with other files, another format or other "
                    "fields, or a file has changed since: continue with those, or use another id"
                )
            newest = topic.last_number(self._producer)
        return 0 if newest is None else delivery_codec.last_complete(newest)

    def _run_wave(
        self, engine: Engine, parts: Sequence[ImportPart], summary: ImportSummary
    ) -> None:
        """Stage parts, and deliver each when those before it are delivered."""
        ready: dict[int, StagedPart] = {}
        next_index = 0
        work = partial(stage_part, self._job, self._producer, self._fields)
        try:
            for index, prepared in engine.run(work, parts):
                ready[index] = prepared
                while next_index in ready:
                    self._deliver(parts[next_index], ready[next_index], summary)
                    del ready[next_index]
                    next_index += 1
        finally:
            for index, prepared in ready.items():
                self._discard(parts[index], prepared)

    def _deliver(self, part: ImportPart, prepared: StagedPart, summary: ImportSummary) -> None:
        job = self._job
        if prepared.files:
            deliver(
                job.store,
                job.topic,
                prepared.files,
                producer=self._producer,
                number=part.number,
                attempt=OsDisk().random_id().hex(),
                lake=job.lake,
                create=job.create,
                wait_s_max=job.wait_s_max,
                clock=self._clock,
            )
            summary.rows = (summary.rows or 0) + sum(file.rows for file in prepared.files)
        summary.rows_skipped += prepared.skipped
        summary.bad = [*summary.bad, *prepared.bad][:BAD_ROWS_LISTED_MAX]
        summary.misfits = merge_misfits(summary.misfits, prepared.misfits)
        if self._progress is not None:
            self._progress("import", part.number, summary.parts)

    def _discard(self, part: ImportPart, prepared: StagedPart) -> None:
        if prepared.files:
            discard(
                self._job.store,
                self._job.topic,
                prepared.files,
                producer=self._producer,
                number=part.number,
                lake=self._job.lake,
            )


def merge_misfits(
    misfits: Sequence[ImportMisfit], others: Sequence[ImportMisfit]
) -> list[ImportMisfit]:
    """Merge misfits by field; the first example stays."""
    by_field = {each.field: each for each in misfits}
    for each in others:
        earlier = by_field.get(each.field, each)
        count = each.count if earlier is each else earlier.count + each.count
        by_field[each.field] = msgspec.structs.replace(earlier, count=count)
    return list(by_field.values())


def stage_part(
    job: ImportJob, producer: str, fields: dict[str, str], part: ImportPart
) -> StagedPart:
    """Run a task: stage the rows of a part. ``fields`` is the topic's schema."""
    rows = _PartReader(job, part, fields)
    attempt = OsDisk().random_id().hex()
    objects = open_objects(lake_of(job.store, job.lake))
    key_of = partial(delivery_codec.staged_key, producer, part.number, attempt)
    try:
        files = staged_files.stage(objects, key_of, rows.batches())
    finally:
        objects.close()
    return StagedPart(
        files=files,
        skipped=rows.skipped,
        bad=tuple(rows.bad[:BAD_ROWS_LISTED_MAX]),
        misfits=tuple(rows.misfits),
    )


class _PartReader:
    """The records of a part. Owned by one thread."""

    def __init__(self, job: ImportJob, part: ImportPart, fields: dict[str, str]) -> None:
        self._job = job
        self._part = part
        self._shape = typed_columns_of(Schema(1, fields)) if fields else None
        self.skipped = 0
        self.bad: list[BadRow] = []
        self.misfits: list[ImportMisfit] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        for slice_ in self._part.slices:
            records, bad = read_slice(slice_, self._job.fields, skip=self._job.on_bad == "skip")
            for batch in records:
                self._count_misfits(batch)
                yield batch
            self.skipped += bad.count
            self.bad += bad.listed

    def _count_misfits(self, batch: pa.RecordBatch) -> None:
        """Count the values that do not fit the schema."""
        if self._shape is None:
            return
        data = pa.chunked_array([batch.column("data")])
        misfits = self._shape.type_mismatches(data, self._shape.derive(data))
        new = [
            ImportMisfit(field=each.field, type=each.type, count=each.count, example=each.example)
            for each in misfits
        ]
        self.misfits = merge_misfits(self.misfits, new)


def _parts(job: ImportJob, files: Sequence[SourceFile], *, count: bool) -> Iterator[ImportPart]:
    """Parts of about ``part_bytes``: large files are divided, small ones share a part."""
    waiting: list[FileSlice] = []
    number, size = 1, 0
    for file in files:
        for slice_ in slices_of(
            file, job.format, size_max=job.part_bytes, splittable=job.splittable, count=count
        ):
            if waiting and size + slice_.size > job.part_bytes:
                yield ImportPart(number=number, slices=tuple(waiting))
                waiting, size, number = [], 0, number + 1
            waiting.append(slice_)
            size += slice_.size
    if waiting:
        yield ImportPart(number=number, slices=tuple(waiting))


def _fingerprint(job: ImportJob, files: Sequence[SourceFile]) -> str:
    """The fingerprint of an import: of all that its rows and their parts depend on."""
    content: tuple[object, ...] = (
        PLAN_VERSION,
        job.topic,
        job.format,
        job.fields,
        job.splittable,
        job.part_bytes,
        [(file.url, file.size, file.version, file.folders) for file in files],
    )
    if job.types != "text" and any(is_csv(file, job.format) for file in files):
        content += ("typed",)
    return xxh3_128_hexdigest(msgspec.msgpack.encode(content))


def _known_rows(parts: Sequence[ImportPart]) -> int | None:
    counts = [slice_.rows for part in parts for slice_ in part.slices]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
