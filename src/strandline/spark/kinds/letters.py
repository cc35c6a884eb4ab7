"""The dead letters of a queue: records of its topic ``NAME:dead``."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from strandline.query.sql.letters import LetterRows, letters_of
from strandline.spark.kinds.shape import as_spark, spark_form

LETTERS = spark_form(LetterRows.schema)


class LetterShape(msgspec.Struct, frozen=True):
    """Dead letters."""

    @property
    def schema(self) -> pa.Schema:
        return LETTERS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return as_spark(letters_of(batch), LETTERS)
