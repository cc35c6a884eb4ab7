"""What each stage of a query does to the values before it. Pure.

Values come as groups in the order of time, and leave so. A group keeps its tags.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import Aggregate
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.query.windows import Groups, outcome
from strandline.views.metrics.storage.block import Points, no_points
from strandline.views.metrics.storage.block_index import ENTRY
from strandline.views.metrics.storage.point_reader import Part
from strandline.views.metrics.value_types import Kind, Values, to_bits

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
    answer: Answer, how: Aggregate, *, width: int | None, by: Sequence[str] | None
) -> Answer:
    """Values that were made before, put together once more."""
    values = _numbers(answer.values)
    kind = Kind.FLOAT if values.dtype.kind == "f" else Kind.INT
    points = Points(answer.group, answer.at, to_bits(values, kind)) if len(values) else no_points()
    named, groups = _regrouped(answer, by or ())
    part = Part(points, np.empty(0, dtype=ENTRY))
    found = outcome([part], kind, how, groups, width).checked()
    name = f"{answer.name}_{how.label}"
    return Answer(name, named, found.group, found.at, found.values)


def delta(answer: Answer) -> Answer:
    """From each value to the next of its group, at the time of the later one."""
    alike = answer.group[1:] == answer.group[:-1]
    values = np.diff(_numbers(answer.values))[alike]
    later = np.flatnonzero(alike) + 1
    return answer.replace(group=answer.group[later], at=answer.at[later], values=values)


def rate(answer: Answer, per_ns: int) -> Answer:
    """How fast a counter rises from each value to the next; a fall is a new beginning from 0."""
    alike = answer.group[1:] == answer.group[:-1]
    values = _numbers(answer.values).astype("<f8")
    rises = np.diff(values)
    rises = np.where(rises < 0, values[1:], rises)[alike]
    later = np.flatnonzero(alike) + 1
    spans = answer.at[later] - answer.at[later - 1]
    return answer.replace(
        group=answer.group[later], at=answer.at[later], values=rises * (per_ns / spans)
    )


def where(answer: Answer, comparison: str, number: float) -> Answer:
    """The values that compare so."""
    return answer.replace(chosen=_COMPARISONS[comparison](answer.values, number))


def math(answer: Answer, postfix: Sequence[str | float]) -> Answer:
    """Every value through an expression; what becomes no finite number is left out."""
    values = _numbers(answer.values).astype("<f8")
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
    (found,) = stack
    found = np.broadcast_to(found, values.shape)
    return answer.replace(values=found.copy()).replace(chosen=np.isfinite(found))


def rounded(answer: Answer, how: str, digits: float | None) -> Answer:
    """abs, ceil, floor or round."""
    values = _numbers(answer.values)
    if how == "round":
        if digits is not None and digits != int(digits):
            raise Invalid("round takes a whole number of digits")
        return answer.replace(values=np.round(values, int(digits or 0)))
    return answer.replace(values={"abs": np.abs, "ceil": np.ceil, "floor": np.floor}[how](values))


def top(answer: Answer, count: float, *, lowest: bool) -> Answer:
    """The groups with the highest or the lowest average; of equal ones the first by tags."""
    if not len(answer):
        return answer
    wanted = whole(count)
    sizes = np.bincount(answer.group, minlength=len(answer.groups))
    totals = np.bincount(answer.group, weights=answer.values, minlength=len(answer.groups))
    there = np.flatnonzero(sizes)
    averages = totals[there] / sizes[there]
    order = np.argsort(averages if lowest else -averages, kind="stable")
    return answer.replace(chosen=np.isin(answer.group, there[order[:wanted]]))


def whole(count: float) -> int:
    if count != int(count):
        raise Invalid(f"{count:g} is not a whole number")
    return int(count)


def _numbers(values: Values) -> Values:
    """To calculate with: booleans are 0 and 1."""
    return values.astype("<i8") if values.dtype.kind == "b" else values


def _regrouped(answer: Answer, by: Sequence[str]) -> tuple[Sequence[dict[str, str]], Groups]:
    numbers = np.arange(len(answer.groups))
    if by == EACH:
        return answer.groups, Groups(numbers, numbers, numbers)
    keys = [tuple(tags.get(tag, "") for tag in by) for tags in answer.groups]
    known = {key: place for place, key in enumerate(sorted(set(keys)))}
    named = [dict(zip(by, key, strict=True)) for key in known]
    return named, Groups(numbers, np.array([known[key] for key in keys], dtype="<i8"), numbers)
