"""Runs a query: the first stages as a query of one field, the others on its result.

Valid orders of stages:

- ``field`` is the first stage;
- ``window`` and ``group_by`` are directly before an aggregate, and apply only to it;
- ``rate`` after ``window`` or with ``by`` is an aggregate, else it is computed from value to value.

If only these are before the first aggregate, the fold aggregates without reading every point where
possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import SECOND_NS, AggregateFunction
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.query import field_query, stages
from strandline.views.metrics.query.field_query import FieldSelection, first_of_each
from strandline.views.metrics.query.parser import MetricsQuery, Stage, aggregate_of, error_at, parse
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN

Step = Callable[[MetricsResult], MetricsResult]


class MetricsPlan(NamedTuple):
    """A query that can be run."""

    selection: FieldSelection
    first: _Aggregation | None
    """The aggregate that is computed while points are read."""
    steps: list[Step]


class _Aggregation(NamedTuple):
    function: AggregateFunction
    width: int | None
    by: Any


class _Pending(NamedTuple):
    """The parameters for the next aggregate."""

    width: int | None = None
    by: Any = None
    stage: Stage | None = None


def plan(text: str, now_ns: int) -> MetricsPlan:
    """The plan of a query; raises Invalid, with its position, if it is not valid."""
    query = parse(text)
    rest = list(query.stages)
    field = None
    if rest and rest[0].name == "field":
        field = rest.pop(0).arguments[0]
    selection = _select(query, field, now_ns)
    first, steps, pending = None, list[Step](), _Pending()
    for stage in rest:
        with _at(text, stage):
            aggregation = _aggregation(stage, pending)
            if aggregation is not None and not steps and first is None:
                first = aggregation
            elif aggregation is not None:
                steps.append(_aggregate_step(aggregation))
            if aggregation is not None:
                pending = _Pending()
            elif stage.name in ("window", "group_by"):
                pending = _with_parameter(stage, pending)
            else:
                _check_nothing_pending(pending)
                steps.append(_step(stage))
    if pending.stage is not None:
        with _at(text, pending.stage):
            _check_nothing_pending(pending)
    return MetricsPlan(selection, first, steps)


def read_fold(fold: MetricsFold, planned: MetricsPlan) -> MetricsResult:
    """The part of a query that reads the fold."""
    if planned.first is None:
        return field_query.points(fold, planned.selection)
    function, width, by = planned.first
    (result,) = field_query.aggregate_field(
        fold, planned.selection, [function], width=width, by=by or ()
    )
    return result


def apply_steps(result: MetricsResult, planned: MetricsPlan) -> MetricsResult:
    """The part of a query after the fold was read."""
    with np.errstate(over="ignore", invalid="ignore"):
        for step in planned.steps:
            result = step(result)
    return result


def _select(query: MetricsQuery, field: str | None, now_ns: int) -> FieldSelection:
    first, until = AT_MIN, INT64_MAX
    if query.range is not None:
        first = query.range.first.resolved(now_ns)
        end = query.range.next
        until = now_ns + 1 if end is None else end.resolved(now_ns)
    bounds = (max(INT64_MIN, min(INT64_MAX, bound)) for bound in (first, until))
    return FieldSelection(query.measurement, field, query.matchers, *bounds)


def _aggregation(stage: Stage, pending: _Pending) -> _Aggregation | None:
    parsed = aggregate_of(stage)
    if parsed is None:
        return None
    function, by = parsed
    if function.name == "rate" and by is None and pending.stage is None:
        return None
    if by is not None and pending.by is not None:
        raise Invalid("group_by and by are the same: use one of them")
    return _Aggregation(function, pending.width, pending.by if by is None else by)


def _with_parameter(stage: Stage, pending: _Pending) -> _Pending:
    (argument,) = stage.arguments
    if stage.name == "window":
        if pending.width is not None:
            raise Invalid("there is a window already: add an aggregate before the next one")
        return pending._replace(width=argument, stage=stage)
    if pending.by is not None:
        raise Invalid("there is a group_by already: add an aggregate before the next one")
    return pending._replace(by=argument, stage=stage)


def _check_nothing_pending(pending: _Pending) -> None:
    if pending.stage is not None:
        raise Invalid(f"{pending.stage.name} must be followed by an aggregate, such as avg")


def _aggregate_step(one: _Aggregation) -> Step:
    return lambda result: stages.aggregate(result, one.function, width=one.width, by=one.by)


def _step(stage: Stage) -> Step:
    name, arguments = stage.name, stage.arguments
    if name == "rate":
        return lambda result: stages.rate(result, arguments[0] or SECOND_NS)
    if name == "delta":
        return stages.delta
    if name == "where":
        return lambda result: stages.where(result, *arguments)
    if name == "math":
        return lambda result: stages.math(result, arguments[0])
    if name in ("abs", "ceil", "floor", "round"):
        digits = arguments[0] if arguments else None
        return lambda result: stages.rounded(result, name, digits)
    if name in ("topk", "bottomk"):
        count = stages.whole(arguments[0])
        return lambda result: stages.top(result, count, lowest=name == "bottomk")
    if name == "limit":
        count = stages.whole(arguments[0])
        return lambda result: first_of_each(result, count)
    if name == "alias":
        return lambda result: result.replace(name=arguments[0])
    raise Invalid("field comes before all other stages")


@contextmanager
def _at(text: str, stage: Stage) -> Iterator[None]:
    """Add the position of the stage to errors."""
    try:
        yield
    except Invalid as error:
        raise error_at(text, stage.offset, str(error)) from error
