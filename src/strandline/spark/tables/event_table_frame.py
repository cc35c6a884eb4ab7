"""An event table as a frame: its files through Spark's own Parquet reader, and the other rows.

Files of one version of the schema are read together and cast to the newest; deleted rows are
removed by seq, as in ``spark/tables/topic_table.py``. All of it is one position
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
from strandline.spark.read.event_table import EventTableState, table_of
from strandline.spark.read.options import ReadOptions
from strandline.spark.read.read_location import open_location
from strandline.spark.read.schema import of_arrow
from strandline.spark.row_mappers.events import EventMapper
from strandline.spark.row_mappers.mapper import choose_columns, select_columns
from strandline.spark.tables.parquet import PATHS_MAX, filtered_without, spark_url


def event_table(spark: SparkSession, options: ReadOptions) -> DataFrame:
    """The table of a topic, at a position or now."""
    with open_location(options) as location:
        view_read.check(location, options)
        view_read.reject_bounds(options)
        schema = view_read.table_schema(location, options.topics[0])
        state = table_of(location, options.topics[0], options.as_of)
    full_schema = EventMapper(target=schema).schema
    frames = [spark.createDataFrame(_memory(state, full_schema), of_arrow(full_schema))]
    frames += [_files(spark, state, written) for written in _versions(state)]
    frame = reduce(DataFrame.unionByName, frames)
    names = options.columns
    return frame.select(*choose_columns(full_schema, names, lost=False).names) if names else frame


def _memory(state: EventTableState, schema: pa.Schema) -> pa.Table:
    """The rows that are not in a file."""
    return pa.Table.from_batches([select_columns(table, schema) for table in state.memory], schema)


def _versions(state: EventTableState) -> list[Schema]:
    """The schema versions of files with rows."""
    by_version = {
        written.version: written for file, written in state.files if _is_in_range(state, file)
    }
    return [by_version[version] for version in sorted(by_version)]


def _is_in_range(state: EventTableState, file: LakeFile) -> bool:
    return bool(file.rows) and file.last_seq >= state.first_seq and file.first_seq <= state.last_seq


def _files(spark: SparkSession, state: EventTableState, written: Schema) -> DataFrame:
    """The rows of the files of one version, cast to the newest."""
    files = [
        file
        for file, version in state.files
        if version.version == written.version and _is_in_range(state, file)
    ]
    remember_table(state.name, state.manifest, [file.name() for file in files])
    folder = f"{spark_url(state.lake)}/{object_keys.data_folder(state.table_id)}"
    few = len(files) <= PATHS_MAX
    paths = [f"{folder}/{file.name()}" for file in files] if few else [folder]
    with plain_errors():
        schema = of_arrow(EventMapper(target=written).stored)
        frame = spark.read.schema(schema).parquet(*paths)
    conditions = [] if few else [f.col("_metadata.file_name").isin([each.name() for each in files])]
    low, high = min(each.first_seq for each in files), max(each.last_seq for each in files)
    conditions += [f.col("seq") >= state.first_seq] if low < state.first_seq else []
    conditions += [f.col("seq") <= state.last_seq] if high > state.last_seq else []
    removed = state.hidden_seqs()
    seqs = np.array(list(removed & BitMap64(range(low, high + 1))) if removed else [], dtype="<i8")
    frame = filtered_without(spark, frame, conditions, seqs)
    target = EventMapper(target=state.schema)
    columns = [_upcast(field, written, state.schema) for field in of_arrow(target.stored)]
    return frame.select(*columns).toDF(*target.schema.names)


def _upcast(field: StructField, written: Schema, newest: Schema) -> Column:
    """A column of a file cast to the newest version, as by ``views/table/upcast.py``."""
    name = field.name
    kinds, before = newest.columns(), written.columns()
    if name not in kinds:
        return f.col(name)
    if name not in before:
        return f.lit(None).cast(field.dataType).alias(name)
    column = f.col(name)
    if (before[name].name, kinds[name].name) == ("date", "datetime"):
        column = f.to_utc_timestamp(column.cast("timestamp"), f.current_timezone())
    return column.cast(field.dataType).alias(name)
