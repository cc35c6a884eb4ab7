"""The stages of a query after the first aggregate, as functions on results. Pure.

Input and output are values by group in the order of time. A group keeps its tags.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import AggregateFunction
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.query.windows import SeriesGroups, outcome
from strandline.views.metrics.storage.block import FieldPoints, no_points
from strandline.views.metrics.storage.block_index import ENTRY
from strandline.views.metrics.storage.point_reader import PointsPart
from strandline.views.metrics.value_types import ValueKind, Values, to_bits

EACH = "*"

_COMPARISONS: dict[str, Callable[[Values, float], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def aggregate(
    result: MetricsResult,
    function: AggregateFunction,
    *,
    width: int | None,
    by: Sequence[str] | None,
) -> MetricsResult:
    """Aggregate values of earlier stages."""
    values = _numbers(result.values)
    kind = ValueKind.FLOAT if values.dtype.kind == "f" else ValueKind.INT
    points = (
        FieldPoints(result.group, result.at, to_bits(values, kind)) if len(values) else no_points()
    )
    named, groups = _regroup(result, by or ())
    part = PointsPart(points, np.empty(0, dtype=ENTRY))
    aggregated = outcome([part], kind, function, groups, width).checked()
    name = f"{result.name}_{function.label}"
    return MetricsResult(name, named, aggregated.group, aggregated.at, aggregated.values)


def delta(result: MetricsResult) -> MetricsResult:
    """The difference from each value to the next of its group, at the time of the later one."""
    same_group = result.group[1:] == result.group[:-1]
    values = np.diff(_numbers(result.values))[same_group]
    later = np.flatnonzero(same_group) + 1
    return result.replace(group=result.group[later], at=result.at[later], values=values)


def rate(result: MetricsResult, per_ns: int) -> MetricsResult:
    """The rate of a counter from each value to the next; a fall is a restart from 0."""
    same_group = result.group[1:] == result.group[:-1]
    values = _numbers(result.values).astype("<f8")
    rises = np.diff(values)
    rises = np.where(rises < 0, values[1:], rises)[same_group]
    later = np.flatnonzero(same_group) + 1
    spans = result.at[later] - result.at[later - 1]
    return result.replace(
        group=result.group[later], at=result.at[later], values=rises * (per_ns / spans)
    )


def where(result: MetricsResult, comparison: str, number: float) -> MetricsResult:
    """The values for which the comparison is true."""
    return result.replace(chosen=_COMPARISONS[comparison](result.values, number))


def math(result: MetricsResult, postfix: Sequence[str | float]) -> MetricsResult:
    """Apply an expression to every value; results that are not finite are left out."""
    values = _numbers(result.values).astype("<f8")
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for part in postfix:
            if isinstance(part, float):
                stack.append(np.float64(part))
            elif part == "value":
                stack.append(values)
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(_SIGNS[part](left, right))
    (computed,) = stack
    computed = np.broadcast_to(computed, values.shape)
    return result.replace(values=computed.copy()).replace(chosen=np.isfinite(computed))


def rounded(result: MetricsResult, function: str, digits: float | None) -> MetricsResult:
    """abs, ceil, floor or round."""
    values = _numbers(result.values)
    if function == "round":
        if digits is not None and digits != int(digits):
            raise Invalid("round takes a whole number of digits")
        return result.replace(values=np.round(values, int(digits or 0)))
    return result.replace(
        values={"abs": np.abs, "ceil": np.ceil, "floor": np.floor}[function](values)
    )


def top(result: MetricsResult, count: float, *, lowest: bool) -> MetricsResult:
    """The groups with the highest or the lowest average; of equal ones, the first by tags."""
    if not len(result):
        return result
    groups_max = whole(count)
    sizes = np.bincount(result.group, minlength=len(result.groups))
    totals = np.bincount(result.group, weights=result.values, minlength=len(result.groups))
    used = np.flatnonzero(sizes)
    averages = totals[used] / sizes[used]
    order = np.argsort(averages if lowest else -averages, kind="stable")
    return result.replace(chosen=np.isin(result.group, used[order[:groups_max]]))


def whole(count: float) -> int:
    if count != int(count):
        raise Invalid(f"{count:g} is not a whole number")
    return int(count)


def _numbers(values: Values) -> Values:
    """Values for arithmetic: booleans are 0 and 1."""
    return values.astype("<i8") if values.dtype.kind == "b" else values


def _regroup(
    result: MetricsResult, by: Sequence[str]
) -> tuple[Sequence[dict[str, str]], SeriesGroups]:
    numbers = np.arange(len(result.groups))
    if by == EACH:
        return result.groups, SeriesGroups(numbers, numbers, numbers)
    keys = [tuple(tags.get(tag, "") for tag in by) for tags in result.groups]
    group_of = {key: number for number, key in enumerate(sorted(set(keys)))}
    named = [dict(zip(by, key, strict=True)) for key in group_of]
    return named, SeriesGroups(
        numbers, np.array([group_of[key] for key in keys], dtype="<i8"), numbers
    )
