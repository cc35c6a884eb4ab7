"""Imports files into a topic: every row once, in the order of the files.

    1 find the files, cut them into parts of about ``PART_BYTES``, number the parts from 1
    2 tasks read a part each, make records of its rows and stage them (``ingest/staged_files.py``)
    3 parts are delivered one after the other, in the order of their numbers
    (``pipelines/delivery_client.py``)

The topic remembers the highest number that the import has delivered. Killed at any point and begun
again, it goes on behind that: no row is missing, none is there twice. Begun again when it is
complete, it appends nothing. Two runs of one import at a time do no harm, nor does a process that
has the store open: that one takes what is delivered.

An import is known by its id and by a fingerprint of topic, files (name, size, ETag or time of
change), format and fields, and for CSV whether its values are typed. Without an id of its own the
fingerprint is the id. Under one id only one fingerprint can be imported, so files that have changed
since are noticed. With ``types`` auto an import that was begun as text goes on as text.

Values that do not fit the topic's schema are imported as they are, and counted.
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
from strandline.ingest.delivery_codec import Staged
from strandline.lake.files.typed_columns import shape_of
from strandline.log.progress import Progress
from strandline.pipelines.delivery_client import (
    PATIENCE_S,
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
    Slice,
    is_csv,
    number_columns,
    read_slice,
    slices_of,
)
from strandline.pipelines.transfer.row_mapping import BAD_NAMED_MAX, BadRow, Fields
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.input_files import SourceFile, find_sources
from strandline.platform.objectstore.cloud import open_objects
from strandline.records import check_topic_name
from strandline.schema import Schema
from strandline.store import Store

PART_BYTES = 64 * MIB
WAVE = 64
"""Parts that may be staged and not delivered yet."""

ID_SIZE_MAX = 100
PLAN_VERSION = 1
"""Part of the fingerprint: counts the ways in which files have been cut into parts."""

OnBad = Literal["fail", "skip"]
Types = Literal["auto", "infer", "text"]


class ImportOptions(TypedDict, total=False):
    """What an import may be told."""

    format: str
    """parquet, csv, json, jsonl; ``auto`` goes by the names of files."""
    fields: Fields
    id: str
    create: bool
    """Whether a topic that does not exist is made."""
    on_bad: OnBad
    splittable: bool
    """No value of a CSV file has a line break: large files may be cut."""
    types: Types
    """Values of CSV files: typed by schema and look (``csv_types.py``), or all text. ``auto`` is
    ``infer``, but goes on with what was begun as text."""
    lake: str
    part_bytes: int
    patience_s: float


class ImportJob(msgspec.Struct, frozen=True, kw_only=True):
    """An import as it was asked for."""

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
    patience_s: float = PATIENCE_S

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


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are delivered together. A task."""

    number: int
    slices: tuple[Slice, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.slices)


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Values that were imported and do not fit the topic's schema: null in its typed column."""

    field: str
    type: str
    count: int
    example: str
    """The first of them, as JSON."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What a task has staged."""

    files: tuple[Staged, ...]
    skipped: int = 0
    bad: tuple[BadRow, ...] = ()
    misfits: tuple[Misfit, ...] = ()


class ImportSummary(msgspec.Struct, kw_only=True):
    """What an import did, or with ``dry_run`` would do."""

    store: str
    topic: str
    id: str
    engine: str = ""
    dry_run: bool = False
    complete: bool = False
    """Whether all of it was in the topic before: nothing was left to do."""
    files: int = 0
    bytes: int = 0
    """Of all files."""
    parts: int = 0
    parts_before: int = 0
    """Parts that an earlier run has delivered."""
    rows: int | None = 0
    """Rows that were appended; with ``dry_run`` those to come, None when that is not known."""
    rows_skipped: int = 0
    bad: list[BadRow] = []
    """The first bad rows that were skipped."""
    misfits: list[Misfit] = []
    """By field: values of this run that do not fit the topic's schema."""
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

    ``engine`` runs the tasks: ``Embedded()`` unless told otherwise, or a function that chooses one
    by the size of the files.
    """
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    job = ImportJob(store=path_of(store), topic=topic, sources=named, **options)
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
        job, begun_s = self._job, self._clock.monotonic()
        files = find_sources(job.sources)
        self._name(files)
        parts = list(_parts(job, files, count=dry_run))
        size = sum(file.size for file in files)
        chosen = engine(size) if callable(engine) else engine
        taken = self._taken(settle=not dry_run)
        summary = ImportSummary(
            store=job.store,
            topic=job.topic,
            id=self._id,
            engine=chosen.name,
            dry_run=dry_run,
            files=len(files),
            bytes=size,
            parts=len(parts),
            parts_before=min(taken, len(parts)),
            complete=taken >= len(parts) > 0,
        )
        summary.bad, summary.misfits = [], []
        todo = parts[taken:]
        if dry_run:
            summary.rows = _known_rows(todo)
        else:
            todo = self._typed(chosen, todo)
            for first in range(0, len(todo), WAVE):
                self._run_wave(chosen, todo[first : first + WAVE], summary)
        summary.seconds = self._clock.monotonic() - begun_s
        return summary

    def _name(self, files: Sequence[SourceFile]) -> None:
        """Find the id and the producer; with ``auto`` those of an import that is text, if begun."""
        job = self._job
        types: list[Types] = ["text", "infer"] if job.types == "auto" else [job.types]
        for each in types:
            self._job = msgspec.structs.replace(job, types=each)
            fingerprint = _fingerprint(self._job, files)
            self._id = job.id or fingerprint
            self._producer = f"import/{job.id}/{fingerprint}" if job.id else f"import/{fingerprint}"
            if each != types[-1] and self._is_begun():
                return

    def _is_begun(self) -> bool:
        job = self._job
        with open_readonly(job.store, job.lake) as store:
            if job.topic not in store.topics():
                return False
            return store.existing_topic(job.topic).taken(self._producer) is not None

    def _typed(self, engine: Engine, parts: list[Part]) -> list[Part]:
        """Parts whose CSV slices know the types of their columns."""
        if self._job.types == "text" or self._job.fields.data:
            return parts
        pieces = {
            piece.file.url: msgspec.structs.replace(piece, first=0, next=-1)
            for part in parts
            for piece in part.slices
            if piece.format == "csv"
        }
        found = dict(engine.run(number_columns, list(pieces.values()))) if pieces else {}
        fields = schema_types(self._fields)
        types = {url: column_types(fields, found[place]) for place, url in enumerate(pieces)}
        return [
            msgspec.structs.replace(
                part,
                slices=tuple(
                    msgspec.structs.replace(piece, types=types.get(piece.file.url, ()))
                    for piece in part.slices
                ),
            )
            for part in parts
        ]

    def _taken(self, *, settle: bool) -> int:
        """The highest number that is in the topic."""
        job = self._job
        if settle:
            await_delivered(
                job.store,
                job.topic,
                self._producer,
                lake=job.lake,
                patience_s=job.patience_s,
                clock=self._clock,
            )
        with open_readonly(job.store, job.lake) as store:
            check_lake(store)
            if job.create and job.topic not in store.topics():
                return 0
            try:
                matching(store, [job.topic])
            except UnknownTopic as error:
                error.add_note("create=True, or --create, makes it")
                raise
            topic = store.existing_topic(job.topic)
            self._fields = dict(topic.config.schema)
            others = topic.producers(f"import/{job.id}/") if job.id else []
            if any(producer != self._producer for producer in others):
                raise Invalid(
                    f"the import {job.id!r} was begun with other files, another format or other "
                    "fields, or a file has changed since: go on with those, or take another id"
                )
            newest = topic.taken(self._producer)
        return 0 if newest is None else delivery_codec.last_whole(newest)

    def _run_wave(self, engine: Engine, parts: Sequence[Part], summary: ImportSummary) -> None:
        """Stage parts, and deliver each as soon as those before it are."""
        ready: dict[int, Prepared] = {}
        following = 0
        work = partial(stage_part, self._job, self._producer, self._fields)
        try:
            for place, prepared in engine.run(work, parts):
                ready[place] = prepared
                while following in ready:
                    self._deliver(parts[following], ready[following], summary)
                    del ready[following]
                    following += 1
        finally:
            for place, prepared in ready.items():
                self._discard(parts[place], prepared)

    def _deliver(self, part: Part, prepared: Prepared, summary: ImportSummary) -> None:
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
                patience_s=job.patience_s,
                clock=self._clock,
            )
            summary.rows = (summary.rows or 0) + sum(file.rows for file in prepared.files)
        summary.rows_skipped += prepared.skipped
        summary.bad = [*summary.bad, *prepared.bad][:BAD_NAMED_MAX]
        summary.misfits = added(summary.misfits, prepared.misfits)
        if self._progress is not None:
            self._progress("import", part.number, summary.parts)

    def _discard(self, part: Part, prepared: Prepared) -> None:
        if prepared.files:
            discard(
                self._job.store,
                self._job.topic,
                prepared.files,
                producer=self._producer,
                number=part.number,
                lake=self._job.lake,
            )


def added(known: Sequence[Misfit], more: Sequence[Misfit]) -> list[Misfit]:
    """Values that do not fit, field by field; the first example stays."""
    found = {each.field: each for each in known}
    for each in more:
        before = found.get(each.field, each)
        count = each.count if before is each else before.count + each.count
        found[each.field] = msgspec.structs.replace(before, count=count)
    return list(found.values())


def stage_part(job: ImportJob, producer: str, fields: dict[str, str], part: Part) -> Prepared:
    """The work of a task: the rows of a part as staged files. ``fields`` is the topic's schema."""
    reading = _Rows(job, part, fields)
    attempt = OsDisk().random_id().hex()
    objects = open_objects(lake_of(job.store, job.lake))
    key_of = partial(delivery_codec.staged_key, producer, part.number, attempt)
    try:
        files = staged_files.stage(objects, key_of, reading.batches())
    finally:
        objects.close()
    return Prepared(
        files=files,
        skipped=reading.skipped,
        bad=tuple(reading.bad[:BAD_NAMED_MAX]),
        misfits=tuple(reading.misfits),
    )


class _Rows:
    """The records of a part. Owned by one thread."""

    def __init__(self, job: ImportJob, part: Part, fields: dict[str, str]) -> None:
        self._job = job
        self._part = part
        self._shape = shape_of(Schema(1, fields)) if fields else None
        self.skipped = 0
        self.bad: list[BadRow] = []
        self.misfits: list[Misfit] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        for piece in self._part.slices:
            records, bad = read_slice(piece, self._job.fields, skip=self._job.on_bad == "skip")
            for batch in records:
                self._look(batch)
                yield batch
            self.skipped += bad.count
            self.bad += bad.named

    def _look(self, batch: pa.RecordBatch) -> None:
        """Count the values that do not fit the schema."""
        if self._shape is None:
            return
        data = pa.chunked_array([batch.column("data")])
        found = self._shape.misfits(data, self._shape.derive(data))
        more = [
            Misfit(field=each.field, type=each.type, count=each.count, example=each.example)
            for each in found
        ]
        self.misfits = added(self.misfits, more)


def _parts(job: ImportJob, files: Sequence[SourceFile], *, count: bool) -> Iterator[Part]:
    """Slices in parts of about a size: large files are cut, small ones go together."""
    waiting: list[Slice] = []
    number, size = 1, 0
    for file in files:
        for piece in slices_of(
            file, job.format, size_max=job.part_bytes, splittable=job.splittable, count=count
        ):
            if waiting and size + piece.size > job.part_bytes:
                yield Part(number=number, slices=tuple(waiting))
                waiting, size, number = [], 0, number + 1
            waiting.append(piece)
            size += piece.size
    if waiting:
        yield Part(number=number, slices=tuple(waiting))


def _fingerprint(job: ImportJob, files: Sequence[SourceFile]) -> str:
    """What makes an import another one: all that its rows and their parts depend on."""
    told: tuple[object, ...] = (
        PLAN_VERSION,
        job.topic,
        job.format,
        job.fields,
        job.splittable,
        job.part_bytes,
        [(file.url, file.size, file.version, file.folders) for file in files],
    )
    if job.types != "text" and any(is_csv(file, job.format) for file in files):
        told += ("typed",)
    return xxh3_128_hexdigest(msgspec.msgpack.encode(told))


def _known_rows(parts: Sequence[Part]) -> int | None:
    counts = [piece.rows for part in parts for piece in part.slices]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
