"""The columns of a read as types of Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.pipelines.splits.record_schema import LOST, TOPIC

_SPARK: dict[str, DataType] = {
    TOPIC: StringType(),
    "seq": LongType(),
    "ts": TimestampType(),
    "key": BinaryType(),
    "tag": StringType(),
    "node": StringType(),
    "meta": BinaryType(),
    "data": BinaryType(),
    LOST: StructType(
        [
            StructField("first", LongType()),
            StructField("last", LongType()),
            StructField("reason", StringType()),
        ]
    ),
}


def spark_schema(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, _SPARK[name]) for name in names])


def of_arrow(schema: pa.Schema) -> StructType:
    """The columns of a view as types of Spark."""
    return from_arrow_schema(schema)


def to_arrow(schema: StructType) -> pa.Schema:
    """The columns of a view as types of Arrow."""
    return to_arrow_schema(schema, timezone="UTC")
