"""The records of a key-value map as versions of its keys, deletes included."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from strandline.query.sql.relations.kv_versions import VersionRows, versions_of
from strandline.spark.row_mappers.mapper import as_spark, spark_schema_of
from strandline.views.view import MARKS

VERSION_COLUMNS = spark_schema_of(VersionRows.schema)


class VersionMapper(msgspec.Struct, frozen=True, kw_only=True):
    """Maps versions of keys. ``kinds`` are the views of the topic."""

    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return VERSION_COLUMNS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        others = tuple(MARKS[kind] for kind in self.kinds if kind != "kv")
        return as_spark(versions_of(batch, others), VERSION_COLUMNS)
