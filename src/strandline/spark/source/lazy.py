"""Loads what only views need when the first one is read or written.

It is half of all code, and Spark starts a Python process for every plan and every task: most of
them read records.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from strandline.spark.read.options import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from strandline.spark.read.tasks import AnyPart
    from strandline.spark.read.typed_stream import TypedStream
    from strandline.spark.row_mappers.mapper import Shape
    from strandline.spark.row_mappers.row_encoder import Encoder
    from strandline.spark.write.row_validation import Fitting


def view_schema(options: ReadOptions) -> pa.Schema:
    """The columns of a view."""
    return _views().schema_of(options)


def view_parts(options: ReadOptions, schema: pa.Schema) -> tuple[list[AnyPart], Shape | None]:
    """What a batch read of a view reads, and what makes rows of it."""
    found: tuple[list[AnyPart], Shape | None] = _views().batch_parts(options, schema)
    return found


def is_logged(options: ReadOptions) -> bool:
    """Whether a batch read of a view is one of its log."""
    return bool(options.view in _views().LOGGED)


def typed_stream(options: ReadOptions, schema: pa.Schema) -> TypedStream:
    """What makes rows of a stream's records."""
    made: TypedStream = import_module("strandline.spark.read.typed_stream").TypedStream(
        options, schema
    )
    return made


def event_table(spark: SparkSession, options: ReadOptions) -> DataFrame:
    """An event table as a frame."""
    found: DataFrame = import_module("strandline.spark.tables.event_table_frame").event_table(
        spark, options
    )
    return found


def encoder_for(options: WriteOptions, schema: StructType) -> Encoder:
    """What makes records of rows for a view."""
    made: Encoder = import_module("strandline.spark.write.write_target").encoder_for(
        options, schema
    )
    return made


def fitting_of(options: WriteOptions, encoder: Encoder) -> Fitting:
    """What finds the rows that do not fit."""
    made: Fitting = import_module("strandline.spark.write.row_validation").Fitting(options, encoder)
    return made


def _views() -> Any:
    return import_module("strandline.spark.read.view_read")
