"""Converts between conditions and Spark: pushed filters, and column expressions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark.sql import Column, datasource
from pyspark.sql import functions as f

from strandline.pipelines.splits.predicates import EPOCH, PRUNED, Condition, condition_of

_FILTERS: dict[type, str] = {
    datasource.EqualTo: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.In: "in",
}


def condition_of_filter(pushed: datasource.Filter) -> Condition | None:
    """A filter of Spark as a condition, None if it is not supported."""
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in PRUNED:
        return None
    if isinstance(pushed, datasource.IsNotNull):
        return Condition(attribute[0], "exists")
    operator = _FILTERS.get(type(pushed))
    if operator is None:
        return None
    return condition_of(attribute[0], operator, getattr(pushed, "value", None))


def expression(condition: Condition) -> Column:
    """A condition as a column expression of Spark."""
    column = f.col(condition.column)
    if condition.operator == "exists":
        return column.isNotNull()
    if condition.operator == "in":
        return column.isin([_literal(condition.column, value) for value in condition.value])
    literal = f.lit(_literal(condition.column, condition.value))
    comparison: Column = {
        "=": column.__eq__,
        "<": column.__lt__,
        "<=": column.__le__,
        ">": column.__gt__,
        ">=": column.__ge__,
    }[condition.operator](literal)
    return comparison


def _literal(column: str, value: Any) -> Any:
    if column == "ts":
        return EPOCH + timedelta(microseconds=value)
    return bytearray(value) if isinstance(value, bytes) else value
