"""Compares an event table with its log: tasks fold a range of seqs and compare the live rows.

Rows of a table do not interact in its fold. Records that concern all of them, versions of the
schema and deletes, are few; a first pass of tasks finds them (``find_changes``). Then each task
folds the events of a range with the table's own fold, in memory and without files, applies all
versions and the later deletes, and compares the remaining rows with those of the table in that
range: from its files, and from the memory of the store, which are sent with the task. Ranges follow
the files, so that few tasks read the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.config.memory_budget import MemoryShare
from strandline.config.settings import LakeSettings
from strandline.lake.manifest.file_entry import LakeFile
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.lake_selection import objects_at
from strandline.pipelines.splits import split_planner, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.pipelines.splits.split_reader import WORKER_STORES, OpenStores, Part, ThreadStores
from strandline.pipelines.view_rebuild.partitioning import COLUMNS
from strandline.pipelines.view_rebuild.shuffle_task import RebuildContext
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.reservoir import Reservoir
from strandline.schema import Schema
from strandline.views.table.control_records import MARK
from strandline.views.table.files.live_rows import read_live_rows
from strandline.views.table.fold import TableFold
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ
from strandline.views.view import SPACES, FoldColumns, FoldContext, ViewStorage
from strandline.views.view_runner import ViewRunner

_UNLIMITED_BYTES = 1 << 40
_LISTED_MAX = 5


class ChangeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record that changes a table as a whole."""

    seq: int
    ts: int
    meta: bytes
    data: bytes

    @property
    def is_version(self) -> bool:
        return self.meta.startswith(MARK + b"S")


class ChangesTask(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the log."""

    parts: tuple[Part, ...]
    rows: int


class TableChanges(msgspec.Struct, frozen=True, kw_only=True):
    found: tuple[ChangeRecord, ...]


class LiveRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a table in a store at a position."""

    name: str
    table_id: int
    files: tuple[tuple[LakeFile, Schema], ...]
    schema: Schema
    first_seq: int
    last_seq: int
    hidden: bytes
    memory: tuple[bytes, ...]
    """Rows that are in no file, as Arrow streams."""


class RangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """A range of seqs, of the log and the table."""

    first_seq: int
    last_seq: int
    parts: tuple[Part, ...]
    changes: tuple[ChangeRecord, ...]
    """Changes before and after the range that affect it."""
    live: LiveRows
    """The files and rows that reach into the range."""

    @property
    def rows(self) -> int:
        return self.last_seq - self.first_seq + 1


class RangeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing a range."""

    first_seq: int
    rebuilt: int
    live: int
    differing: int
    seqs: tuple[int, ...]
    """The first differing seqs."""


def live_of(host: ViewRunner[TableFold]) -> LiveRows:
    """The current rows of a table."""
    with host.reading() as fold:
        pinned, manifest = fold.segments.pin(), fold.segments.manifest
        view = fold.snapshot()
        in_memory = view.read(view.columns.names, after=pinned.flushed)
        hidden = fold.hidden | pinned.hidden
        return LiveRows(
            name=host.name,
            table_id=0 if manifest is None else manifest.topic_id,
            files=tuple((file, pinned.schema_of(file)) for file in pinned.files if file.rows),
            schema=fold.schema,
            first_seq=pinned.floor,
            last_seq=view.position,
            hidden=hidden.serialize() if hidden else b"",
            memory=tuple(
                split_reader.encode_rows(table).stream for table in in_memory.tables() if len(table)
            ),
        )


def changes_tasks(position: StorePosition, snapshot: TopicSnapshot) -> list[ChangesTask]:
    return [
        ChangesTask(parts=tuple(group), rows=sum(map(split_planner.seqs_in, group)))
        for group in split_planner.group_into_tasks(
            _parts(position, snapshot, snapshot.floor, snapshot.head_seq)
        )
    ]


def find_changes(
    work: RebuildContext, task: ChangesTask, *, threads: ThreadStores | None = None
) -> TableChanges:
    """Run a task of the first pass."""
    del work
    stores = threads.of_this_thread() if threads else WORKER_STORES
    marked: list[int] = []
    for batch in split_reader.read(task.parts, ("seq", "meta"), (), stores=stores):
        if batch["meta"].null_count < len(batch):
            marks = pc.fill_null(pc.starts_with(batch["meta"], pattern=MARK), False)
            marked += batch.filter(marks)["seq"].to_pylist()
    changes: list[ChangeRecord] = []
    if marked:
        condition = Condition("seq", "in", tuple(marked))
        for batch in split_reader.read(task.parts, COLUMNS, [condition], stores=stores):
            stamps = batch["ts"].cast(pa.int64()).to_pylist()
            columns = [batch[name].to_pylist() for name in ("seq", "meta", "data")]
            for ts, seq, meta, data in zip(stamps, *columns, strict=True):
                changes.append(ChangeRecord(seq, ts, meta, data))
    return TableChanges(found=tuple(changes))


def range_tasks(
    position: StorePosition,
    snapshot: TopicSnapshot,
    live: LiveRows,
    changes: Sequence[ChangeRecord],
    rows_max: int,
) -> list[RangeTask]:
    """Ranges that together cover all seqs, of at most ``rows_max`` seqs each."""
    tasks = []
    for first_seq, last_seq in _ranges(snapshot, live, rows_max):
        tasks.append(
            RangeTask(
                first_seq=first_seq,
                last_seq=last_seq,
                parts=tuple(_parts(position, snapshot, first_seq, last_seq)),
                changes=tuple(
                    each
                    for each in changes
                    if not first_seq <= each.seq <= last_seq
                    and (each.is_version or each.seq > last_seq)
                ),
                live=_part_of(live, first_seq, last_seq),
            )
        )
    return tasks


def compare_range(
    work: RebuildContext,
    task: RangeTask,
    *,
    objects: Objects | None = None,
    threads: ThreadStores | None = None,
) -> RangeComparison:
    """Run a task of the second pass."""
    stores = threads.of_this_thread() if threads else WORKER_STORES
    with objects_at(work.place, objects) as lake:
        live = _live_rows(lake, task)
    schema, folded = _rebuilt(work, task, stores)
    seqs = sorted(_differing(folded, live, same_columns=schema == task.live.schema))
    return RangeComparison(
        first_seq=task.first_seq,
        rebuilt=len(folded),
        live=len(live),
        differing=len(seqs),
        seqs=tuple(seqs[:_LISTED_MAX]),
    )


def _parts(
    position: StorePosition, snapshot: TopicSnapshot, first_seq: int, last_seq: int
) -> list[Part]:
    seqs = split_planner.SeqRange(first_seq, last_seq)
    parts: list[Part] = list(split_planner.file_parts(position, snapshot, seqs, ())[0])
    return [*parts, *split_planner.hot_parts(position, snapshot, seqs)]


def _ranges(snapshot: TopicSnapshot, live: LiveRows, rows_max: int) -> Iterator[tuple[int, int]]:
    edges = [1]
    for file, _ in live.files:
        edges += [file.first_seq, file.last_seq + 1]
    edges.append(snapshot.head_seq + 1)
    edges = sorted({edge for edge in edges if edge <= snapshot.head_seq + 1})
    for first, next in pairwise(edges):
        for start in range(first, next, rows_max):
            yield start, min(start + rows_max, next) - 1


def _part_of(live: LiveRows, first_seq: int, last_seq: int) -> LiveRows:
    hidden = BitMap64.deserialize(live.hidden) if live.hidden else BitMap64()
    if hidden:
        hidden &= BitMap64(range(first_seq, last_seq + 1))
    files = [
        each
        for each in live.files
        if each[0].first_seq <= last_seq and each[0].last_seq >= first_seq
    ]
    memory = []
    for stream in live.memory:
        table = pa.ipc.open_stream(stream).read_all()
        seqs = table[SEQ]
        in_range = table.filter(
            pc.and_(pc.greater_equal(seqs, first_seq), pc.less_equal(seqs, last_seq))
        )
        memory += [split_reader.encode_rows(in_range).stream] if len(in_range) else []
    return msgspec.structs.replace(
        live,
        files=tuple(files),
        memory=tuple(memory),
        first_seq=max(live.first_seq, first_seq),
        last_seq=min(live.last_seq, last_seq),
        hidden=hidden.serialize() if hidden else b"",
    )


def _live_rows(lake: Objects, task: RangeTask) -> pa.Table:
    live = task.live
    columns = arrow_schema(live.schema)
    hidden = BitMap64.deserialize(live.hidden) if live.hidden else BitMap64()
    tables = [pa.ipc.open_stream(stream).read_all() for stream in live.memory]
    for file, written in live.files:
        tables += read_live_rows(
            lake,
            live.table_id,
            file,
            written,
            live.schema,
            columns.names,
            first_seq=live.first_seq,
            last_seq=live.last_seq,
            hidden=hidden,
        )
    return _in_order(tables, columns)


def _rebuilt(work: RebuildContext, task: RangeTask, stores: OpenStores) -> tuple[Schema, pa.Table]:
    """The rows of the range according to the log, and the schema at its end."""
    scratch = Reservoir(open_objects("memory://"), start_jobs=False)
    with closing(scratch):
        fold = TableFold(work.config, _environment(task))  # type: ignore[arg-type]  # of its kind
        fold.load(scratch.session(), SPACES, b"")
        earlier = [each for each in task.changes if each.seq < task.first_seq]
        for rows in (
            _rows_of(earlier),
            *_events(work, task, stores),
            _rows_of(task.changes[len(earlier) :]),
        ):
            if rows.seqs:
                fold.apply(0, rows)
        view = fold.snapshot()
        tables = view.read(view.columns.names).tables()
        return fold.schema, _in_order(tables, view.columns)


def _events(work: RebuildContext, task: RangeTask, stores: OpenStores) -> Iterator[FoldColumns]:
    for batch in split_reader.read(task.parts, COLUMNS, (), stores=stores):
        for mark in work.strangers[0]:
            others = pc.fill_null(pc.starts_with(batch["meta"], pattern=mark), False)
            batch = batch.filter(pc.invert(others))  # noqa: PLW2901 - narrows the batch
        yield FoldColumns(
            batch["seq"].to_pylist(),
            batch["ts"].cast(pa.int64()).to_pylist(),
            batch["key"].to_pylist(),
            (None,) * len(batch),
            batch["meta"].to_pylist(),
            batch["data"].to_pylist(),
        )


def _rows_of(changes: Sequence[ChangeRecord]) -> FoldColumns:
    nothing = (None,) * len(changes)
    return FoldColumns(
        [each.seq for each in changes],
        [each.ts for each in changes],
        nothing,
        nothing,
        [each.meta for each in changes],
        [each.data for each in changes],
    )


def _environment(task: RangeTask) -> FoldContext:
    """The environment of a table's fold: no files of any store."""
    plenty = MemoryShare(_UNLIMITED_BYTES)
    depot = ViewStorage(
        name=task.live.name,
        identity=(0, 0),
        objects=open_objects("memory://"),
        disk=OsDisk(),
        settings=LakeSettings(),
        store_id=bytes(16),
        spool="",
        term=None,
        trash=lambda _table_id: None,
        confirm=lambda: None,
        cache=plenty,
    )
    return FoldContext(
        SystemClock(), plenty, lambda _source, _seqs: [], None, _UNLIMITED_BYTES, depot
    )


def _in_order(tables: Sequence[pa.Table], columns: pa.Schema) -> pa.Table:
    plain = pa.schema([pa.field(each.name, each.type) for each in columns])
    whole = pa.concat_tables([plain.empty_table(), *(_cast(each, plain) for each in tables)])
    return whole.take(pc.sort_indices(whole[SEQ])).combine_chunks()


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def _differing(one: pa.Table, other: pa.Table, *, same_columns: bool) -> set[int]:
    """The seqs of rows that differ."""
    if same_columns and one.equals(other):
        return set()
    rows, other_rows = _rows(one), _rows(other)
    return {seq for seq in rows.keys() | other_rows.keys() if rows.get(seq) != other_rows.get(seq)}


def _rows(table: pa.Table) -> dict[int, bytes]:
    """Rows as bytes, by seq: so that NaN equals NaN."""
    return {row[SEQ]: msgspec.msgpack.encode(row) for row in table.to_pylist()}
