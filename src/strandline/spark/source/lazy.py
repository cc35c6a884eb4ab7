"""Imports the code for views when the first view is read or written.

It is half of all code, and Spark starts a Python process for every plan and every task; most of
them read records only.
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
    from strandline.spark.read.typed_stream import StreamMappers
    from strandline.spark.row_mappers.mapper import RowMapper
    from strandline.spark.row_mappers.row_encoder import Encoder
    from strandline.spark.write.row_validation import RowValidator


def view_schema(options: ReadOptions) -> pa.Schema:
    """The columns of a view."""
    return _views().schema_of(options)


def view_parts(options: ReadOptions, schema: pa.Schema) -> tuple[list[AnyPart], RowMapper | None]:
    """The parts of a batch read of a view, and their row mapper."""
    parts: tuple[list[AnyPart], RowMapper | None] = _views().batch_parts(options, schema)
    return parts


def is_log_view(options: ReadOptions) -> bool:
    """Whether a batch read of a view is a read of its log."""
    return bool(options.view in _views().LOG_VIEWS)


def typed_stream(options: ReadOptions, schema: pa.Schema) -> StreamMappers:
    """The row mappers of a stream."""
    stream: StreamMappers = import_module("strandline.spark.read.typed_stream").StreamMappers(
        options, schema
    )
    return stream


def event_table(spark: SparkSession, options: ReadOptions) -> DataFrame:
    """An event table as a frame."""
    frame: DataFrame = import_module("strandline.spark.tables.event_table_frame").event_table(
        spark, options
    )
    return frame


def encoder_for(options: WriteOptions, schema: StructType) -> Encoder:
    """The encoder of rows for a view."""
    encoder: Encoder = import_module("strandline.spark.write.write_target").encoder_for(
        options, schema
    )
    return encoder


def validator_of(options: WriteOptions, encoder: Encoder) -> RowValidator:
    """The validation of rows for a view."""
    validator: RowValidator = import_module("strandline.spark.write.row_validation").RowValidator(
        options, encoder
    )
    return validator


def _views() -> Any:
    return import_module("strandline.spark.read.view_read")
