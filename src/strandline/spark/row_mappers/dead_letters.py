"""The dead letters of a queue: records of ``NAME:dead``, or of the topic that the queue names."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from strandline.query.sql.relations.dead_letters import LetterRows, letters_of
from strandline.spark.row_mappers.mapper import as_spark, spark_form

LETTERS = spark_form(LetterRows.schema)


class LetterShape(msgspec.Struct, frozen=True, kw_only=True):
    """Maps dead letters; with ``node``, those of one queue in a shared topic."""

    node: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return LETTERS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.node is not None:
            batch = batch.filter(pc.equal(batch["node"], self.node))
        return as_spark(letters_of(batch), LETTERS)
