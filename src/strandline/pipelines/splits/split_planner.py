"""Plans the tasks of a read: the files, zones and local records that it needs.

    conditions ──▶ files of the manifest, by seqs, times and column statistics
                   ──▶ parts of about ``TASK_ROWS`` rows, small files together
               ──▶ the range that is not in the lake: few rows are sent with the task,
                   more are read by executors from the store

The reader of a file selects its zones, from the file's own index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import Conflict, NotFound
from strandline.lake.files.file_writer import ZONE_SPAN
from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import ColumnStats
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import record_schema
from strandline.pipelines.splits.predicates import Condition, matching_rows
from strandline.pipelines.splits.snapshot_position import StorePosition, TopicOffsets
from strandline.pipelines.splits.split_reader import FilePart, HotPart, Part, encode_rows
from strandline.platform.objectstore.cloud import open_objects
from strandline.store import Store

TASK_ROWS = 8 * 65_536
CARRIED_BYTES_MAX = 8 * 1024 * 1024
"""Up to this size rows that are not in the lake are sent with their task."""
_HOT_TASK_SEQS = 1_000_000
_SEQ_MAX = 2**63 - 2


class SeqRange(msgspec.Struct, frozen=True):
    """Seqs of one topic, both ends included."""

    first_seq: int
    last_seq: int


def selected_range(
    snapshot: TopicSnapshot, conditions: Sequence[Condition], offsets: TopicOffsets | None = None
) -> SeqRange:
    """The seqs of a topic that conditions and a position select."""
    first_seq, last_seq = snapshot.floor, snapshot.head_seq
    if offsets is not None:
        offset = offsets.topics.get(snapshot.name)
        if offset is None:
            return SeqRange(1, 0)
        if offset.epoch < snapshot.created_us:
            raise Conflict(
                f"topic {snapshot.name!r} was re-created after this position: use a newer one"
            )
        last_seq = min(last_seq, offset.seq)
    for condition in conditions:
        if condition.column != "seq" or condition.operator == "exists":
            continue
        values = condition.value if condition.operator == "in" else (condition.value,)
        low, high = min(values, default=1), max(values, default=0)
        if condition.operator in ("=", "in", ">", ">="):
            first_seq = max(first_seq, low + (condition.operator == ">"))
        if condition.operator in ("=", "in", "<", "<="):
            last_seq = min(last_seq, high - (condition.operator == "<"))
    return SeqRange(first_seq, last_seq)


def file_parts(
    position: StorePosition,
    snapshot: TopicSnapshot,
    seqs: SeqRange,
    conditions: Sequence[Condition],
) -> tuple[list[FilePart], int]:
    """The parts of a topic that are in the lake, and the number of skipped files."""
    cold = snapshot.cold_files()
    if cold is None:
        return [], 0
    stats = _statistics(position, snapshot, conditions)
    hidden = snapshot.hidden()
    parts: list[FilePart] = []
    skipped = 0
    for index in range(len(cold)):
        first_seq = max(seqs.first_seq, cold.firsts[index])
        last_seq = min(seqs.last_seq, cold.lasts[index])
        bounds: dict[str, tuple[Any, Any]] = {
            "seq": (first_seq, last_seq),
            "ts": (cold.ts_mins[index], cold.ts_maxs[index]),
            **stats.get(cold.firsts[index], {}),
        }
        if (
            first_seq > last_seq
            or not cold.rows[index]
            or not all(
                each.may_hold(*bounds[each.column]) for each in conditions if each.column in bounds
            )
        ):
            skipped += 1
            continue
        whole = FilePart(
            lake=position.lake,
            topic=snapshot.name,
            topic_id=snapshot.topic_id,
            manifest=cold.manifest,
            file=cold.file(index),
            own_first=cold.firsts[index],
            own_next=cold.lasts[index] + 1,
            first_seq=first_seq,
            last_seq=last_seq,
            deleted=_between(hidden, first_seq, last_seq),
        )
        parts += _divide(whole, cold.rows[index])
    return parts, skipped


def hot_parts(
    position: StorePosition,
    snapshot: TopicSnapshot,
    seqs: SeqRange,
    *,
    store: Store | None = None,
    names: Sequence[str] = record_schema.RECORD,
    conditions: Sequence[Condition] = (),
) -> list[Part]:
    """The parts of a topic that are not in the lake; with ``store`` few rows are read here."""
    first_seq = max(snapshot.hot_seq, seqs.first_seq)
    last_seq = min(snapshot.head_seq, seqs.last_seq)
    if first_seq > last_seq:
        return []
    if store is not None:
        rows = read_few_rows(
            store, snapshot, SeqRange(first_seq, last_seq), conditions, CARRIED_BYTES_MAX
        )
        if rows is not None:
            shaped = record_schema.with_columns(rows, names, snapshot.name)
            return [encode_rows(shaped)] if len(rows) else []
    local = msgspec.structs.replace(snapshot, cold=type(snapshot.cold)(), deleted=b"")
    parts: list[Part] = []
    hidden = snapshot.hidden()
    for start in range(first_seq, last_seq + 1, _HOT_TASK_SEQS):
        stop = min(start + _HOT_TASK_SEQS - 1, last_seq)
        task_snapshot = msgspec.structs.replace(local, deleted=_between(hidden, start, stop))
        parts.append(
            HotPart(
                store=position.store,
                lake="" if position.lake == f"{position.store}/lake" else position.lake,
                snapshot=task_snapshot,
                first_seq=start,
                last_seq=stop,
            )
        )
    return parts


def read_few_rows(
    store: Store,
    snapshot: TopicSnapshot,
    seqs: SeqRange,
    conditions: Sequence[Condition],
    size_max: int,
) -> pa.Table | None:
    """The rows of a range of an opened store; None when they are too large to send with a task."""
    tables = [SCHEMA.empty_table()]
    size = 0
    topic = store.existing_topic(snapshot.name)
    for table in topic.scan(snapshot, seqs.first_seq, seqs.last_seq):
        matching = matching_rows(table, conditions)
        size += matching.nbytes
        if size > size_max:
            return None
        tables.append(matching)
    return pa.concat_tables(tables)


def group_into_tasks(parts: Sequence[Part]) -> list[list[Part]]:
    """Groups of parts, one group for each task: small parts share one."""
    groups: list[list[Part]] = []
    rows = 0
    for part in parts:
        size = seqs_in(part)
        if not groups or rows + size > TASK_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(part)
        rows += size
    return groups


def _between(hidden: BitMap64, first_seq: int, last_seq: int) -> bytes:
    """The hidden seqs of a range, serialized for a task."""
    if not hidden or not hidden.range_cardinality(first_seq, last_seq + 1):
        return b""
    return (hidden & BitMap64(range(first_seq, last_seq + 1))).serialize()


def seqs_in(part: Part) -> int:
    """The approximate number of rows of a part."""
    if isinstance(part, FilePart):
        return max(1, min(part.own_next, part.last_seq + 1) - max(part.own_first, part.first_seq))
    return part.last_seq - part.first_seq + 1 if isinstance(part, HotPart) else TASK_ROWS


def _divide(part: FilePart, rows: int) -> Iterator[FilePart]:
    """Divide a large file into several parts, by the first seqs of zones."""
    first, end = part.own_first, part.own_next
    count = max(1, -(-rows // TASK_ROWS))
    step = -(-(end - first) // count)
    for start in range(first, end, step):
        stop = min(start + step, end)
        # A zone that begins before the range may reach into it, by less than ZONE_SPAN seqs.
        if start <= part.last_seq and stop + ZONE_SPAN > part.first_seq:
            yield msgspec.structs.replace(part, own_first=start, own_next=stop)


def _statistics(
    position: StorePosition, snapshot: TopicSnapshot, conditions: Sequence[Condition]
) -> dict[int, dict[str, tuple[Any, Any]]]:
    """By first seq of a file: the bounds of the columns of the conditions."""
    columns = {each.column for each in conditions} - {"seq", "ts"}
    if not columns:
        return {}
    objects = open_objects(position.lake)
    try:
        store_id = bytes.fromhex(position.store_id)
        history = ManifestHistory(objects, store_id, snapshot.topic_id)
        manifest = history.read(snapshot.cold.manifest).manifest
    except NotFound:
        return {}  # an old manifest was deleted; without statistics all files are read
    finally:
        objects.close()
    bounds = {}
    for file in manifest.files:
        stats = file.column_stats()
        bounds[file.first_seq] = {
            name: _bounds(name, stats[name]) for name in columns if name in stats
        }
    return bounds


def _bounds(name: str, stats: ColumnStats) -> tuple[Any, Any]:
    if name != "key":
        return stats.min, stats.max
    return (
        None if stats.min is None else bytes.fromhex(stats.min),
        None if stats.max is None else bytes.fromhex(stats.max),
    )
