"""The dead letters of a queue: records of ``NAME:dead``, or of the topic that the queue names."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.sql.relations.dead_letters import DeadLetterRows, dead_letters_of
from strandline.spark.row_mappers.mapper import as_spark, spark_schema_of

DEAD_LETTER_COLUMNS = spark_schema_of(DeadLetterRows.schema)


class DeadLetterMapper(msgspec.Struct, frozen=True, kw_only=True):
    """Maps dead letters; with ``node``, those of one queue in a shared topic."""

    node: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return DEAD_LETTER_COLUMNS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.node is not None:
            batch = batch.filter(pc.equal(batch["node"], self.node))
        return as_spark(dead_letters_of(batch), DEAD_LETTER_COLUMNS)
