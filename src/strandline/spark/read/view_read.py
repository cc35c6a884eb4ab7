"""A topic read as one of its views: its columns, its parts, and the shape of a stream.

    view          batch                                    stream
    table         files of the table, rows in no file      events as they come, typed
    kv            keys that have a value                   changes: puts and deletes
    kv_history    every version that the log has           the same
    queue         jobs, and where each is                  none: states change, rows do not
    dead          dead letters                             dead letters as they come
    series        points, by source                        points as they come
    metrics       points that count                        points as they are written

A lake by itself has files of tables and records; for maps, series, queues and metrics in batch the
state is needed: that of the store, or what it has saved in a reservoir. A server is asked for it
with SQL, at one moment.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Invalid, NotFound
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.record_schema import RECORD
from strandline.pipelines.splits.snapshot_position import Position
from strandline.query.sql.relations.queue import QueueRows
from strandline.schema import Schema
from strandline.spark.read import event_table, read_plan, view_state
from strandline.spark.read.lake_source import LakePlace
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import Place, StorePlace, open_place
from strandline.spark.read.tasks import AnyPart
from strandline.spark.row_mappers.dead_letters import LETTERS, LetterShape
from strandline.spark.row_mappers.events import Change, EventShape
from strandline.spark.row_mappers.kv import VERSIONS, ChangeShape
from strandline.spark.row_mappers.mapper import Shape, chosen, selected, spark_form
from strandline.spark.row_mappers.metrics import MEASURED, MeasuredShape
from strandline.spark.row_mappers.series import POINTS, PointShape
from strandline.views.queue.dead_letters import mark_of

LOGGED = ("kv_history", "dead")
"""Views whose batch is the log, too."""
_DEAD = ":dead"


def kind_of(view: str) -> str:
    """The kind of view that a topic must have."""
    return {"kv_history": "kv", "dead": "queue"}.get(view, view)


def log_of(place: Place, options: ReadOptions) -> tuple[str, str | None]:
    """The topic whose records are read; and their node, where it has those of others, too."""
    (topic,) = options.topics
    if options.view != "dead":
        return topic, None
    configs = place.views(topic)
    queue = None if configs is None else configs.queue
    if queue is None or queue.dead_letter is None:
        return topic + _DEAD, None
    (snapshot,) = place.pin([topic]).topics
    return queue.dead_letter, mark_of(snapshot.topic_id)


def schema_of(options: ReadOptions) -> pa.Schema:
    """The columns of a read of a view."""
    with open_place(options) as place:
        check(place, options)
        lost = options.on_loss == "report"
        return chosen(_whole(place, options), options.columns or None, lost=lost)


def check(place: Place, options: ReadOptions) -> ViewConfigs | None:
    """Raise unless the topic has the view, and the place knows enough of it."""
    (topic,) = options.topics
    configs = place.views(topic)
    kind = kind_of(options.view)
    if configs is not None and getattr(configs, kind) is None:
        has = [each for each in KINDS if getattr(configs, each) is not None]
        there = f"it has {', '.join(has)}" if has else "it has no view"
        raise NotFound(
            f"topic {topic!r} has no {kind} view: {there}; read its records with view=log, or make "
            f"the view with store.{kind}({topic!r})"
        )
    if options.begin and options.view not in LOGGED and options.begin not in ("earliest", "latest"):
        refuse_bounds(options)
    return configs


def batch_parts(options: ReadOptions, schema: pa.Schema) -> tuple[list[AnyPart], Shape | None]:
    """What a batch read of a view reads, and what makes rows of it."""
    with open_place(options) as place:
        configs = check(place, options)
        if options.view in LOGGED:
            name, node = log_of(place, options)
            parts = _logged(place, options, name)
            return parts, shape_of(options, configs, None, (), node)
        refuse_bounds(options)
        if isinstance(place, StorePlace | LakePlace):
            return _of_state(place, options, schema), None
        return view_state.carried_parts(_asked(place, options, schema), schema), None


def shape_of(
    options: ReadOptions,
    configs: ViewConfigs | None,
    told: Schema | None,
    changes: tuple[Change, ...],
    node: str | None = None,
) -> Shape:
    """What makes rows of the records of a view's topic."""
    kinds = tuple(KINDS)
    if configs is not None:
        kinds = tuple(kind for kind in KINDS if getattr(configs, kind) is not None)
    match options.view:
        case "kv" | "kv_history":
            return ChangeShape(kinds=kinds)
        case "dead":
            return LetterShape(node=node)
        case "series":
            series = None if configs is None else configs.series
            return PointShape(unit="" if series is None else series.unit, kinds=kinds)
        case "metrics":
            return MeasuredShape(kinds=kinds)
        case "table":
            assert told is not None
            return EventShape(told=told, changes=changes, kinds=kinds)
    raise Invalid(
        f"view={options.view} cannot be a stream: jobs change their states, and rows do not. Read "
        "it in batch as often as you like, or stream its records with view=log and its dead "
        "letters with view=dead"
    )


def table_schema(place: Place, topic: str) -> Schema:
    """The newest version of a table's schema."""
    if isinstance(place, StorePlace):
        with place.host("table", topic).reading() as fold:
            found: Schema = fold.schema
    elif isinstance(place, LakePlace):
        found = event_table.table_of(place, topic).schema
    else:
        remote: Any = place
        found = remote.store.table(topic).schema
    if not found.version:
        raise Invalid(f"event {topic!r} has no fields yet: DEFINE it first")
    return found


def _whole(place: Place, options: ReadOptions) -> pa.Schema:
    match options.view:
        case "kv" | "kv_history":
            return VERSIONS
        case "dead":
            return LETTERS
        case "series":
            return POINTS
        case "queue":
            return spark_form(QueueRows.schema)
        case "table":
            return EventShape(told=table_schema(place, options.topics[0])).schema
    if not options.measurement:
        return MEASURED
    return _measurement(place, options)


def _measurement(place: Place, options: ReadOptions) -> pa.Schema:
    (topic,) = options.topics
    if not isinstance(place, StorePlace | LakePlace):
        remote: Any = place
        return spark_form(remote.ask(options, limit=0).schema)
    with place.host("metrics", topic).reading() as fold:
        known = [each.name for each in fold.catalogue.sorted() if each.fields]
    if options.measurement not in known:
        listed = ", ".join(known[:5]) or "none"
        raise NotFound(
            f"metrics {topic!r} have no measurement {options.measurement!r}: there are {listed}"
        )
    source = view_state.source_of(place, "metrics", topic, options.measurement)
    return spark_form(view_state.pinned(place, source, "").schema)


def _logged(place: Place, options: ReadOptions, name: str) -> list[AnyPart]:
    """The records of the view's topic."""
    position = place.pin([name], strict=options.view != "dead")  # nothing ever died, perhaps
    return read_plan.batch_parts(place, position, options, options.conditions(), names=RECORD)


def _of_state(
    place: StorePlace | LakePlace, options: ReadOptions, schema: pa.Schema
) -> list[AnyPart]:
    if options.view == "table":
        state = event_table.table_of(place, options.topics[0], options.as_of)
        rest = [selected(batch, schema) for table in state.memory for batch in _one(table)]
        return [*event_table.parts_of(state), *view_state.carried_parts(rest, schema)]
    return view_state.parts_of(place, options, schema)


def _one(table: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def _asked(place: Any, options: ReadOptions, schema: pa.Schema) -> list[pa.RecordBatch]:
    shape = selected if options.view == "table" else view_state.shaped
    answer = place.ask(options)
    return [shape(batch, schema) for batch in answer.to_batches(max_chunksize=16_384)]


def refuse_bounds(options: ReadOptions) -> None:
    """Raise when a state is asked for a range of records."""
    if options.begin or options.end:
        raise Invalid(
            f"from and to are for records: filter the rows of view={options.view} with where"
        )


def changes_until(
    place: Place, position: Position, snapshot: Snapshot, known: tuple[Change, ...], after: int
) -> tuple[Change, ...]:
    """Where versions of a table's schema begin, up to the head of a snapshot."""
    wanted = split_planner.Range(max(after + 1, snapshot.floor), snapshot.head_seq)
    return (*known, *event_table.schema_changes(place, position, snapshot, wanted))
