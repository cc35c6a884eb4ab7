"""The data source ``strandline`` of Spark: batch and stream.

Spark calls it in separate Python processes, on the driver to plan and on executors to read, so it
holds options only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from strandline.errors import Invalid
from strandline.pipelines.splits.snapshot_position import StorePosition
from strandline.spark.errors import short_errors
from strandline.spark.profiler_workaround import forget_empty_profiles
from strandline.spark.read.options import FORMAT, LOG, ReadOptions, WriteOptions, parse, parse_write
from strandline.spark.read.schema import of_arrow, spark_schema, to_arrow
from strandline.spark.source import lazy
from strandline.spark.source.batch_reader import BatchReader
from strandline.spark.source.streams import StreamReader
from strandline.spark.source.writers import BatchWriter, StreamWriter, check_columns, check_topic

if TYPE_CHECKING:
    from strandline.spark.row_mappers.row_encoder import Encoder


class StrandlineSource(DataSource):
    """``format("strandline")`` of ``read``, ``readStream``, ``write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        with short_errors():
            options = self._read_options()
            if options.view == LOG:
                return spark_schema(options.columns)
            return of_arrow(lazy.view_schema(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        with short_errors():
            options = self._read_options()
            if options.on_loss or options.records_max:
                raise Invalid("onLoss and maxRecordsPerTrigger are for readStream")
            pinned = pinned_of(options.pinned) if options.pinned else None
            return BatchReader(options, pinned, _view_columns(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        with short_errors():
            options = self._read_options()
            return StreamReader(options, _view_columns(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        with short_errors():
            options, encoder = self._write_options(schema)
            if overwrite:
                raise Invalid('a log is appended to, not overwritten: use .mode("append")')
            return BatchWriter(options, encoder)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        with short_errors():
            options, encoder = self._write_options(schema)
            if options.write_id:
                raise Invalid(
                    "writeId is for batch writes: a stream is identified by its checkpoint"
                )
            if overwrite:
                raise Invalid('a log is appended to: use .outputMode("append")')
            return StreamWriter(options, encoder)

    def _write_options(self, schema: StructType) -> tuple[WriteOptions, Encoder | None]:
        forget_empty_profiles()
        options = parse_write(dict(self.options))
        if options.view != LOG:
            return options, lazy.encoder_for(options, schema)
        check_columns(schema)
        check_topic(options.store, options.lake, "" if options.create else options.topic)
        return options, None

    def _read_options(self) -> ReadOptions:
        forget_empty_profiles()
        return parse(dict(self.options))


def _view_columns(options: ReadOptions, schema: StructType) -> pa.Schema | None:
    """The columns of a view; None for records."""
    return None if options.view == LOG else to_arrow(schema)


def pinned_text(position: StorePosition) -> str:
    """A position as the text of an option."""
    return b64encode(msgspec.msgpack.encode(position)).decode()


def pinned_of(text: str) -> StorePosition:
    return msgspec.msgpack.decode(b64decode(text), type=StorePosition)
