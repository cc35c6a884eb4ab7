"""A topic as a table: lake files through Spark's own Parquet reader, and the rest beside them.

The manifest tells which files can hold what is wanted; Spark then skips row groups by statistics,
page index and bloom filters, and reads only the columns that a query uses. Rows that are hidden in
files are filtered out: those below the floor by a comparison, deleted ones by a few comparisons or,
when they are many, by a join with the list of them. Records that are not in the lake yet are read
when the table is made, or, when they are many, by executors from the store. One position for both.

``seq`` is unsigned in the files, by which Spark cannot skip row groups; since stamps never
decrease, a range of seqs is also one of times, and by those it can.
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
from strandline.log.read.snapshot import Snapshot
from strandline.pipelines.splits import record_schema as named
from strandline.pipelines.splits import split_planner
from strandline.pipelines.splits.predicates import Condition, of_triples
from strandline.pipelines.splits.snapshot_position import Position, open_readonly, path_of, pin
from strandline.pipelines.splits.split_planner import Range
from strandline.pipelines.splits.split_reader import FilePart, lake_file
from strandline.spark.errors import plain_errors, remember_table
from strandline.spark.read import read_plan
from strandline.spark.read.filters import expression
from strandline.spark.read.options import LOG, ReadOptions, parse
from strandline.spark.read.schema import spark_schema
from strandline.spark.sessions import register
from strandline.spark.source import lazy
from strandline.spark.source.source import pinned_text
from strandline.spark.tables.parquet import PATHS_MAX, holding, spark_url, without
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
    **others: str,
) -> DataFrame:
    """The records of a topic as they are now, or one of its views; what comes later is not in it.

    ``where`` is a list of (column, operator, value), all of which must hold: it spares files. The
    others are as the options of ``format("strandline")``, ``token`` and ``measurement`` among them.
    ``store`` may be the url of a lake, or of a server.
    """
    conditions = of_triples(where)
    query = {"columns": columns, "from": from_, "to": to, "as_of": as_of, "lake": lake}
    given = {**_named(store), "topic": topic, "view": view, **read_plan.as_options(query), **others}
    options = parse(given)
    if options.many:
        raise Invalid('a table is of one topic: use format("strandline") for several')
    if view != LOG and conditions:
        raise Invalid(f"where is for records: filter the frame of view={view}")
    if view == "table" and not options.url:
        return lazy.event_table(spark, options)
    if view != LOG or options.url or options.is_remote:
        register(spark)
        with plain_errors():
            frame = spark.read.format("strandline").options(**given).load()
        return holding(frame, [expression(condition) for condition in conditions])
    conditions = (*options.conditions(), *conditions)
    with open_readonly(options.store, options.lake) as opened:
        position = pin(opened, options.topics, options.lake)
        (snapshot,) = position.topics
        wanted = split_planner.wanted_range(snapshot, conditions, options.offsets())
        parts, _ = split_planner.file_parts(position, snapshot, wanted, conditions)
        hot = _hot(spark, opened, position, snapshot, wanted, conditions, options)
    found = [] if not parts else [_native(spark, parts, snapshot, wanted, conditions)]
    found += [] if hot is None else [hot]
    if not found:
        nothing: list[tuple[Any, ...]] = []
        found = [spark.createDataFrame(nothing, _schema())]
    frame = reduce(DataFrame.unionByName, found)
    # Each step of a frame is analysed anew by Spark: milliseconds that a small query is made of.
    return frame if options.columns == named.RECORD else frame.select(*options.columns)


def _named(store: str | Store) -> dict[str, str]:
    """A store, the url of its lake, or a server, as options."""
    if not isinstance(store, str) or "://" not in store:
        return {"store": path_of(store)}
    scheme = store.partition("://")[0]
    return {"url" if scheme in ("http", "https") else "store": store}


def _native(
    spark: SparkSession,
    parts: Sequence[FilePart],
    snapshot: Snapshot,
    wanted: Range,
    conditions: Sequence[Condition],
) -> DataFrame:
    files = {part.file.name(): part for part in parts}
    first, last = parts[0], parts[-1]
    remember_table(snapshot.name, first.manifest, files)
    folder = f"{spark_url(first.lake)}/{object_keys.data_folder(first.topic_id)}"
    few = len(files) <= PATHS_MAX
    paths = [f"{folder}/{name}" for name in files] if few else [folder]
    with plain_errors():  # Spark may lack what reads an object store
        frame = spark.read.schema(_schema()).parquet(*paths)
    held = [] if few else [f.col("_metadata.file_name").isin(list(files))]
    held += [expression(condition) for condition in conditions]
    if first.file.first_seq < wanted.first_seq:
        held += [f.col("seq") >= wanted.first_seq, _since(first, wanted.first_seq)]
    if wanted.last_seq < last.file.last_seq:
        held += [f.col("seq") <= wanted.last_seq, _until(last, wanted.last_seq)]
    low, high = max(first.file.first_seq, snapshot.floor), min(last.file.last_seq, wanted.last_seq)
    hidden = snapshot.hidden()
    seqs = np.array(list(hidden & BitMap64(range(low, high + 1))) if hidden else [], dtype="<i8")
    return without(spark, frame, held, seqs)


def _since(part: FilePart, seq: int) -> Column:
    """Times that rows from a seq on can have."""
    file = lake_file(part)
    return expression(Condition("ts", ">=", file.zones[file.zone_at(seq)].ts_min))


def _until(part: FilePart, seq: int) -> Column:
    file = lake_file(part)
    return expression(Condition("ts", "<=", file.zones[file.zone_at(seq)].ts_max))


def _hot(
    spark: SparkSession,
    store: Store,
    position: Position,
    snapshot: Snapshot,
    wanted: Range,
    conditions: Sequence[Condition],
    options: ReadOptions,
) -> DataFrame | None:
    """The records that are not in the lake, None when there are none."""
    first_seq, last_seq = max(snapshot.hot_seq, wanted.first_seq), wanted.last_seq
    if first_seq > last_seq:
        return None
    seqs = Range(first_seq, last_seq)
    rows = split_planner.few_rows(store, snapshot, seqs, conditions, _HOT_BYTES_MAX)
    if rows is not None:
        shaped = named.shaped(rows, named.RECORD)
        return spark.createDataFrame(shaped, _schema()) if len(rows) else None
    register(spark)
    reading = spark.read.format("strandline").option("pinned", pinned_text(position))
    reading = reading.option("store", options.store).option("topic", snapshot.name)
    frame = reading.option("lake", options.lake).load()
    held = [f.col("seq") >= first_seq, f.col("seq") <= last_seq]
    return holding(frame, [*held, *(expression(condition) for condition in conditions)])


def _schema() -> Any:
    return spark_schema(named.RECORD)
