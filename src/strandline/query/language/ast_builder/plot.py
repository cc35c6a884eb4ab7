"""Builds PLOT. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from strandline.query.language.ast import Metric, Plot
from strandline.query.language.ast_builder.clauses import Clause, unique_clauses
from strandline.query.language.ast_builder.tokens import TokenError, at_of, whole_number


def metric(parts: list[Any]) -> Metric:
    (aggregate, _), _, event, *rest = parts
    return Metric(aggregate=aggregate, event=event, then=rest[-1])


def filter_(parts: list[Any]) -> Clause:
    return Clause("filter", at_of(parts[0]), parts[1].condition)


def versus(parts: list[Any]) -> Metric:
    other: Metric = parts[1]
    return other


def breakdown(parts: list[Any]) -> Clause:
    word, _, *fields = parts
    return Clause("breakdown", at_of(word), tuple(fields))


def over(parts: list[Any]) -> Clause:
    word, period, field = parts
    return Clause("over", at_of(word), (period.upper(), field))


def top(parts: list[Any]) -> Clause:
    word, number, _, field = parts
    return Clause("top", at_of(word), (whole_number(number, "TOP", least=1), field))


def plot(parts: list[Any]) -> Plot:
    _, *inside = parts
    metrics: list[Metric] = []
    rest: list[Clause] = []
    for part in inside:
        if isinstance(part, Metric):
            metrics.append(part)
        elif part.name == "filter":
            metrics[-1] = _with_filter(metrics[-1], part)
        else:
            rest.append(part)
    clauses = unique_clauses(rest)
    period, field = clauses.get("over", (None, None))
    count, by = clauses.get("top", (None, None))
    return Plot(
        metrics=tuple(metrics),
        breakdown=clauses.get("breakdown", ()),
        over=period,
        over_field=field,
        top=count,
        top_by=by,
    )


def _with_filter(line: Metric, clause: Clause) -> Metric:
    """FILTER applies to the metric before it."""
    if line.where is not None:
        raise TokenError(clause.at, "FILTER is given twice", "join conditions by AND")
    return msgspec.structs.replace(line, where=clause.value)


RULES = (metric, filter_, versus, breakdown, over, top, plot)
