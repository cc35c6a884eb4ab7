"""Which files, zones and local records a query needs, cut into tasks.

    conditions ──▶ files of the manifest, by seqs, times and column statistics
                   ──▶ parts of about ``TASK_ROWS`` rows, small files together
               ──▶ the range that is not in the lake: rows carried along when they are few,
                   else read by executors from the store

Zones are chosen where they are read, from the file's own index.
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
from strandline.lake.manifest.manifest_history import History
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import record_schema
from strandline.pipelines.splits.predicates import Condition, keeping
from strandline.pipelines.splits.snapshot_position import Offsets, Position
from strandline.pipelines.splits.split_reader import FilePart, HotPart, Part, carried
from strandline.platform.objectstore.cloud import open_objects
from strandline.store import Store

TASK_ROWS = 8 * 65_536
CARRIED_BYTES_MAX = 8 * 1024 * 1024
"""Rows that are not in the lake travel with their task up to this size."""
_HOT_TASK_SEQS = 1_000_000
_SEQ_MAX = 2**63 - 2


class Range(msgspec.Struct, frozen=True):
    """Seqs of one topic, both ends included."""

    first_seq: int
    last_seq: int


def wanted_range(
    snapshot: Snapshot, conditions: Sequence[Condition], offsets: Offsets | None = None
) -> Range:
    """The seqs of a topic that conditions and a position leave."""
    first_seq, last_seq = snapshot.floor, snapshot.head_seq
    if offsets is not None:
        offset = offsets.topics.get(snapshot.name)
        if offset is None:
            return Range(1, 0)
        if offset.epoch < snapshot.created_us:
            raise Conflict(
                f"topic {snapshot.name!r} was made anew since the position was taken: take another"
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
    return Range(first_seq, last_seq)


def file_parts(
    position: Position, snapshot: Snapshot, wanted: Range, conditions: Sequence[Condition]
) -> tuple[list[FilePart], int]:
    """The parts of a topic that are in the lake, and how many files need not be read."""
    cold = snapshot.cold_files()
    if cold is None:
        return [], 0
    stats = _statistics(position, snapshot, conditions)
    hidden = snapshot.hidden()
    parts: list[FilePart] = []
    skipped = 0
    for place in range(len(cold)):
        first_seq = max(wanted.first_seq, cold.firsts[place])
        last_seq = min(wanted.last_seq, cold.lasts[place])
        bounds: dict[str, tuple[Any, Any]] = {
            "seq": (first_seq, last_seq),
            "ts": (cold.ts_mins[place], cold.ts_maxs[place]),
            **stats.get(cold.firsts[place], {}),
        }
        if (
            first_seq > last_seq
            or not cold.rows[place]
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
            file=cold.file(place),
            own_first=cold.firsts[place],
            own_next=cold.lasts[place] + 1,
            first_seq=first_seq,
            last_seq=last_seq,
            deleted=_between(hidden, first_seq, last_seq),
        )
        parts += _cut(whole, cold.rows[place])
    return parts, skipped


def hot_parts(
    position: Position,
    snapshot: Snapshot,
    wanted: Range,
    *,
    store: Store | None = None,
    names: Sequence[str] = record_schema.RECORD,
    conditions: Sequence[Condition] = (),
) -> list[Part]:
    """The parts of a topic that are not in the lake; rows, when the opened store has but a few."""
    first_seq = max(snapshot.hot_seq, wanted.first_seq)
    last_seq = min(snapshot.head_seq, wanted.last_seq)
    if first_seq > last_seq:
        return []
    if store is not None:
        rows = few_rows(store, snapshot, Range(first_seq, last_seq), conditions, CARRIED_BYTES_MAX)
        if rows is not None:
            shaped = record_schema.shaped(rows, names, snapshot.name)
            return [carried(shaped)] if len(rows) else []
    bare = msgspec.structs.replace(snapshot, cold=type(snapshot.cold)(), deleted=b"")
    parts: list[Part] = []
    hidden = snapshot.hidden()
    for start in range(first_seq, last_seq + 1, _HOT_TASK_SEQS):
        stop = min(start + _HOT_TASK_SEQS - 1, last_seq)
        mine = msgspec.structs.replace(bare, deleted=_between(hidden, start, stop))
        parts.append(
            HotPart(
                store=position.store,
                lake="" if position.lake == f"{position.store}/lake" else position.lake,
                snapshot=mine,
                first_seq=start,
                last_seq=stop,
            )
        )
    return parts


def few_rows(
    store: Store,
    snapshot: Snapshot,
    wanted: Range,
    conditions: Sequence[Condition],
    size_max: int,
) -> pa.Table | None:
    """The rows of a range of an opened store, None when they are too many to carry along."""
    tables = [SCHEMA.empty_table()]
    size = 0
    topic = store.existing_topic(snapshot.name)
    for table in topic.scan(snapshot, wanted.first_seq, wanted.last_seq):
        kept = keeping(table, conditions)
        size += kept.nbytes
        if size > size_max:
            return None
        tables.append(kept)
    return pa.concat_tables(tables)


def in_tasks(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts in groups, each of which is one task: small ones go together."""
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
    """The hidden seqs of a range as a task takes them along."""
    if not hidden or not hidden.range_cardinality(first_seq, last_seq + 1):
        return b""
    return (hidden & BitMap64(range(first_seq, last_seq + 1))).serialize()


def seqs_in(part: Part) -> int:
    """About how many rows a part has."""
    if isinstance(part, FilePart):
        return max(1, min(part.own_next, part.last_seq + 1) - max(part.own_first, part.first_seq))
    return part.last_seq - part.first_seq + 1 if isinstance(part, HotPart) else TASK_ROWS


def _cut(part: FilePart, rows: int) -> Iterator[FilePart]:
    """A large file in several parts, by the seqs with which zones begin."""
    first, following = part.own_first, part.own_next
    count = max(1, -(-rows // TASK_ROWS))
    step = -(-(following - first) // count)
    for start in range(first, following, step):
        stop = min(start + step, following)
        # A zone that begins here may reach into what is wanted, but not farther than this.
        if start <= part.last_seq and stop + ZONE_SPAN > part.first_seq:
            yield msgspec.structs.replace(part, own_first=start, own_next=stop)


def _statistics(
    position: Position, snapshot: Snapshot, conditions: Sequence[Condition]
) -> dict[int, dict[str, tuple[Any, Any]]]:
    """By first seq of a file: bounds of the columns that conditions are about."""
    wanted = {each.column for each in conditions} - {"seq", "ts"}
    if not wanted:
        return {}
    objects = open_objects(position.lake)
    try:
        store_id = bytes.fromhex(position.store_id)
        history = History(objects, store_id, snapshot.topic_id)
        manifest = history.read(snapshot.cold.manifest).manifest
    except NotFound:
        return {}  # an old manifest is gone; its files are there, and are read
    finally:
        objects.close()
    found = {}
    for file in manifest.files:
        stats = file.column_stats()
        found[file.first_seq] = {
            name: _bounds(name, stats[name]) for name in wanted if name in stats
        }
    return found


def _bounds(name: str, stats: ColumnStats) -> tuple[Any, Any]:
    if name != "key":
        return stats.min, stats.max
    return (
        None if stats.min is None else bytes.fromhex(stats.min),
        None if stats.max is None else bytes.fromhex(stats.max),
    )
