"""A stream of topics: offsets, admission, and what is done about loss.

An offset is how far each topic has come, and in which life (``positions.Offsets``): a checkpoint
holds nothing else, so a restart goes on exactly behind it, and a checkpoint of another store is
refused. A topic that begins to match joins with its first record.

Between two offsets some records may be missing: retention took them before the stream came, a crash
took an unsynced tail, the topic was deleted or made anew. That is never silent:

    onLoss=fail      (the default) the query ends with ``RecordsLost``
    onLoss=report    a row with the column ``lost`` (first, last, reason) set and all others but
                     ``topic`` and ``seq`` empty; ``last`` is empty where nobody knows

Records that were deleted on request are not lost: they are just not there. What lay before the
place at which a stream began is not lost either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from strandline.errors import Corrupt, Forbidden, Invalid, RecordsLost, Unavailable
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import record_schema, split_planner
from strandline.pipelines.splits.predicates import time_of
from strandline.pipelines.splits.snapshot_position import Offset, Offsets, Position
from strandline.pipelines.splits.split_reader import carried
from strandline.schema import SYSTEM_PREFIX
from strandline.spark.errors import told_briefly
from strandline.spark.read import executor_read
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import Place, open_place
from strandline.spark.read.tasks import AnyPart, Task, in_tasks
from strandline.spark.row_mappers.mapper import selected
from strandline.spark.source import lazy


class Loss(msgspec.Struct, frozen=True):
    """Seqs that a stream does not get; without ``last`` nobody knows how many."""

    topic: str
    first: int
    last: int | None
    reason: str


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. On the driver it keeps the store open; executors have a copy that does not."""

    def __init__(self, options: ReadOptions, schema: pa.Schema | None = None) -> None:
        """``schema`` is that of a view."""
        if options.end or options.as_of:
            raise Invalid("to and as_of are for batch reads: a stream has no end")
        self.options = options
        self._schema = schema
        self._typed = None if schema is None else lazy.typed_stream(options, schema)
        self._place: Place | None = None
        self._position: Position | None = None
        self._target: Position | None = None
        self._begun = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with told_briefly():
            place, position = self._look(fresh=True, strict=self.options.view != "dead")
            self._begun = True
            offsets = {
                each.name: Offset(each.epoch, self._begin(place, each)) for each in position.topics
            }
            return _told(Offsets(position.store_id, offsets))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self.options.records_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with told_briefly():
            self._target = self._look(fresh=True)[1]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with told_briefly():
            begun = Offsets.of(start)
            # What a new stream was told to begin with must not be evicted before its first batch.
            position = self._target or self._look(fresh=not self._begun)[1]
            self._begun = False
            begun.check_store(position.store_id)
            room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            ends = advanced(begun, position, room, allow_loss=self.options.on_loss == "report")
            return start if ends == begun.topics else _told(Offsets(begun.store, ends))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_briefly():
            try:
                parts = self._all_parts(Offsets.of(start), Offsets.of(end), fresh=False)
            except (Corrupt, Unavailable):
                # The store was opened a while ago, and its writer has let go of some files.
                parts = self._all_parts(Offsets.of(start), Offsets.of(end), fresh=True)
            return parts

    def _all_parts(self, begun: Offsets, ended: Offsets, *, fresh: bool) -> list[Task]:
        place, position = self._look(fresh=fresh)
        begun.check_store(position.store_id)
        if any(not _has_come(position, name, each) for name, each in ended.topics.items()):
            place, position = self._look(fresh=True)
        parts: list[AnyPart] = []
        shape = None
        losses: list[Loss] = []
        there = {snapshot.name: snapshot for snapshot in position.topics}
        for name in sorted({*begun.topics, *ended.topics}):
            if name not in ended.topics or name not in there:
                seq = begun.topics[name].seq if name in begun.topics else 0
                losses.append(Loss(name, seq + 1, None, "deleted"))
                continue
            wanted, lost = stretch(there[name], begun, ended.topics[name])
            losses += lost
            parts += self._parts(place, position, there[name], wanted)
            if self._typed is not None and wanted.first_seq <= wanted.last_seq:
                shape = self._typed.shape(place, position, there[name], wanted)
        return in_tasks(parts, shape) + in_tasks(self._told(losses))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        names = self.options.columns if self._schema is None else self._schema.names
        with told_briefly():
            yield from executor_read.rows(partition, self._schema, names, ())

    def stop(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None

    def _look(self, *, fresh: bool, strict: bool = False) -> tuple[Place, Position]:
        """The place and its position, as it was seen last or as it is now."""
        if self._place is None:
            self._place = open_place(self.options)
        elif fresh:
            self._place.refresh()
        if self._position is None or fresh:
            typed = self._typed
            topics = self.options.topics if typed is None else (typed.topic(self._place),)
            self._position = self._place.pin(topics, strict=strict)
            if not self._position.store_id:
                raise Forbidden(
                    "a stream must know which store it reads, to go on with its checkpoint: the "
                    "token needs the action metrics besides read"
                )
        return self._place, self._position

    def _begin(self, place: Place, snapshot: Snapshot) -> int:
        """The cursor at which a new stream begins: what lies before it is not its concern."""
        begin = self.options.begin
        if begin == "latest":
            return snapshot.head_seq
        oldest = snapshot.evict_floor - 1
        if begin in ("", "earliest"):
            return oldest
        if begin.isdecimal():
            return max(oldest, min(int(begin) - 1, snapshot.head_seq))
        return max(oldest, place.cursor_at(snapshot, time_of(begin)))

    def _parts(
        self, place: Place, position: Position, snapshot: Snapshot, wanted: split_planner.Range
    ) -> list[AnyPart]:
        if wanted.first_seq > wanted.last_seq:
            return []
        names = self.options.columns if self._schema is None else record_schema.RECORD
        files: list[AnyPart] = [*split_planner.file_parts(position, snapshot, wanted, ())[0]]
        return files + place.hot_parts(position, snapshot, wanted, names)

    def _told(self, losses: Sequence[Loss]) -> list[AnyPart]:
        """Losses as rows, if that is what was asked for."""
        if not losses:
            return []
        if self.options.on_loss != "report":
            raise _lost(losses[0])
        if self._schema is None:
            return [carried(loss_rows(losses, self.options.columns))]
        rows = loss_rows(losses, ["seq", record_schema.LOST])
        if (shown := f"{SYSTEM_PREFIX}seq") in self._schema.names:  # it has a field seq
            rows = rows.rename_columns([shown, record_schema.LOST])
        return [carried(pa.Table.from_batches([selected(rows, self._schema)]))]


def advanced(
    begun: Offsets, position: Position, room: int | None, *, allow_loss: bool
) -> dict[str, Offset]:
    """How far a batch may go: to the heads, or so many records, shared out by what waits."""
    waiting: dict[str, tuple[Snapshot, int]] = {}
    ends = {}
    there = {snapshot.name: snapshot for snapshot in position.topics}
    for name, offset in begun.topics.items():
        if name not in there:
            if not allow_loss:
                raise _lost(Loss(name, offset.seq + 1, None, "deleted"))
            continue
        ends[name] = offset
    for name, snapshot in there.items():
        before = cursor(snapshot, begun)
        if snapshot.head_seq > before or is_anew(snapshot, begun):
            waiting[name] = (snapshot, before)
    total = sum(snapshot.head_seq - before for snapshot, before in waiting.values())
    for name, (snapshot, before) in waiting.items():
        seq = snapshot.head_seq
        if room is not None and total > room:
            share = max(1, room * (seq - before) // total)
            # Seqs that hold nothing are free: they must not hold up what lies behind them.
            seq = min(seq, max(before, snapshot.floor - 1) + share)
        ends[name] = Offset(snapshot.epoch, seq)
    return dict(sorted(ends.items()))


def is_anew(snapshot: Snapshot, begun: Offsets) -> bool:
    """Whether an offset is of an earlier life of the topic."""
    offset = begun.topics.get(snapshot.name)
    if offset is None:
        return False
    return offset.epoch < snapshot.created_us or offset.seq > snapshot.head_seq


def cursor(snapshot: Snapshot, begun: Offsets) -> int:
    """The last seq that a stream is done with."""
    offset = begun.topics.get(snapshot.name)
    if offset is None:
        return 0  # it came while the stream ran, which wants all of it
    return snapshot.evict_floor - 1 if is_anew(snapshot, begun) else offset.seq


def stretch(
    snapshot: Snapshot, begun: Offsets, end: Offset
) -> tuple[split_planner.Range, list[Loss]]:
    """The seqs of a topic between two offsets, and what is lost of them."""
    name = snapshot.name
    if end.epoch < snapshot.created_us:
        return split_planner.Range(1, 0), []  # of an earlier life too: the next batch tells
    before = cursor(snapshot, begun)
    lost = []
    if is_anew(snapshot, begun):
        lost.append(Loss(name, begun.topics[name].seq + 1, None, "recreated"))
    last_seq = min(end.seq, snapshot.head_seq)
    if before < last_seq:
        for gap in snapshot.lost_between(before + 1, last_seq):
            lost.append(Loss(name, gap.gap_from, gap.gap_to, gap.reason))
    return split_planner.Range(max(before + 1, snapshot.floor), last_seq), lost


def loss_rows(losses: Sequence[Loss], names: Sequence[str]) -> pa.Table:
    """Losses as rows of the stream."""
    table = pa.table(
        {
            record_schema.TOPIC: pa.array([loss.topic for loss in losses], pa.string()),
            "seq": pa.array([loss.first for loss in losses], pa.uint64()),
            record_schema.LOST: pa.array(
                [msgspec.to_builtins(loss) for loss in losses],
                record_schema.arrow_schema([record_schema.LOST]).field(0).type,
            ),
        }
    )
    return record_schema.shaped(table, names)


def _lost(loss: Loss) -> RecordsLost:
    last = loss.first if loss.last is None else loss.last
    error = RecordsLost(loss.topic, loss.first, last, loss.reason)
    error.args = (f"{str(error).partition(':')[0]}: set onLoss=report to go on behind them",)
    return error


def _has_come(position: Position, name: str, end: Offset) -> bool:
    found = [each for each in position.topics if each.name == name]
    return bool(found) and found[0].epoch >= end.epoch and found[0].head_seq >= end.seq


def _told(offsets: Offsets) -> dict[str, Any]:
    told: Mapping[str, Any] = msgspec.to_builtins(offsets, order="sorted")
    return dict(told)
