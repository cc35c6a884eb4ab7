"""An event table against its log: tasks fold a range of seqs and compare it with the live rows.

Rows of a table never meet in its fold. What is about all of them, versions of the schema and
deletes, are few records, which one pass of tasks finds (``find_changes``). Then each task folds the
events of a range with the table's own fold, in memory and without files, gives it all versions and
the deletes that came later, and compares what is left with the rows that the table has in that
range: out of its files, and out of the memory of the store, which travels along. Ranges follow the
files, so that a file is read by as few tasks as may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.config.memory_budget import Share
from strandline.config.settings import LakeSettings
from strandline.lake.manifest.file_entry import LakeFile
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.lake_selection import objects_at
from strandline.pipelines.splits import split_planner, split_reader
from strandline.pipelines.splits.predicates import Condition
from strandline.pipelines.splits.snapshot_position import Position
from strandline.pipelines.splits.split_reader import OF_THIS_WORKER, Part, Stores, StoresOfThreads
from strandline.pipelines.view_rebuild.partitioning import COLUMNS
from strandline.pipelines.view_rebuild.shuffle_task import Work
from strandline.platform.clock import SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.reservoir import Reservoir
from strandline.schema import Schema
from strandline.views.table.control_records import MARK
from strandline.views.table.files.live_rows import visible
from strandline.views.table.fold import TableFold
from strandline.views.table.rows import arrow_schema
from strandline.views.table.snapshot import SEQ
from strandline.views.view import SPACES, Depot, Rows, World
from strandline.views.view_runner import Host

_PLENTY = 1 << 40
_NAMES_MAX = 5


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


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    found: tuple[ChangeRecord, ...]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a table has, as a store tells them at a position."""

    name: str
    table_id: int
    files: tuple[tuple[LakeFile, Schema], ...]
    schema: Schema
    first_seq: int
    last_seq: int
    hidden: bytes
    memory: tuple[bytes, ...]
    """Rows that are in no file, each an Arrow stream."""


class RangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """A range of seqs of both."""

    first_seq: int
    last_seq: int
    parts: tuple[Part, ...]
    changes: tuple[ChangeRecord, ...]
    """Those before and behind the range that matter to it."""
    live: Live
    """What reaches into the range."""

    @property
    def rows(self) -> int:
        return self.last_seq - self.first_seq + 1


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a range."""

    first_seq: int
    rebuilt: int
    live: int
    differing: int
    seqs: tuple[int, ...]
    """The first of those that differ."""


def live_of(host: Host[TableFold]) -> Live:
    """The rows that a table has now."""
    with host.reading() as fold:
        pinned, manifest = fold.segments.pin(), fold.segments.manifest
        view = fold.snapshot()
        rest = view.read(view.columns.names, after=pinned.flushed)
        hidden = fold.hidden | pinned.hidden
        return Live(
            name=host.name,
            table_id=0 if manifest is None else manifest.topic_id,
            files=tuple((file, pinned.schema_of(file)) for file in pinned.files if file.rows),
            schema=fold.schema,
            first_seq=pinned.floor,
            last_seq=view.position,
            hidden=hidden.serialize() if hidden else b"",
            memory=tuple(
                split_reader.carried(table).stream for table in rest.tables() if len(table)
            ),
        )


def changes_tasks(position: Position, snapshot: Snapshot) -> list[ChangesTask]:
    return [
        ChangesTask(parts=tuple(group), rows=sum(map(split_planner.seqs_in, group)))
        for group in split_planner.in_tasks(
            _parts(position, snapshot, snapshot.floor, snapshot.head_seq)
        )
    ]


def find_changes(
    work: Work, task: ChangesTask, *, threads: StoresOfThreads | None = None
) -> Changes:
    """The work of a task of the first pass."""
    del work
    stores = threads.mine() if threads else OF_THIS_WORKER
    marked: list[int] = []
    for batch in split_reader.read(task.parts, ("seq", "meta"), (), stores=stores):
        if batch["meta"].null_count < len(batch):
            marks = pc.fill_null(pc.starts_with(batch["meta"], pattern=MARK), False)
            marked += batch.filter(marks)["seq"].to_pylist()
    found: list[ChangeRecord] = []
    if marked:
        one = Condition("seq", "in", tuple(marked))
        for batch in split_reader.read(task.parts, COLUMNS, [one], stores=stores):
            stamps = batch["ts"].cast(pa.int64()).to_pylist()
            columns = [batch[name].to_pylist() for name in ("seq", "meta", "data")]
            for ts, seq, meta, data in zip(stamps, *columns, strict=True):
                found.append(ChangeRecord(seq, ts, meta, data))
    return Changes(found=tuple(found))


def range_tasks(
    position: Position,
    snapshot: Snapshot,
    live: Live,
    changes: Sequence[ChangeRecord],
    rows_max: int,
) -> list[RangeTask]:
    """Ranges of seqs that are everything together, of so many seqs at most."""
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
    work: Work,
    task: RangeTask,
    *,
    objects: Objects | None = None,
    threads: StoresOfThreads | None = None,
) -> Compared:
    """The work of a task of the second pass."""
    stores = threads.mine() if threads else OF_THIS_WORKER
    with objects_at(work.place, objects) as lake:
        told = _live_rows(lake, task)
    schema, folded = _folded(work, task, stores)
    seqs = sorted(_differing(folded, told, same_columns=schema == task.live.schema))
    return Compared(
        first_seq=task.first_seq,
        rebuilt=len(folded),
        live=len(told),
        differing=len(seqs),
        seqs=tuple(seqs[:_NAMES_MAX]),
    )


def _parts(position: Position, snapshot: Snapshot, first_seq: int, last_seq: int) -> list[Part]:
    wanted = split_planner.Range(first_seq, last_seq)
    found: list[Part] = list(split_planner.file_parts(position, snapshot, wanted, ())[0])
    return [*found, *split_planner.hot_parts(position, snapshot, wanted)]


def _ranges(snapshot: Snapshot, live: Live, rows_max: int) -> Iterator[tuple[int, int]]:
    edges = [1]
    for file, _ in live.files:
        edges += [file.first_seq, file.last_seq + 1]
    edges.append(snapshot.head_seq + 1)
    edges = sorted({edge for edge in edges if edge <= snapshot.head_seq + 1})
    for first, following in pairwise(edges):
        for start in range(first, following, rows_max):
            yield start, min(start + rows_max, following) - 1


def _part_of(live: Live, first_seq: int, last_seq: int) -> Live:
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
        here = table.filter(
            pc.and_(pc.greater_equal(seqs, first_seq), pc.less_equal(seqs, last_seq))
        )
        memory += [split_reader.carried(here).stream] if len(here) else []
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
    found = [pa.ipc.open_stream(stream).read_all() for stream in live.memory]
    for file, written in live.files:
        found += visible(
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
    return _in_order(found, columns)


def _folded(work: Work, task: RangeTask, stores: Stores) -> tuple[Schema, pa.Table]:
    """What the log says of the range, and the version of the schema at its end."""
    scratch = Reservoir(open_objects("memory://"), start_jobs=False)
    with closing(scratch):
        fold = TableFold(work.config, _world(task))  # type: ignore[arg-type]  # of its kind
        fold.load(scratch.session(), SPACES, b"")
        before = [each for each in task.changes if each.seq < task.first_seq]
        for rows in (
            _changed(before),
            *_events(work, task, stores),
            _changed(task.changes[len(before) :]),
        ):
            if rows.seqs:
                fold.apply(0, rows)
        view = fold.snapshot()
        tables = view.read(view.columns.names).tables()
        return fold.schema, _in_order(tables, view.columns)


def _events(work: Work, task: RangeTask, stores: Stores) -> Iterator[Rows]:
    for batch in split_reader.read(task.parts, COLUMNS, (), stores=stores):
        for mark in work.strangers[0]:
            others = pc.fill_null(pc.starts_with(batch["meta"], pattern=mark), False)
            batch = batch.filter(pc.invert(others))  # noqa: PLW2901 - what is left of it
        yield Rows(
            batch["seq"].to_pylist(),
            batch["ts"].cast(pa.int64()).to_pylist(),
            batch["key"].to_pylist(),
            (None,) * len(batch),
            batch["meta"].to_pylist(),
            batch["data"].to_pylist(),
        )


def _changed(changes: Sequence[ChangeRecord]) -> Rows:
    nothing = (None,) * len(changes)
    return Rows(
        [each.seq for each in changes],
        [each.ts for each in changes],
        nothing,
        nothing,
        [each.meta for each in changes],
        [each.data for each in changes],
    )


def _world(task: RangeTask) -> World:
    """What a table's fold may use here: no file that anybody has."""
    plenty = Share(_PLENTY)
    depot = Depot(
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
    return World(SystemClock(), plenty, lambda _source, _seqs: [], None, _PLENTY, depot)


def _in_order(tables: Sequence[pa.Table], columns: pa.Schema) -> pa.Table:
    plain = pa.schema([pa.field(each.name, each.type) for each in columns])
    whole = pa.concat_tables([plain.empty_table(), *(_as(each, plain) for each in tables)])
    return whole.take(pc.sort_indices(whole[SEQ])).combine_chunks()


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def _differing(one: pa.Table, other: pa.Table, *, same_columns: bool) -> set[int]:
    """The seqs of rows that are not the same in both."""
    if same_columns and one.equals(other):
        return set()
    known, found = _rows(one), _rows(other)
    return {seq for seq in known.keys() | found.keys() if known.get(seq) != found.get(seq)}


def _rows(table: pa.Table) -> dict[int, bytes]:
    """Rows as bytes, by their seqs: so that a number that is none is the same as itself."""
    return {row[SEQ]: msgspec.msgpack.encode(row) for row in table.to_pylist()}
