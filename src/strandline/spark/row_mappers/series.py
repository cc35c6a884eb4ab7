"""The records of a series as points, in the order in which they came.

``at`` is what the series counts; ``time`` the same as a timestamp, where the unit is one we know.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from strandline.query.sql.relations.relation import texts
from strandline.query.sql.relations.series import SeriesRows, times_of
from strandline.spark.row_mappers.mapper import rows_of, spark_form, without_others
from strandline.views.series.meta import PLAIN, points_of, version_of

TICK, AT = "tick", "at"
"""What SQL calls the time of a point, where ``at`` is a word of its own; and what we do."""

POINTS = pa.schema(
    [
        field.with_name(AT) if field.name == TICK else field
        for field in spark_form(SeriesRows.schema)
    ]
)


class PointShape(msgspec.Struct, frozen=True, kw_only=True):
    """Points of a series whose ats are of a unit. ``kinds`` are the views that the topic has."""

    unit: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return POINTS

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = points_of(rows_of(without_others(batch, "series", self.kinds)))
        ats = np.array(found.ats, dtype=np.int64)
        names, payloads = pa.array(found.names, pa.binary()), pa.array(found.data, pa.binary())
        versions = [0 if kind == PLAIN else version_of(kind) for kind in found.kinds]
        arrays = [
            texts(names),
            names,
            pa.array(ats),
            times_of(ats, self.unit),
            pa.array(found.seqs, pa.int64()),
            pa.array(versions, pa.int32()),
            payloads,
            texts(payloads),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=POINTS)
