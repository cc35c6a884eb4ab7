"""A topic read as one of its views: its columns, its parts, and the row mapper of a stream.

    view          batch                                    stream
    table         files of the table, rows in memory       new events, typed
    kv            keys that have a value                   changes: puts and deletes
    kv_history    every version in the log                 the same
    queue         jobs and their states                    none: states change, rows do not
    dead          dead letters                             new dead letters
    series        points, by source                        new points
    metrics       effective points                         points as they are written

A lake without its store has files of tables and records; a batch read of maps, series, queues and
metrics needs their state: of the store, or saved in a reservoir. A server returns it for a SQL
query.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Invalid, NotFound
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.record_schema import RECORD
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.query.sql.relations.queue import QueueRows
from strandline.schema import Schema
from strandline.spark.read import event_table, read_plan, view_state
from strandline.spark.read.lake_source import LakeReadLocation
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import ReadLocation, StoreReadLocation, open_location
from strandline.spark.read.tasks import AnyPart
from strandline.spark.row_mappers.dead_letters import DEAD_LETTER_COLUMNS, DeadLetterMapper
from strandline.spark.row_mappers.events import EventMapper, SchemaChange
from strandline.spark.row_mappers.kv import VERSION_COLUMNS, VersionMapper
from strandline.spark.row_mappers.mapper import (
    RowMapper,
    choose_columns,
    select_columns,
    spark_schema_of,
)
from strandline.spark.row_mappers.metrics import METRICS_COLUMNS, MetricsMapper
from strandline.spark.row_mappers.series import POINT_COLUMNS, PointMapper
from strandline.views.queue.dead_letters import node_of

LOG_VIEWS = ("kv_history", "dead")
"""Views whose batch read is a read of the log."""
_DEAD = ":dead"


def kind_of(view: str) -> str:
    """The kind of view that the topic must have."""
    return {"kv_history": "kv", "dead": "queue"}.get(view, view)


def log_of(location: ReadLocation, options: ReadOptions) -> tuple[str, str | None]:
    """The topic whose records are read, and their node if it also has other records."""
    (topic,) = options.topics
    if options.view != "dead":
        return topic, None
    configs = location.views(topic)
    queue = None if configs is None else configs.queue
    if queue is None or queue.dead_letter is None:
        return topic + _DEAD, None
    (snapshot,) = location.pin([topic]).topics
    return queue.dead_letter, node_of(snapshot.topic_id)


def schema_of(options: ReadOptions) -> pa.Schema:
    """The columns of a read of a view."""
    with open_location(options) as location:
        check(location, options)
        lost = options.on_loss == "report"
        return choose_columns(_full_schema(location, options), options.columns or None, lost=lost)


def check(location: ReadLocation, options: ReadOptions) -> ViewConfigs | None:
    """Raise unless the topic has the view and the options fit it; its views."""
    (topic,) = options.topics
    configs = location.views(topic)
    kind = kind_of(options.view)
    if configs is not None and getattr(configs, kind) is None:
        existing = [each for each in KINDS if getattr(configs, each) is not None]
        views = f"it has {', '.join(existing)}" if existing else "it has no view"
        raise NotFound(
            f"topic {topic!r} has no {kind} view: {views}; read its records with view=log, or "
            f"create the view with store.{kind}({topic!r})"
        )
    if (
        options.begin
        and options.view not in LOG_VIEWS
        and options.begin not in ("earliest", "latest")
    ):
        reject_bounds(options)
    return configs


def batch_parts(options: ReadOptions, schema: pa.Schema) -> tuple[list[AnyPart], RowMapper | None]:
    """The parts of a batch read of a view, and their row mapper."""
    with open_location(options) as location:
        configs = check(location, options)
        if options.view in LOG_VIEWS:
            name, node = log_of(location, options)
            parts = _log_parts(location, options, name)
            return parts, mapper_of(options, configs, None, (), node)
        reject_bounds(options)
        if isinstance(location, StoreReadLocation | LakeReadLocation):
            return _state_parts(location, options, schema), None
        return view_state.carried_parts(_rows_of_server(location, options, schema), schema), None


def mapper_of(
    options: ReadOptions,
    configs: ViewConfigs | None,
    schema: Schema | None,
    changes: tuple[SchemaChange, ...],
    node: str | None = None,
) -> RowMapper:
    """The row mapper for the records of a view."""
    kinds = tuple(KINDS)
    if configs is not None:
        kinds = tuple(kind for kind in KINDS if getattr(configs, kind) is not None)
    match options.view:
        case "kv" | "kv_history":
            return VersionMapper(kinds=kinds)
        case "dead":
            return DeadLetterMapper(node=node)
        case "series":
            series = None if configs is None else configs.series
            return PointMapper(unit="" if series is None else series.unit, kinds=kinds)
        case "metrics":
            return MetricsMapper(kinds=kinds)
        case "table":
            assert schema is not None
            return EventMapper(target=schema, changes=changes, kinds=kinds)
    raise Invalid(
        f"view={options.view} cannot be a stream: jobs change their states, and rows do not. Read "
        "it in repeated batches, or stream its records with view=log and its dead "
        "letters with view=dead"
    )


def table_schema(location: ReadLocation, topic: str) -> Schema:
    """The newest schema of a table."""
    if isinstance(location, StoreReadLocation):
        with location.host("table", topic).reading() as fold:
            schema: Schema = fold.schema
    elif isinstance(location, LakeReadLocation):
        schema = event_table.table_of(location, topic).schema
    else:
        remote: Any = location
        schema = remote.store.table(topic).schema
    if not schema.version:
        raise Invalid(f"event {topic!r} has no fields yet: DEFINE it first")
    return schema


def _full_schema(location: ReadLocation, options: ReadOptions) -> pa.Schema:
    match options.view:
        case "kv" | "kv_history":
            return VERSION_COLUMNS
        case "dead":
            return DEAD_LETTER_COLUMNS
        case "series":
            return POINT_COLUMNS
        case "queue":
            return spark_schema_of(QueueRows.schema)
        case "table":
            return EventMapper(target=table_schema(location, options.topics[0])).schema
    if not options.measurement:
        return METRICS_COLUMNS
    return _measurement(location, options)


def _measurement(location: ReadLocation, options: ReadOptions) -> pa.Schema:
    (topic,) = options.topics
    if not isinstance(location, StoreReadLocation | LakeReadLocation):
        remote: Any = location
        return spark_schema_of(remote.read_view(options, limit=0).schema)
    with location.host("metrics", topic).reading() as fold:
        names = [each.name for each in fold.catalogue.sorted() if each.fields]
    if options.measurement not in names:
        listed = ", ".join(names[:5]) or "none"
        raise NotFound(
            f"metrics {topic!r} have no measurement {options.measurement!r}: there are {listed}"
        )
    source = view_state.source_of(location, "metrics", topic, options.measurement)
    return spark_schema_of(view_state.pinned(location, source, "").schema)


def _log_parts(location: ReadLocation, options: ReadOptions, name: str) -> list[AnyPart]:
    """The records of a view that is read as its log."""
    position = location.pin([name], strict=options.view != "dead")  # the topic may not exist yet
    return read_plan.batch_parts(location, position, options, options.conditions(), names=RECORD)


def _state_parts(
    location: StoreReadLocation | LakeReadLocation, options: ReadOptions, schema: pa.Schema
) -> list[AnyPart]:
    if options.view == "table":
        state = event_table.table_of(location, options.topics[0], options.as_of)
        memory = [
            select_columns(batch, schema) for table in state.memory for batch in _batches(table)
        ]
        return [*event_table.parts_of(state), *view_state.carried_parts(memory, schema)]
    return view_state.parts_of(location, options, schema)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def _rows_of_server(location: Any, options: ReadOptions, schema: pa.Schema) -> list[pa.RecordBatch]:
    shape = select_columns if options.view == "table" else view_state.shaped
    result = location.read_view(options)
    return [shape(batch, schema) for batch in result.to_batches(max_chunksize=16_384)]


def reject_bounds(options: ReadOptions) -> None:
    """Raise for a read of a state with a range of records."""
    if options.begin or options.end:
        raise Invalid(
            f"from and to are for records: filter the rows of view={options.view} with where"
        )


def changes_until(
    location: ReadLocation,
    position: StorePosition,
    snapshot: TopicSnapshot,
    known: tuple[SchemaChange, ...],
    after: int,
) -> tuple[SchemaChange, ...]:
    """The changes of the schema of a table, up to the head of a snapshot."""
    seqs = split_planner.SeqRange(max(after + 1, snapshot.floor), snapshot.head_seq)
    return (*known, *event_table.schema_changes(location, position, snapshot, seqs))
