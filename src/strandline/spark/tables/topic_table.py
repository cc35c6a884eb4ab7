"""A topic as a frame: lake files through Spark's own Parquet reader, and the other records.

The manifest selects the files; Spark then skips row groups by statistics, page index and bloom
filters, and reads only the columns that a query uses. Rows that are hidden in files are removed:
those below the floor by a comparison, deleted ones by a few comparisons or, if there are many, by a
join with their list. Records that are not in the lake yet are read when the frame is created, or,
if there are many, by executors from the store. Both are at one position.

``seq`` is unsigned in the files, and Spark cannot skip row groups by it; since stamps never
decrease, a range of seqs is also a range of times, by which it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid
from strandline.lake import object_keys
from strandline.log.read.snapshot import TopicSnapshot
from strandline.pipelines.splits import record_schema as named
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition, of_triples
from strandline.pipelines.splits.snapshot_position import (
    StorePosition,
    open_readonly,
    path_of,
    take_position,
)
from strandline.pipelines.splits.split_planner import SeqRange
from strandline.pipelines.splits.split_reader import FilePart, lake_file
from strandline.spark.errors import plain_errors, remember_table
from strandline.spark.read import read_plan
from strandline.spark.read.filters import expression
from strandline.spark.read.options import LOG, ReadOptions, parse
from strandline.spark.read.schema import spark_schema
from strandline.spark.sessions import register
from strandline.spark.source import lazy
from strandline.spark.source.source import pinned_text
from strandline.spark.tables.parquet import PATHS_MAX, filtered, filtered_without, spark_url
from strandline.store import Store

_HOT_BYTES_MAX = 32 * 1024 * 1024


def table(
    spark: SparkSession,
    store: str | Store,
    topic: str,
    *,
    where: Iterable[tuple[str, str, Any]] = (),
    columns: Sequence[str] | None = None,
    from_: int | str | datetime | None = None,
    to: int | str | datetime | None = None,
    as_of: str | datetime | None = None,
    lake: str = "",
    view: str = LOG,
    **more_options: str,
) -> DataFrame:
    """The current records of a topic, or one of its views; later records are not in the frame.

    ``where`` is a list of (column, operator, value), all of which must match: it skips files. The
    others are options of ``format("strandline")``, such as ``token`` and ``measurement``.
    ``store`` may be the URL of a lake, or of a server.
    """
    conditions = of_triples(where)
    query = {"columns": columns, "from": from_, "to": to, "as_of": as_of, "lake": lake}
    read_options = {
        **_store_options(store),
        "topic": topic,
        "view": view,
        **read_plan.as_options(query),
        **more_options,
    }
    options = parse(read_options)
    if options.many:
        raise Invalid('a table is of one topic: use format("strandline") for several')
    if view != LOG and conditions:
        raise Invalid(f"where is for records: filter the frame of view={view}")
    if view == "table" and not options.url:
        return lazy.event_table(spark, options)
    if view != LOG or options.url or options.is_remote:
        register(spark)
        with plain_errors():
            frame = spark.read.format("strandline").options(**read_options).load()
        return filtered(frame, [expression(condition) for condition in conditions])
    conditions = (*options.conditions(), *conditions)
    with open_readonly(options.store, options.lake) as opened:
        position = take_position(opened, options.topics, options.lake)
        (snapshot,) = position.topics
        seqs = split_planner.selected_range(snapshot, conditions, options.offsets())
        parts, _ = split_planner.file_parts(position, snapshot, seqs, conditions)
        hot = _hot(spark, opened, position, snapshot, seqs, conditions, options)
    frames = [] if not parts else [_native(spark, parts, snapshot, seqs, conditions)]
    frames += [] if hot is None else [hot]
    if not frames:
        nothing: list[tuple[Any, ...]] = []
        frames = [spark.createDataFrame(nothing, _schema())]
    frame = reduce(DataFrame.unionByName, frames)
    # Spark analyses each step of a frame again: milliseconds, which dominate a small query.
    return frame if options.columns == named.RECORD else frame.select(*options.columns)


def _store_options(store: str | Store) -> dict[str, str]:
    """A store, the URL of its lake, or a server, as options."""
    if not isinstance(store, str) or "://" not in store:
        return {"store": path_of(store)}
    scheme = store.partition("://")[0]
    return {"url" if scheme in ("http", "https") else "store": store}


def _native(
    spark: SparkSession,
    parts: Sequence[FilePart],
    snapshot: TopicSnapshot,
    span: SeqRange,
    conditions: Sequence[Condition],
) -> DataFrame:
    files = {part.file.name(): part for part in parts}
    first, last = parts[0], parts[-1]
    remember_table(snapshot.name, first.manifest, files)
    folder = f"{spark_url(first.lake)}/{object_keys.data_folder(first.topic_id)}"
    few = len(files) <= PATHS_MAX
    paths = [f"{folder}/{name}" for name in files] if few else [folder]
    with plain_errors():  # Spark may lack the file system of an object store
        frame = spark.read.schema(_schema()).parquet(*paths)
    predicates = [] if few else [f.col("_metadata.file_name").isin(list(files))]
    predicates += [expression(condition) for condition in conditions]
    if first.file.first_seq < span.first_seq:
        predicates += [f.col("seq") >= span.first_seq, _since(first, span.first_seq)]
    if span.last_seq < last.file.last_seq:
        predicates += [f.col("seq") <= span.last_seq, _until(last, span.last_seq)]
    low, high = max(first.file.first_seq, snapshot.floor), min(last.file.last_seq, span.last_seq)
    hidden = snapshot.hidden()
    seqs = np.array(list(hidden & BitMap64(range(low, high + 1))) if hidden else [], dtype="<i8")
    return filtered_without(spark, frame, predicates, seqs)


def _since(part: FilePart, seq: int) -> Column:
    """The condition on times of rows from a seq on."""
    file = lake_file(part)
    return expression(Condition("ts", ">=", file.zones[file.zone_at(seq)].ts_min))


def _until(part: FilePart, seq: int) -> Column:
    file = lake_file(part)
    return expression(Condition("ts", "<=", file.zones[file.zone_at(seq)].ts_max))


def _hot(
    spark: SparkSession,
    store: Store,
    position: StorePosition,
    snapshot: TopicSnapshot,
    span: SeqRange,
    conditions: Sequence[Condition],
    options: ReadOptions,
) -> DataFrame | None:
    """The records that are not in the lake, None if there are none."""
    first_seq, last_seq = max(snapshot.hot_seq, span.first_seq), span.last_seq
    if first_seq > last_seq:
        return None
    seqs = SeqRange(first_seq, last_seq)
    rows = split_planner.read_few_rows(store, snapshot, seqs, conditions, _HOT_BYTES_MAX)
    if rows is not None:
        shaped = named.with_columns(rows, named.RECORD)
        return spark.createDataFrame(shaped, _schema()) if len(rows) else None
    register(spark)
    reader = spark.read.format("strandline").option("pinned", pinned_text(position))
    reader = reader.option("store", options.store).option("topic", snapshot.name)
    frame = reader.option("lake", options.lake).load()
    predicates = [f.col("seq") >= first_seq, f.col("seq") <= last_seq]
    return filtered(frame, [*predicates, *(expression(condition) for condition in conditions)])


def _schema() -> Any:
    return spark_schema(named.RECORD)
