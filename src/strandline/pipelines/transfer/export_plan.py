"""Plans an export: its options, its seqs, and the ranges that they are divided into.

Ranges depend only on ``_export.json``, so every run of an export has the same ones. Each run finds
the locations of their records again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from strandline.config.settings import MIB
from strandline.errors import Conflict, Invalid
from strandline.log.read.snapshot import TopicSnapshot
from strandline.log.topic.topic import Topic
from strandline.pipelines.splits import record_schema as named
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import time_of
from strandline.pipelines.splits.snapshot_position import StorePosition, TopicOffset, TopicOffsets
from strandline.pipelines.splits.split_reader import Part
from strandline.pipelines.transfer.file_writers import DATA_FORMS, FORMATS, PARTITIONS
from strandline.platform.disk import OsDisk
from strandline.records import Tombstone
from strandline.store import Store

FILE_BYTES = 128 * MIB
"""Approximate payload of a file without ``file_rows``: a task holds a file in memory."""

_FILE_ROWS = (1_000, 1_000_000)


class ExportJob(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an export. They identify it, except for its locations."""

    store: str
    topic: str
    to: str
    format: str = "parquet"
    columns: tuple[str, ...] = named.RECORD
    data: str = ""
    begin: str = ""
    end: str = ""
    as_of: str = ""
    partition_by: str = ""
    file_rows: int = 0
    lake: str = ""

    def check(self) -> None:
        _one_of("format", self.format, FORMATS)
        _one_of("data", self.data, DATA_FORMS)
        _one_of("partition_by", self.partition_by, ("", *PARTITIONS))
        named.select_columns(self.columns, many=False, lost=False)
        if self.file_rows < 0:
            raise Invalid("file_rows is 1 or more, or 0 to go by size")
        if self.partition_by == "tag" and self.columns == ("tag",):
            raise Invalid("with partitions by tag the folder has the tag: name other columns too")


class ExportManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``_export.json``."""

    version: int = 1
    attempt: str
    """Random, so that a run does not take the manifest of another run for its own."""
    store_id: str
    job: ExportJob = msgspec.field(name="asked")
    position: str
    first_seq: int
    last_seq: int
    file_rows: int
    lost: tuple[Tombstone, ...] = ()
    """Records that were lost before the first seq."""


class ExportFile(msgspec.Struct, frozen=True, kw_only=True):
    """One written file."""

    key: str
    rows: int
    size: int


class ExportedRange(msgspec.Struct, frozen=True, kw_only=True):
    """An exported range of seqs."""

    files: tuple[ExportFile, ...]
    lost: tuple[Tombstone, ...] = ()


class ExportTask(msgspec.Struct, frozen=True, kw_only=True):
    """A range of seqs, both ends included, with the locations of its records."""

    first_seq: int
    last_seq: int
    parts: tuple[Part, ...]
    lost: tuple[Tombstone, ...] = ()

    def name(self) -> str:
        return f"{self.first_seq:020d}-{self.last_seq:020d}"


def plan_export(
    job: ExportJob, store: Store, position: StorePosition, topic: Topic
) -> ExportManifest:
    """Plan a new export: its seqs, and their number in a file."""
    (snapshot,) = position.topics
    first_seq, last_seq = _requested_range(job, position, snapshot, topic)
    lost = snapshot.lost_between(first_seq, min(last_seq, snapshot.floor - 1))
    low, high = _FILE_ROWS
    by_size = min(high, max(low, FILE_BYTES // row_bytes_of(topic)))
    return ExportManifest(
        attempt=OsDisk().random_id().hex(),
        store_id=store.id,
        job=job,
        position=position.offsets().encode(),
        first_seq=max(first_seq, snapshot.floor),
        last_seq=last_seq,
        file_rows=job.file_rows or by_size,
        lost=tuple(lost) if first_seq < snapshot.floor else (),
    )


def _requested_range(
    job: ExportJob, position: StorePosition, snapshot: TopicSnapshot, topic: Topic
) -> tuple[int, int]:
    """The requested seqs, both ends included."""
    first_seq, last_seq = 1, snapshot.head_seq
    if job.as_of.startswith("{"):
        offsets = TopicOffsets.decode(job.as_of)
        offsets.check_store(position.store_id)
        last_seq = split_planner.selected_range(snapshot, (), offsets).last_seq
    elif job.as_of:
        last_seq = min(last_seq, topic.cursor_at(time_of(job.as_of) + 1))
    if job.begin.isdecimal():
        first_seq = max(1, int(job.begin))
    elif job.begin:
        first_seq = topic.cursor_at(time_of(job.begin)) + 1
    if job.end.isdecimal():
        last_seq = min(last_seq, int(job.end) - 1)
    elif job.end:
        last_seq = min(last_seq, topic.cursor_at(time_of(job.end)))
    return first_seq, last_seq


def check_same(manifest: ExportManifest, job: ExportJob, position: StorePosition) -> None:
    """Raise Invalid when the folder has another export, Conflict for a re-created topic."""
    (snapshot,) = position.topics
    if (
        without_locations(manifest.job) != without_locations(job)
        or manifest.store_id != position.store_id
    ):
        raise Invalid(
            f"{job.to} has an export of topic {manifest.job.topic!r} with other options: repeat "
            "those to continue it, or name another folder"
        )
    offset: TopicOffset = TopicOffsets.decode(manifest.position).topics[job.topic]
    if offset.epoch < snapshot.created_us:
        raise Conflict(
            f"topic {job.topic!r} was re-created since this export began: name another folder"
        )


def without_locations(job: ExportJob) -> ExportJob:
    """The options that identify an export: all but its locations."""
    return msgspec.structs.replace(job, store="", to="", lake="")


def tasks_of(manifest: ExportManifest, position: StorePosition) -> Iterator[ExportTask]:
    """All ranges of an export, with the locations of their records at a current position."""
    (snapshot,) = position.topics
    for first_seq in range(manifest.first_seq, manifest.last_seq + 1, manifest.file_rows):
        last_seq = min(first_seq + manifest.file_rows - 1, manifest.last_seq)
        seqs = split_planner.SeqRange(max(first_seq, snapshot.floor), last_seq)
        parts: list[Part] = []
        if seqs.first_seq <= seqs.last_seq:
            parts += split_planner.file_parts(position, snapshot, seqs, ())[0]
            parts += split_planner.hot_parts(position, snapshot, seqs)
        yield ExportTask(
            first_seq=first_seq,
            last_seq=last_seq,
            parts=tuple(parts),
            lost=tuple(snapshot.lost_between(first_seq, last_seq)),
        )


def row_bytes_of(topic: Topic) -> int:
    """The average payload of a record."""
    statistics = topic.statistics()
    return max(1, statistics.payload_bytes // max(1, statistics.count))


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise Invalid(f"{name} is {', '.join(filter(None, known))}, not {value!r}")
