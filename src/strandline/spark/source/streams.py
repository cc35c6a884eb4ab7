"""A stream of topics: offsets, batch limits, and lost records.

An offset is the seq and the epoch of each topic (``Offsets`` in
``pipelines/splits/snapshot_position.py``): a checkpoint holds nothing else, so a restart resumes
exactly after it, and a checkpoint of another store is rejected. A topic that matches later joins
with its first record.

Between two offsets some records may be missing: retention removed them before the stream read them,
a crash lost an unsynced tail, the topic was deleted or created again. That is never silent:

    onLoss=fail      (the default) the query ends with ``RecordsLost``
    onLoss=report    a row with the column ``lost`` (first, last, reason) set and all others but
                     ``topic`` and ``seq`` empty; ``last`` is empty if it is not known

Records that were deleted on request are not lost: they are just missing. Records before the start
of a stream are not lost either.
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
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import record_schema, split_planner
from strandline.pipelines.splits.predicates import time_of
from strandline.pipelines.splits.snapshot_position import StorePosition, TopicOffset, TopicOffsets
from strandline.pipelines.splits.split_reader import encode_rows
from strandline.schema import SYSTEM_PREFIX
from strandline.spark.errors import short_errors
from strandline.spark.read import executor_read
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import ReadLocation, open_location
from strandline.spark.read.tasks import AnyPart, Task, in_tasks
from strandline.spark.row_mappers.mapper import select_columns
from strandline.spark.source import lazy


class StreamLoss(msgspec.Struct, frozen=True):
    """Seqs that a stream does not get; ``last`` is None if their number is not known."""

    topic: str
    first: int
    last: int | None
    reason: str


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream. On the driver it keeps the store open; the copies on executors do not."""

    def __init__(self, options: ReadOptions, schema: pa.Schema | None = None) -> None:
        """``schema`` has the columns of a view, None for records."""
        if options.end or options.as_of:
            raise Invalid("to and as_of are for batch reads: a stream has no end")
        self.options = options
        self._schema = schema
        self._typed = None if schema is None else lazy.typed_stream(options, schema)
        self._location: ReadLocation | None = None
        self._position: StorePosition | None = None
        self._target: StorePosition | None = None
        self._is_new = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with short_errors():
            location, position = self._pinned(fresh=True, strict=self.options.view != "dead")
            self._is_new = True
            offsets = {
                each.name: TopicOffset(each.epoch, self._first_cursor(location, each))
                for each in position.topics
            }
            return _as_json(TopicOffsets(position.store_id, offsets))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self.options.records_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with short_errors():
            self._target = self._pinned(fresh=True)[1]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with short_errors():
            offsets = TopicOffsets.of(start)
            # The start of a new stream must not be evicted before its first batch: reuse the pin.
            position = self._target or self._pinned(fresh=not self._is_new)[1]
            self._is_new = False
            offsets.check_store(position.store_id)
            room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            ends = next_offsets(
                offsets, position, room, allow_loss=self.options.on_loss == "report"
            )
            return start if ends == offsets.topics else _as_json(TopicOffsets(offsets.store, ends))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with short_errors():
            try:
                parts = self._all_parts(TopicOffsets.of(start), TopicOffsets.of(end), fresh=False)
            except (Corrupt, Unavailable):
                # The writer has deleted files since the store was opened: refresh and plan again.
                parts = self._all_parts(TopicOffsets.of(start), TopicOffsets.of(end), fresh=True)
            return parts

    def _all_parts(self, start: TopicOffsets, end: TopicOffsets, *, fresh: bool) -> list[Task]:
        location, position = self._pinned(fresh=fresh)
        start.check_store(position.store_id)
        if any(not _is_reached(position, name, each) for name, each in end.topics.items()):
            location, position = self._pinned(fresh=True)
        parts: list[AnyPart] = []
        shape = None
        losses: list[StreamLoss] = []
        snapshots = {snapshot.name: snapshot for snapshot in position.topics}
        for name in sorted({*start.topics, *end.topics}):
            if name not in end.topics or name not in snapshots:
                seq = start.topics[name].seq if name in start.topics else 0
                losses.append(StreamLoss(name, seq + 1, None, "deleted"))
                continue
            seqs, lost = seqs_between(snapshots[name], start, end.topics[name])
            losses += lost
            parts += self._parts(location, position, snapshots[name], seqs)
            if self._typed is not None and seqs.first_seq <= seqs.last_seq:
                shape = self._typed.mapper(location, position, snapshots[name], seqs)
        return in_tasks(parts, shape) + in_tasks(self._loss_parts(losses))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        names = self.options.columns if self._schema is None else self._schema.names
        with short_errors():
            yield from executor_read.rows(partition, self._schema, names, ())

    def stop(self) -> None:
        if self._location is not None:
            self._location.close()
            self._location = None

    def _pinned(self, *, fresh: bool, strict: bool = False) -> tuple[ReadLocation, StorePosition]:
        """The location and its last pinned position, or a new one."""
        if self._location is None:
            self._location = open_location(self.options)
        elif fresh:
            self._location.refresh()
        if self._position is None or fresh:
            typed = self._typed
            topics = self.options.topics if typed is None else (typed.topic(self._location),)
            self._position = self._location.pin(topics, strict=strict)
            if not self._position.store_id:
                raise Forbidden(
                    "a stream must know the id of its store, to resume from its checkpoint: the "
                    "token needs the scope metrics besides read"
                )
        return self._location, self._position

    def _first_cursor(self, location: ReadLocation, snapshot: TopicSnapshot) -> int:
        """The cursor at which a new stream starts."""
        start = self.options.begin
        if start == "latest":
            return snapshot.head_seq
        oldest = snapshot.evict_floor - 1
        if start in ("", "earliest"):
            return oldest
        if start.isdecimal():
            return max(oldest, min(int(start) - 1, snapshot.head_seq))
        return max(oldest, location.cursor_at(snapshot, time_of(start)))

    def _parts(
        self,
        location: ReadLocation,
        position: StorePosition,
        snapshot: TopicSnapshot,
        seqs: split_planner.SeqRange,
    ) -> list[AnyPart]:
        if seqs.first_seq > seqs.last_seq:
            return []
        names = self.options.columns if self._schema is None else record_schema.RECORD
        files: list[AnyPart] = [*split_planner.file_parts(position, snapshot, seqs, ())[0]]
        return files + location.hot_parts(position, snapshot, seqs, names)

    def _loss_parts(self, losses: Sequence[StreamLoss]) -> list[AnyPart]:
        """Losses as rows with ``onLoss=report``, else an error."""
        if not losses:
            return []
        if self.options.on_loss != "report":
            raise _lost(losses[0])
        if self._schema is None:
            return [encode_rows(loss_rows(losses, self.options.columns))]
        rows = loss_rows(losses, ["seq", record_schema.LOST])
        if (shown := f"{SYSTEM_PREFIX}seq") in self._schema.names:  # the table has a field seq
            rows = rows.rename_columns([shown, record_schema.LOST])
        return [encode_rows(pa.Table.from_batches([select_columns(rows, self._schema)]))]


def next_offsets(
    start: TopicOffsets, position: StorePosition, room: int | None, *, allow_loss: bool
) -> dict[str, TopicOffset]:
    """The end offsets of a batch: the heads, or ``room`` records, split by the lag of topics."""
    lagging: dict[str, tuple[TopicSnapshot, int]] = {}
    ends = {}
    snapshots = {snapshot.name: snapshot for snapshot in position.topics}
    for name, offset in start.topics.items():
        if name not in snapshots:
            if not allow_loss:
                raise _lost(StreamLoss(name, offset.seq + 1, None, "deleted"))
            continue
        ends[name] = offset
    for name, snapshot in snapshots.items():
        before = cursor(snapshot, start)
        if snapshot.head_seq > before or is_recreated(snapshot, start):
            lagging[name] = (snapshot, before)
    total = sum(snapshot.head_seq - before for snapshot, before in lagging.values())
    for name, (snapshot, before) in lagging.items():
        seq = snapshot.head_seq
        if room is not None and total > room:
            share = max(1, room * (seq - before) // total)
            # Seqs without records are free: they must not delay the records after them.
            seq = min(seq, max(before, snapshot.floor - 1) + share)
        ends[name] = TopicOffset(snapshot.epoch, seq)
    return dict(sorted(ends.items()))


def is_recreated(snapshot: TopicSnapshot, start: TopicOffsets) -> bool:
    """Whether an offset is from before the topic was created again."""
    offset = start.topics.get(snapshot.name)
    if offset is None:
        return False
    return offset.epoch < snapshot.created_us or offset.seq > snapshot.head_seq


def cursor(snapshot: TopicSnapshot, start: TopicOffsets) -> int:
    """The last seq that a stream has read."""
    offset = start.topics.get(snapshot.name)
    if offset is None:
        return 0  # the topic was created during the stream, which reads all of it
    return snapshot.evict_floor - 1 if is_recreated(snapshot, start) else offset.seq


def seqs_between(
    snapshot: TopicSnapshot, start: TopicOffsets, end: TopicOffset
) -> tuple[split_planner.SeqRange, list[StreamLoss]]:
    """The seqs of a topic between two offsets, and the lost ones."""
    name = snapshot.name
    if end.epoch < snapshot.created_us:
        return split_planner.SeqRange(
            1, 0
        ), []  # also from before the topic was created again: the next batch reports it
    before = cursor(snapshot, start)
    lost = []
    if is_recreated(snapshot, start):
        lost.append(StreamLoss(name, start.topics[name].seq + 1, None, "recreated"))
    last_seq = min(end.seq, snapshot.head_seq)
    if before < last_seq:
        for gap in snapshot.lost_between(before + 1, last_seq):
            lost.append(StreamLoss(name, gap.gap_from, gap.gap_to, gap.reason))
    return split_planner.SeqRange(max(before + 1, snapshot.floor), last_seq), lost


def loss_rows(losses: Sequence[StreamLoss], names: Sequence[str]) -> pa.Table:
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
    return record_schema.with_columns(table, names)


def _lost(loss: StreamLoss) -> RecordsLost:
    last = loss.first if loss.last is None else loss.last
    error = RecordsLost(loss.topic, loss.first, last, loss.reason)
    error.args = (f"{str(error).partition(':')[0]}: set onLoss=report to continue after them",)
    return error


def _is_reached(position: StorePosition, name: str, end: TopicOffset) -> bool:
    snapshots = [each for each in position.topics if each.name == name]
    return bool(snapshots) and snapshots[0].epoch >= end.epoch and snapshots[0].head_seq >= end.seq


def _as_json(offsets: TopicOffsets) -> dict[str, Any]:
    fields: Mapping[str, Any] = msgspec.to_builtins(offsets, order="sorted")
    return dict(fields)
