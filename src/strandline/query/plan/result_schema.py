"""The columns of a result with their Arrow types, known before the query runs. Pure."""

from __future__ import annotations

import pyarrow as pa

from strandline.query.language.bound_ast import BUCKET
from strandline.query.plan.plan import Figure, Plan
from strandline.query.plan.sql_dialect import TOTAL_DIGITS
from strandline.schema import FieldType, FieldTypeName

MOMENT = pa.timestamp("us", tz="UTC")

_ARROW: dict[FieldTypeName, pa.DataType] = {
    "string": pa.string(),
    "enum": pa.string(),
    "u64": pa.uint64(),
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "datetime": MOMENT,
    "date": pa.date32(),
}


def arrow_type(kind: FieldType) -> pa.DataType:
    return _ARROW[kind.name]


def shape_of(plan: Plan) -> pa.Schema:
    """The schema of a plan's result."""
    kinds = plan.kinds
    if not plan.figures:
        return pa.schema([(out.name, arrow_type(kinds[out.column])) for out in plan.outputs])
    bucket = [(BUCKET, MOMENT)] if plan.bucket else []
    groups = [(group.name, arrow_type(kinds[group.column])) for group in plan.groups]
    figures = [(figure.name, _figure_type(figure)) for figure in plan.figures]
    return pa.schema([*bucket, *groups, *figures])


def _figure_type(figure: Figure) -> pa.DataType:
    if figure.function in ("count", "count_unique") or figure.kind is None:
        return pa.int64()
    if figure.function in ("avg", "scaled_total"):
        return pa.float64()
    if figure.function == "total" and figure.kind.name != "f64":
        return pa.decimal128(TOTAL_DIGITS, 0)
    return arrow_type(figure.kind)
