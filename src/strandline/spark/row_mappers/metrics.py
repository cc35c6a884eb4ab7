"""The records of a metrics view as points, a row each, in order of the log.

Rows are as they were written: the view replaces an earlier point of the same series, field and time
by a later one, but both are rows here.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from strandline.query.sql.relations.metrics import LONG
from strandline.spark.row_mappers.mapper import (
    TIME,
    as_spark,
    rows_of,
    spark_schema_of,
    without_other_views,
)
from strandline.views.metrics.ingest.batch import PointRow, PointTable, table_of
from strandline.views.metrics.ingest.record_codec import WrittenPoints, decode_record
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.value_types import ValueKind, from_bits

METRICS_COLUMNS = spark_schema_of(LONG)
_TAGS = LONG.field("tags").type


class MetricsMapper(msgspec.Struct, frozen=True, kw_only=True):
    """Maps points of metrics. ``kinds`` are the views of the topic."""

    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return METRICS_COLUMNS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = rows_of(without_other_views(batch, "metrics", self.kinds))
        points = [METRICS_COLUMNS.empty_table()]
        for stamp, meta, data in zip(rows.stamps, rows.metas, rows.data, strict=True):
            written = decode_record(meta, data, stamp)
            tables = [table_of(written)] if isinstance(written, PointRow) else []
            tables = written.tables if isinstance(written, WrittenPoints) else tables
            points += [
                pa.Table.from_batches([_points(table, index)])
                for table in tables
                for index in range(len(table.fields))
            ]
        return as_spark(pa.concat_tables(points), METRICS_COLUMNS)


def _points(table: PointTable, index: int) -> pa.RecordBatch:
    """The points of one field of a table."""
    count, (field, kind) = len(table.at), table.fields[index]
    bits = table.columns[index]
    integers = (
        pa.nulls(count, pa.int64()) if kind is ValueKind.FLOAT else pa.array(bits, pa.int64())
    )
    arrays = [
        pa.repeat(pa.scalar(table.measurement), count),
        _tags(table),
        pa.repeat(pa.scalar(field), count),
        pa.array(table.at // 1000).cast(TIME),
        pa.array(table.at),
        pa.array(from_bits(bits, kind).astype("<f8")),
        integers,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=METRICS_COLUMNS)


def _tags(table: PointTable) -> pa.Array:
    tags = pa.array([list(tags_of(packed).items()) for packed in table.series], _TAGS)
    if table.rows is None:
        count = len(table.at)
        rows = np.zeros(count, "<i8") if len(table.series) == 1 else np.arange(count)
        return tags.take(pa.array(rows))
    return tags.take(pa.array(table.rows))
