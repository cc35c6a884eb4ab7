"""The records of a series as points, in order of the log.

``at`` is the time in the unit of the series; ``time`` is the same as a timestamp, for known units.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from strandline.query.sql.relations.relation import texts
from strandline.query.sql.relations.series import SeriesRows, times_of
from strandline.spark.row_mappers.mapper import rows_of, spark_schema_of, without_other_views
from strandline.views.series.meta import PLAIN, points_of, version_of

TICK, AT = "tick", "at"
"""The name of ``at`` in SQL, where it is a keyword, and its name here."""

POINT_COLUMNS = pa.schema(
    [
        field.with_name(AT) if field.name == TICK else field
        for field in spark_schema_of(SeriesRows.schema)
    ]
)


class PointMapper(msgspec.Struct, frozen=True, kw_only=True):
    """Maps points of a series. ``unit`` is that of ``at``, ``kinds`` are the views of the topic."""

    unit: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return POINT_COLUMNS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        points = points_of(rows_of(without_other_views(batch, "series", self.kinds)))
        ats = np.array(points.ats, dtype=np.int64)
        names, payloads = pa.array(points.names, pa.binary()), pa.array(points.data, pa.binary())
        versions = [0 if kind == PLAIN else version_of(kind) for kind in points.kinds]
        arrays = [
            texts(names),
            names,
            pa.array(ats),
            times_of(ats, self.unit),
            pa.array(points.seqs, pa.int64()),
            pa.array(versions, pa.int32()),
            payloads,
            texts(payloads),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=POINT_COLUMNS)
