"""The records of a metrics view as points, a row each, in the order in which they came.

Rows are as they were written: a later one of the same series, field and time stands in the place of
an earlier one in the view, and both are here.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from strandline.query.sql.relations.metrics import LONG
from strandline.spark.row_mappers.mapper import TIME, as_spark, rows_of, spark_form, without_others
from strandline.views.metrics.ingest.batch import Row, Table, table_of
from strandline.views.metrics.ingest.record_codec import Written, meaning
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.value_types import Kind, from_bits

MEASURED = spark_form(LONG)
_TAGS = LONG.field("tags").type


class MeasuredShape(msgspec.Struct, frozen=True, kw_only=True):
    """Points. ``kinds`` are the views that the topic has."""

    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return MEASURED

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = rows_of(without_others(batch, "metrics", self.kinds))
        made = [MEASURED.empty_table()]
        for stamp, meta, data in zip(rows.stamps, rows.metas, rows.data, strict=True):
            said = meaning(meta, data, stamp)
            tables = [table_of(said)] if isinstance(said, Row) else []
            tables = said.tables if isinstance(said, Written) else tables
            made += [
                pa.Table.from_batches([_points(table, place)])
                for table in tables
                for place in range(len(table.fields))
            ]
        return as_spark(pa.concat_tables(made), MEASURED)


def _points(table: Table, place: int) -> pa.RecordBatch:
    """The points of one field of a table."""
    count, (field, kind) = len(table.at), table.fields[place]
    bits = table.columns[place]
    whole = pa.nulls(count, pa.int64()) if kind is Kind.FLOAT else pa.array(bits, pa.int64())
    arrays = [
        pa.repeat(pa.scalar(table.measurement), count),
        _tags(table),
        pa.repeat(pa.scalar(field), count),
        pa.array(table.at // 1000).cast(TIME),
        pa.array(table.at),
        pa.array(from_bits(bits, kind).astype("<f8")),
        whole,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MEASURED)


def _tags(table: Table) -> pa.Array:
    told = pa.array([list(tags_of(packed).items()) for packed in table.series], _TAGS)
    if table.rows is None:
        count = len(table.at)
        rows = np.zeros(count, "<i8") if len(table.series) == 1 else np.arange(count)
        return told.take(pa.array(rows))
    return told.take(pa.array(table.rows))
