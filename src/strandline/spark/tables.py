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
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from strandline.errors import Invalid
from strandline.lake import keys
from strandline.pipelines import columns as named
from strandline.pipelines import cuts
from strandline.pipelines.conditions import Condition, of_triples
from strandline.pipelines.cuts import Range
from strandline.pipelines.parts import FilePart, lake_file
from strandline.pipelines.positions import Position, open_readonly, path_of, pin
from strandline.spark import plans
from strandline.spark.failures import plain_errors, remember_table
from strandline.spark.filters import expression
from strandline.spark.options import ReadOptions, parse
from strandline.spark.schema import spark_schema
from strandline.spark.sessions import register
from strandline.spark.source import pinned_text
from strandline.store import Store
from strandline.topic.snapshot import Snapshot

PATHS_MAX = 64
"""More files than this are named by their folder and a filter: Spark looks at every path it is
given, one by one."""

RANGES_MAX = 64
"""More hidden ranges than this are a join."""

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
) -> DataFrame:
    """The records of a topic as they are now; what is appended later is not in it.

    ``where`` is a list of (column, operator, value), all of which must hold: it spares files. The
    others are as the options of ``format("strandline")``.
    """
    conditions = of_triples(where)
    query = {"columns": columns, "from": from_, "to": to, "as_of": as_of, "lake": lake}
    options = parse({"store": path_of(store), "topic": topic, **plans.as_options(query)})
    if options.many:
        raise Invalid('a table is of one topic: use format("strandline") for several')
    conditions = (*options.conditions(), *conditions)
    with open_readonly(options.store, options.lake) as opened:
        position = pin(opened, options.topics, options.lake)
        (snapshot,) = position.topics
        wanted = cuts.wanted_range(snapshot, conditions, options.offsets())
        parts, _ = cuts.file_parts(position, snapshot, wanted, conditions)
        hot = _hot(spark, opened, position, snapshot, wanted, conditions, options)
    found = [] if not parts else [_native(spark, parts, snapshot, wanted, conditions)]
    found += [] if hot is None else [hot]
    if not found:
        nothing: list[tuple[Any, ...]] = []
        found = [spark.createDataFrame(nothing, _schema())]
    frame = reduce(DataFrame.unionByName, found)
    # Each step of a frame is analysed anew by Spark: milliseconds that a small query is made of.
    return frame if options.columns == named.RECORD else frame.select(*options.columns)


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
    folder = f"{spark_url(first.lake)}/{keys.data_folder(first.topic_id)}"
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
    ranges = _ranges(seqs)
    if len(ranges) > RANGES_MAX:
        listed = spark.createDataFrame(pa.table({"seq": seqs}))
        return _holding(frame, held).join(f.broadcast(listed), "seq", "left_anti")
    return _holding(frame, [*held, *(~f.col("seq").between(*ends) for ends in ranges)])


def _since(part: FilePart, seq: int) -> Column:
    """Times that rows from a seq on can have."""
    file = lake_file(part)
    return expression(Condition("ts", ">=", file.zones[file.zone_at(seq)].ts_min))


def _until(part: FilePart, seq: int) -> Column:
    file = lake_file(part)
    return expression(Condition("ts", "<=", file.zones[file.zone_at(seq)].ts_max))


def _ranges(seqs: Any) -> list[tuple[int, int]]:
    """First and last of each run in an array of seqs."""
    if not len(seqs):
        return []
    breaks = np.flatnonzero(np.diff(seqs) > 1)
    firsts, lasts = seqs[np.r_[0, breaks + 1]], seqs[np.r_[breaks, len(seqs) - 1]]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _holding(frame: DataFrame, held: Sequence[Column]) -> DataFrame:
    """The rows for which all of it holds, in one step."""
    return frame.where(reduce(Column.__and__, held)) if held else frame


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
    rows = cuts.few_rows(store, snapshot, seqs, conditions, _HOT_BYTES_MAX)
    if rows is not None:
        shaped = named.shaped(rows, named.RECORD)
        return spark.createDataFrame(shaped, _schema()) if len(rows) else None
    register(spark)
    reading = spark.read.format("strandline").option("pinned", pinned_text(position))
    reading = reading.option("store", options.store).option("topic", snapshot.name)
    frame = reading.option("lake", options.lake).load()
    held = [f.col("seq") >= first_seq, f.col("seq") <= last_seq]
    return _holding(frame, [*held, *(expression(condition) for condition in conditions)])


def _schema() -> Any:
    return spark_schema(named.RECORD)


def spark_url(lake: str) -> str:
    """The lake as Spark's file systems name it."""
    scheme, separator, rest = lake.partition("://")
    if not separator:
        return f"file://{lake}"
    if scheme == "s3":
        return f"s3a://{rest}".rstrip("/")
    if scheme in ("file", "gs"):
        return lake.rstrip("/")
    raise Invalid(f'Spark cannot read {lake} by itself: use spark.read.format("strandline")')
