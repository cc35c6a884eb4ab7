"""The state of a view at a position, for a batch read: keys, points of a series, jobs, points.

The driver opens the store read-only and builds the view up to the position; without the folder of
the store it reads the saved view (``spark/read/saved_view_source.py``). A small state is sent with
the tasks. Otherwise executors read a map or a series themselves, each a range of keys or some
sources, as of the same position. Jobs and points of metrics have no history, so they are always
sent with the tasks, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.errors import Corrupt, TooLarge
from strandline.pipelines.splits.split_reader import encode_rows
from strandline.query.sql import as_of as sql_as_of
from strandline.query.sql.filters import Comparison, Where
from strandline.query.sql.relations.kv import MapRows, MapSource
from strandline.query.sql.relations.metrics import MetricsSource
from strandline.query.sql.relations.queue import QueueSource
from strandline.query.sql.relations.relation import Relation, RelationSource
from strandline.query.sql.relations.series import SeriesRows, SeriesSource
from strandline.spark.read.lake_source import LakeReadLocation
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import StoreReadLocation
from strandline.spark.read.saved_view_source import reject_past
from strandline.spark.read.tasks import AnyPart, StatePart
from strandline.spark.row_mappers.kv import VERSION_COLUMNS
from strandline.spark.row_mappers.mapper import select_columns
from strandline.spark.row_mappers.series import AT, POINT_COLUMNS, TICK
from strandline.store import Store
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.view_runner import ViewRunner

SENT_BYTES_MAX = 32 * 1024 * 1024
"""Larger maps and series are read by executors."""
COPIED_BYTES_MAX = 512 * 1024 * 1024
"""Larger queues and metrics are rejected."""
_PART_BYTES = 4 * 1024 * 1024
_SLICE_ROWS = 200_000
_SLICE_SOURCES = 64
_ATTEMPTS = 3


def host_of(store: Store, view: str, topic: str) -> ViewRunner[Any]:
    """A view of an open store."""
    store.views.open(view, topic, {})
    return store.views.registry.host(view, store.existing_topic(topic))


def source_of(
    location: StoreReadLocation | LakeReadLocation, view: str, topic: str, measurement: str
) -> RelationSource:
    """The SQL relation of a view."""
    runner = location.host(view, topic)
    if view == "kv":
        return MapSource(runner)
    if view == "series":
        return SeriesSource(runner)
    if view == "queue":
        return QueueSource(runner, apart=isinstance(location, LakeReadLocation))
    return MetricsSource(runner, measurement or None, copied=True)


def parts_of(
    location: StoreReadLocation | LakeReadLocation, options: ReadOptions, schema: pa.Schema
) -> list[AnyPart]:
    """A view at a position, as parts whose rows have these columns."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            return _parts(location, options, schema)
        except Corrupt:
            if not attempts_left or isinstance(location, StoreReadLocation):
                raise
            location.refresh()  # the writer may have saved again and deleted pages during the read
    raise AssertionError


def _parts(
    location: StoreReadLocation | LakeReadLocation, options: ReadOptions, schema: pa.Schema
) -> list[AnyPart]:
    view, (topic,) = options.view, options.topics
    source = source_of(location, view, topic, options.measurement)
    relation = pinned(location, source, options.as_of)
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in relation.batches(*_columns(relation, schema), None):
        batches.append(shaped(batch, schema))
        size += batches[-1].nbytes
        if size > SENT_BYTES_MAX and isinstance(relation, MapRows | SeriesRows):
            return _slices(location, options, relation)
        if size > COPIED_BYTES_MAX:
            raise TooLarge(
                f"{view} {topic!r} has more than {COPIED_BYTES_MAX >> 20} MiB, and can only be "
                "read as a whole: name fewer columns, or read its records with view=log"
            )
    return carried_parts(batches, schema)


def pinned(
    location: StoreReadLocation | LakeReadLocation, source: RelationSource, as_of: str
) -> Relation:
    """A relation at a position, or now."""
    if isinstance(location, StoreReadLocation):
        (relation,) = sql_as_of.pin(location.store, [source], as_of or None)
        return relation
    reject_past(as_of)
    topics = {topic.name: topic for topic in source.topics}
    return source.at(sql_as_of.now(topics, source.held))


def carried_parts(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[AnyPart]:
    """Rows as parts that are sent with their tasks."""
    parts: list[AnyPart] = []
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size > _PART_BYTES:
            parts.append(encode_rows(pa.Table.from_batches(group, schema)))
            group, size = [], 0
    if group:
        parts.append(encode_rows(pa.Table.from_batches(group, schema)))
    return parts


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a SQL relation with the columns of the read."""
    names = [AT if name == TICK else name for name in batch.schema.names]
    batch = batch.rename_columns(names)
    if "deleted" in schema.names and "deleted" not in names:
        batch = batch.append_column("deleted", pa.repeat(pa.scalar(value=False), len(batch)))
    return select_columns(batch, schema)


def read(part: StatePart, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part, on an executor, with these columns."""
    full_schema = VERSION_COLUMNS if part.view == "kv" else POINT_COLUMNS
    schema = pa.schema([full_schema.field(name) for name in names])
    with _location_of(part) as location:
        runner = location.host(part.view, part.topic)
        relation: MapRows | SeriesRows
        if part.view == "kv":
            relation = MapRows(runner, part.head_seq, part.moment_us)
        else:
            relation = SeriesRows(runner, part.head_seq)
        for batch in relation.batches(relation.schema.names, _where(part)):
            kept = _within(batch, part)
            if len(kept):
                yield shaped(kept, schema)


def _location_of(part: StatePart) -> StoreReadLocation | LakeReadLocation:
    if "://" in part.store:
        return LakeReadLocation(part.store, part.reservoir)
    return StoreReadLocation(part.store, part.lake, part.reservoir)


def _columns(relation: Relation, schema: pa.Schema) -> tuple[list[str]]:
    names = relation.schema.names
    wanted = [TICK if name == AT and TICK in names else name for name in schema.names]
    return ([name for name in wanted if name in names] or names[:1],)


def _slices(
    location: StoreReadLocation | LakeReadLocation,
    options: ReadOptions,
    relation: MapRows | SeriesRows,
) -> list[AnyPart]:
    (topic,) = options.topics
    if isinstance(relation, MapRows):
        starts = list(_slice_starts(relation))
        ranges = list(zip([None, *starts], [*starts, None], strict=True))
        names: list[tuple[bytes, ...]] = [()] * len(ranges)
    else:
        with location.host(options.view, topic).reading() as fold:
            sources = fold.names(AT_MIN, AT_MAX)
        step = max(1, -(-len(sources) // _SLICE_SOURCES))
        names = [tuple(sources[at : at + step]) for at in range(0, len(sources), step)]
        ranges = [(None, None)] * len(names)
    moment_us = relation.moment_us if isinstance(relation, MapRows) else None
    return [
        StatePart(
            store=options.store,
            lake=options.lake,
            reservoir=options.reservoir,
            view=options.view,
            topic=topic,
            head_seq=relation.head_seq,
            moment_us=moment_us,
            first_key=first,
            next_key=following,
            sources=group,
        )
        for (first, following), group in zip(ranges, names, strict=True)
    ]


def _slice_starts(relation: MapRows) -> Iterator[bytes]:
    """First keys of the slices, except that of the first slice."""
    rows = 0
    for batch in relation.batches(["key_bytes"], None):
        rows += len(batch)
        if rows > _SLICE_ROWS:
            rows = 0
            yield batch["key_bytes"][0].as_py()


def _where(part: StatePart) -> Where | None:
    if part.view != "kv":
        return Comparison("source_bytes", "in", part.sources)
    return None if part.first_key is None else Comparison("key_bytes", ">=", part.first_key)


def _within(batch: pa.RecordBatch, part: StatePart) -> pa.RecordBatch:
    if part.view != "kv" or part.next_key is None:
        return batch
    return batch.filter(pc.less(batch["key_bytes"], pa.scalar(part.next_key, pa.binary())))
