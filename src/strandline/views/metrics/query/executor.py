"""Runs a query: the first stages as one question to the fold, the others on its answer.

What may follow what:

- ``field`` comes first;
- ``window`` and ``group_by`` come right before an aggregate, and are for that one only;
- ``rate`` behind ``window`` or with ``by`` is an aggregate, else it goes from value to value.

When nothing but these comes before the first aggregate, the fold adds up what it can without
reading every point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import SECOND_NS, Aggregate
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.query import field_query, stages
from strandline.views.metrics.query.field_query import Question, first_of_each
from strandline.views.metrics.query.parser import Query, Stage, aggregate_of, parse, pointing
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, INT64_MIN

Step = Callable[[Answer], Answer]


class Plan(NamedTuple):
    """A query that can be run."""

    question: Question
    first: _Aggregation | None
    """The aggregate that the fold makes itself."""
    steps: list[Step]


class _Aggregation(NamedTuple):
    how: Aggregate
    width: int | None
    by: Any


class _Pending(NamedTuple):
    """What the next aggregate is told beforehand."""

    width: int | None = None
    by: Any = None
    stage: Stage | None = None


def plan(text: str, now_ns: int) -> Plan:
    """What a text asks for; Invalid, with its place, when it cannot be done."""
    query = parse(text)
    rest = list(query.stages)
    field = None
    if rest and rest[0].name == "field":
        field = rest.pop(0).arguments[0]
    question = _question(query, field, now_ns)
    first, steps, pending = None, list[Step](), _Pending()
    for stage in rest:
        with _at(text, stage):
            found = _aggregation(stage, pending)
            if found is not None and not steps and first is None:
                first = found
            elif found is not None:
                steps.append(_again(found))
            if found is not None:
                pending = _Pending()
            elif stage.name in ("window", "group_by"):
                pending = _told(stage, pending)
            else:
                _check_nothing_pends(pending)
                steps.append(_step(stage))
    if pending.stage is not None:
        with _at(text, pending.stage):
            _check_nothing_pends(pending)
    return Plan(question, first, steps)


def ask(fold: MetricsFold, planned: Plan) -> Answer:
    """The part that needs the fold."""
    if planned.first is None:
        return field_query.points(fold, planned.question)
    how, width, by = planned.first
    (answer,) = field_query.aggregated(fold, planned.question, [how], width=width, by=by or ())
    return answer


def finish(answer: Answer, planned: Plan) -> Answer:
    """The part that does not."""
    with np.errstate(over="ignore", invalid="ignore"):
        for step in planned.steps:
            answer = step(answer)
    return answer


def _question(query: Query, field: str | None, now_ns: int) -> Question:
    first, following = AT_MIN, INT64_MAX
    if query.range is not None:
        first = query.range.first.resolved(now_ns)
        end = query.range.next
        following = now_ns + 1 if end is None else end.resolved(now_ns)
    bounds = (max(INT64_MIN, min(INT64_MAX, bound)) for bound in (first, following))
    return Question(query.measurement, field, query.matchers, *bounds)


def _aggregation(stage: Stage, pending: _Pending) -> _Aggregation | None:
    found = aggregate_of(stage)
    if found is None:
        return None
    how, by = found
    if how.name == "rate" and by is None and pending.stage is None:
        return None
    if by is not None and pending.by is not None:
        raise Invalid("group_by and by are the same: use one of them")
    return _Aggregation(how, pending.width, pending.by if by is None else by)


def _told(stage: Stage, pending: _Pending) -> _Pending:
    (argument,) = stage.arguments
    if stage.name == "window":
        if pending.width is not None:
            raise Invalid("there is a window already: an aggregate must come first")
        return pending._replace(width=argument, stage=stage)
    if pending.by is not None:
        raise Invalid("there is a group_by already: an aggregate must come first")
    return pending._replace(by=argument, stage=stage)


def _check_nothing_pends(pending: _Pending) -> None:
    if pending.stage is not None:
        raise Invalid(f"{pending.stage.name} must be followed by an aggregate, such as avg")


def _again(found: _Aggregation) -> Step:
    return lambda answer: stages.aggregate(answer, found.how, width=found.width, by=found.by)


def _step(stage: Stage) -> Step:
    name, arguments = stage.name, stage.arguments
    if name == "rate":
        return lambda answer: stages.rate(answer, arguments[0] or SECOND_NS)
    if name == "delta":
        return stages.delta
    if name == "where":
        return lambda answer: stages.where(answer, *arguments)
    if name == "math":
        return lambda answer: stages.math(answer, arguments[0])
    if name in ("abs", "ceil", "floor", "round"):
        digits = arguments[0] if arguments else None
        return lambda answer: stages.rounded(answer, name, digits)
    if name in ("topk", "bottomk"):
        count = stages.whole(arguments[0])
        return lambda answer: stages.top(answer, count, lowest=name == "bottomk")
    if name == "limit":
        count = stages.whole(arguments[0])
        return lambda answer: first_of_each(answer, count)
    if name == "alias":
        return lambda answer: answer.replace(name=arguments[0])
    raise Invalid("field comes before all other stages")


@contextmanager
def _at(text: str, stage: Stage) -> Iterator[None]:
    """Errors point to the stage."""
    try:
        yield
    except Invalid as error:
        raise pointing(text, stage.place, str(error)) from error
