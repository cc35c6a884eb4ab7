"""A source whose batches are decoded already: what it costs is their way from Python to the JVM.

It is the limit of every source that is written in Python. One batch of a lake file lies in a file
as Arrow has it in memory; a task maps it and sends it again and again, as many rows as are asked
for. Nothing is decompressed, decoded or checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from strandline.lake.files.file_writer import ZONE_ROWS
from strandline.pipelines.splits import record_schema as named
from strandline.spark.read.schema import spark_schema

TASK_ROWS = 500_000


class Decoded(DataSource):
    """``format("decoded")``: the options name the file, the columns and how many rows."""

    @classmethod
    def name(cls) -> str:
        return "decoded"

    def schema(self) -> StructType:
        return spark_schema(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"], schema.names, int(self.options["rows"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, names: Sequence[str], rows: int) -> None:
        self._path = path
        self._names = list(names)
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        starts = range(0, self._rows, TASK_ROWS)
        return [InputPartition(min(TASK_ROWS, self._rows - start)) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as file:
            batch = pa.ipc.open_file(file).get_batch(0).select(self._names)
            for sent in range(0, partition.value, len(batch)):
                yield batch.slice(0, partition.value - sent)


def prepare(spark: SparkSession, lake_file: str, path: str) -> None:
    """Make the file at ``path``, and teach the session to read it."""
    zone = next(pq.ParquetFile(lake_file).iter_batches(ZONE_ROWS))
    batch = named.with_columns(pa.table(zone), named.RECORD).combine_chunks().to_batches()[0]
    with pa.ipc.new_file(path, batch.schema) as file:
        file.write(batch)
    spark.dataSource.register(Decoded)


def frame(spark: SparkSession, path: str, rows: int, columns: Sequence[str]) -> DataFrame:
    """So many rows, decoded already."""
    reading = spark.read.format("decoded").option("rows", str(rows))
    return reading.option("columns", ",".join(columns)).load(path)
