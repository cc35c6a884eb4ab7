"""An event table as a frame: its files by Spark's own Parquet reader, the other rows beside them.

Files of one version of the schema are read together and told in the newest; rows that were deleted
are left out by seq, as in ``topic_table.py``. All of it is one position
(``spark/read/event_table.py``).
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from strandline.lake import object_keys
from strandline.lake.manifest.file_entry import LakeFile
from strandline.schema import Schema
from strandline.spark.errors import plain_errors, remember_table
from strandline.spark.read import view_read
from strandline.spark.read.event_table import TableState, table_of
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import open_place
from strandline.spark.read.schema import of_arrow
from strandline.spark.row_mappers.events import EventShape
from strandline.spark.row_mappers.mapper import chosen, selected
from strandline.spark.tables.parquet import PATHS_MAX, spark_url, without


def event_table(spark: SparkSession, options: ReadOptions) -> DataFrame:
    """The table of a topic, at a position or now."""
    with open_place(options) as place:
        view_read.check(place, options)
        view_read.refuse_bounds(options)
        schema = view_read.table_schema(place, options.topics[0])
        state = table_of(place, options.topics[0], options.as_of)
    whole = EventShape(told=schema).schema
    found = [spark.createDataFrame(_memory(state, whole), of_arrow(whole))]
    found += [_files(spark, state, written) for written in _versions(state)]
    frame = reduce(DataFrame.unionByName, found)
    names = options.columns
    return frame.select(*chosen(whole, names, lost=False).names) if names else frame


def _memory(state: TableState, schema: pa.Schema) -> pa.Table:
    """The rows that are in no file."""
    return pa.Table.from_batches([selected(table, schema) for table in state.memory], schema)


def _versions(state: TableState) -> list[Schema]:
    """The versions that files with rows are of."""
    found = {written.version: written for file, written in state.files if _is_seen(state, file)}
    return [found[version] for version in sorted(found)]


def _is_seen(state: TableState, file: LakeFile) -> bool:
    return bool(file.rows) and file.last_seq >= state.first_seq and file.first_seq <= state.last_seq


def _files(spark: SparkSession, state: TableState, written: Schema) -> DataFrame:
    """The rows of the files of one version, told in the newest."""
    files = [
        file
        for file, version in state.files
        if version.version == written.version and _is_seen(state, file)
    ]
    remember_table(state.name, state.manifest, [file.name() for file in files])
    folder = f"{spark_url(state.lake)}/{object_keys.data_folder(state.table_id)}"
    few = len(files) <= PATHS_MAX
    paths = [f"{folder}/{file.name()}" for file in files] if few else [folder]
    with plain_errors():
        shape = of_arrow(EventShape(told=written).stored)
        frame = spark.read.schema(shape).parquet(*paths)
    held = [] if few else [f.col("_metadata.file_name").isin([each.name() for each in files])]
    low, high = min(each.first_seq for each in files), max(each.last_seq for each in files)
    held += [f.col("seq") >= state.first_seq] if low < state.first_seq else []
    held += [f.col("seq") <= state.last_seq] if high > state.last_seq else []
    gone = state.gone()
    seqs = np.array(list(gone & BitMap64(range(low, high + 1))) if gone else [], dtype="<i8")
    frame = without(spark, frame, held, seqs)
    target = EventShape(told=state.schema)
    found = [_upcast(field, written, state.schema) for field in of_arrow(target.stored)]
    return frame.select(*found).toDF(*target.schema.names)


def _upcast(field: StructField, written: Schema, told: Schema) -> Column:
    """A column of a file in the newest version, as ``views/table/upcast.py`` does it."""
    name = field.name
    kinds, before = told.columns(), written.columns()
    if name not in kinds:
        return f.col(name)
    if name not in before:
        return f.lit(None).cast(field.dataType).alias(name)
    column = f.col(name)
    if (before[name].name, kinds[name].name) == ("date", "datetime"):
        column = f.to_utc_timestamp(column.cast("timestamp"), f.current_timezone())
    return column.cast(field.dataType).alias(name)
