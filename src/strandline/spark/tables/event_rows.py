"""Rows of an event table as a frame: its files through Spark's own Parquet reader, and the rest.

The indexes of the table select the files, on the driver, before Spark lists them
(``views/table/external_scan.py``). Files of one schema version are one read; its columns are cast
to the types of the newest version. Rows outside of the range of a cut file, and hidden rows, are
removed by comparisons, or by a join if there are many ranges. Rows that are not in a file are read
as Arrow. All of it is one snapshot: no row twice, none missing. Small reads are one partition.

    kind      in Spark
    seq       bigint: no seq is larger, and it takes half the time of a decimal
    u64       decimal(20, 0): Spark has no unsigned type
    datetime  timestamp
    enum      string
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.config.settings import MIB
from strandline.query.language.bound_ast import CORE_KINDS
from strandline.schema import FieldType, FieldTypeName, Schema
from strandline.spark.errors import plain_errors, remember_table
from strandline.spark.tables.parquet import PATHS_MAX, filtered_without, spark_url
from strandline.views.table.external_scan import ExternalScan, FileRows
from strandline.views.table.snapshot import SEQ

_TYPES: dict[FieldTypeName, DataType] = {
    "string": StringType(),
    "enum": StringType(),
    "u64": DecimalType(20, 0),
    "i64": LongType(),
    "f64": DoubleType(),
    "bool": BooleanType(),
    "datetime": TimestampType(),
    "date": DateType(),
}
_WIDE = pa.decimal128(20, 0)

ONE_TASK_BYTES = 8 * MIB
"""Up to this size one task reads everything, and nothing is shuffled: a second stage takes longer
than the other cores would save. Measured for 40,000 rows: 0.19 s instead of 0.26 s; for 500,000,
7 MiB, it is about the same, with less work for Java."""


def frame_of_scan(
    spark: SparkSession, table: str, kinds: Mapping[str, FieldType], scan: ExternalScan
) -> DataFrame:
    """These columns of all rows of a scan, and possibly other rows of the same files."""
    parts = [_native(spark, table, kinds, scan, files) for files in _groups(scan.files)]
    memory = [rows for rows in scan.memory if rows.num_rows]
    if memory or not parts:
        parts.append(of_arrow(spark, memory, kinds))
    frame = reduce(DataFrame.unionAll, parts)
    size = sum(file.size for file in scan.files) + sum(rows.nbytes for rows in memory)
    return frame.coalesce(1) if size <= ONE_TASK_BYTES else frame


def of_arrow(
    spark: SparkSession, tables: Sequence[pa.Table], kinds: Mapping[str, FieldType]
) -> DataFrame:
    """Rows in memory as a frame."""
    plain = [_spark_rows(rows.select(list(kinds))) for rows in tables]
    if not plain:
        nothing: list[tuple[object, ...]] = []
        return spark.createDataFrame(nothing, schema_of(kinds))
    # An explicit schema would be checked row by row: the types are correct already.
    return spark.createDataFrame(pa.concat_tables(plain))


def schema_of(kinds: Mapping[str, FieldType]) -> StructType:
    """Columns as types of Spark."""
    return StructType([StructField(name, type_of(name, kind)) for name, kind in kinds.items()])


def type_of(name: str, kind: FieldType) -> DataType:
    return LongType() if name == SEQ else _TYPES[kind.name]


def spark_table(table: pa.Table) -> pa.Table:
    """The same rows in types of Spark: no dictionaries, no unsigned numbers."""
    for index, field in enumerate(table.schema):
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_uint64(kind):
            kind = pa.int64() if field.name == SEQ else _WIDE
        elif pa.types.is_unsigned_integer(kind):
            kind = pa.int64()
        if kind != field.type:
            cast = table.column(index).cast(kind)
            table = table.set_column(index, field.with_type(kind).with_nullable(True), cast)
    return table


def _spark_rows(table: pa.Table) -> pa.Table:
    converted = spark_table(table)
    fields = [field.with_nullable(True).remove_metadata() for field in converted.schema]
    return converted.cast(pa.schema(fields))


def _groups(files: Iterable[FileRows]) -> list[list[FileRows]]:
    """Groups of files with one read: of one version, and cut or not."""
    groups: dict[tuple[int, bool], list[FileRows]] = {}
    for file in files:
        groups.setdefault((file.schema.version, file.is_cut), []).append(file)
    return list(groups.values())


def _native(
    spark: SparkSession,
    table: str,
    kinds: Mapping[str, FieldType],
    scan: ExternalScan,
    files: Sequence[FileRows],
) -> DataFrame:
    first = files[0]
    written = CORE_KINDS | first.schema.columns()
    existing = {name: written[name] for name in kinds if name in written}
    needed = existing if SEQ in existing or not first.is_cut else existing | {SEQ: written[SEQ]}
    frame = _read(spark, table, files, needed or {SEQ: written[SEQ]})
    if first.is_cut:
        frame = _cut(spark, frame, scan, files)
    if needed == kinds:  # each named column costs a message to Java
        return frame
    return frame.select(*(_upcast(name, kind, first.schema) for name, kind in kinds.items()))


def _read(
    spark: SparkSession, table: str, files: Sequence[FileRows], kinds: Mapping[str, FieldType]
) -> DataFrame:
    folder, _, _ = f"{spark_url(files[0].lake)}/{files[0].key}".rpartition("/")
    names = [file.key.rpartition("/")[2] for file in files]
    remember_table(table, 0, names)
    few = len(names) <= PATHS_MAX
    paths = [f"{folder}/{name}" for name in names] if few else [folder]
    with plain_errors():  # Spark may lack the file system of an object store
        frame = spark.read.schema(schema_of(kinds)).parquet(*paths)
    return frame if few else frame.where(f.col("_metadata.file_name").isin(names))


def _upcast(name: str, kind: FieldType, written: Schema) -> Column:
    """A column of a file as in the newest version."""
    if name in CORE_KINDS:
        return f.col(_quoted(name))
    before = written.columns()
    if name not in before:
        return f.lit(None).cast(type_of(name, kind)).alias(name)
    if before[name].name == kind.name:
        return f.col(_quoted(name))
    return f.col(_quoted(name)).cast(type_of(name, kind)).alias(name)


def _cut(
    spark: SparkSession, frame: DataFrame, scan: ExternalScan, files: Sequence[FileRows]
) -> DataFrame:
    """Remove hidden rows and rows outside of the range."""
    low, high = min(file.first_seq for file in files), max(file.last_seq for file in files)
    conditions: list[Column] = []
    if low < scan.first_seq:
        conditions.append(f.col(SEQ) >= scan.first_seq)
    if high > scan.last_seq:
        conditions.append(f.col(SEQ) <= scan.last_seq)
    seqs = np.fromiter(scan.hidden, dtype="<i8", count=len(scan.hidden))
    return filtered_without(spark, frame, conditions, seqs[(seqs >= low) & (seqs <= high)])


def _quoted(name: str) -> str:
    return f"`{name}`"
