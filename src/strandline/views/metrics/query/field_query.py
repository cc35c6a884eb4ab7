"""Queries of one field: its points, or aggregates of them.

Points are read from the fold under the lock of its host; later stages run without the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from strandline.errors import Invalid, NotFound
from strandline.views.metrics.aggregates import AggregateFunction
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.query.result import MetricsResult
from strandline.views.metrics.query.windows import WHOLE, SeriesGroups, outcome
from strandline.views.metrics.storage.block import joined
from strandline.views.metrics.storage.catalog import Field, Measurement
from strandline.views.metrics.storage.point_reader import PointRange, PointsPart, no_entries
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, Ints, from_bits

EACH = "*"
"""In place of tags: each series is a group."""


class FieldSelection(NamedTuple):
    """The selection of points of a query."""

    measurement: str
    field: str | None = None
    """None: the only field, or the one named value."""
    matchers: tuple[Matcher, ...] = ()
    first: int = AT_MIN
    next: int = INT64_MAX
    """Exclusive."""


class _Target(NamedTuple):
    measurement: Measurement
    field: Field
    stretch: PointRange


def points(fold: MetricsFold, selection: FieldSelection, limit: int | None = None) -> MetricsResult:
    """The points by series; at most ``limit`` first points of each."""
    target = _find(fold, selection)
    read = joined(list(fold.reader.series(target.stretch)))
    groups, rank = _each(target.measurement, target.stretch.series)
    group = rank[target.stretch.series.searchsorted(read.series)]
    order = np.argsort(group, kind="stable")
    values = from_bits(read.bits[order], target.field.kind)
    result = MetricsResult(target.field.name, groups, group[order], read.at[order], values)
    return result if limit is None else first_of_each(result, limit)


def aggregate_field(
    fold: MetricsFold,
    selection: FieldSelection,
    aggregates: Sequence[AggregateFunction],
    *,
    width: int | None,
    by: Sequence[str],
    unfit: Literal["refused", "left out"] = "refused",
) -> list[MetricsResult]:
    """The result of each aggregate. ``unfit`` decides about integer sums that do not fit."""
    target = _find(fold, selection)
    parts = _parts(fold, target.stretch, aggregates, width)
    named, groups = _grouped(target, by, ranked=any(each.is_by_time for each in aggregates))
    results = []
    for each in aggregates:
        aggregate = outcome(parts, target.field.kind, each, groups, width)
        if unfit == "refused":
            aggregate.checked()
        name = f"{target.field.name}_{each.label}"
        results.append(MetricsResult(name, named, aggregate.group, aggregate.at, aggregate.values))
    return results


def first_of_each(result: MetricsResult, limit: int) -> MetricsResult:
    """The first values of each group."""
    starts = result.group.searchsorted(result.group)
    return result.replace(chosen=np.arange(len(result)) - starts < limit)


def last_of_each(result: MetricsResult, limit: int) -> MetricsResult:
    ends = result.group.searchsorted(result.group, side="right")
    return result.replace(chosen=ends - np.arange(len(result)) <= limit)


def find_field(measurement: Measurement, name: str | None) -> Field:
    """The field of this name; without a name, the only field, or the one named value."""
    fields = measurement.fields
    if name is None:
        name = next(iter(fields)) if len(fields) == 1 else "value"
    field = fields.get(name)
    if field is None:
        known = ", ".join(sorted(fields))
        raise NotFound(f"{measurement.name!r} has no field {name!r}: it has {known}")
    return field


def _find(fold: MetricsFold, selection: FieldSelection) -> _Target:
    measurement = fold.catalogue.find(selection.measurement)
    if measurement is None or not measurement.fields:
        known = ", ".join(each.name for each in islice(fold.catalogue.sorted(), 10))
        raise NotFound(
            f"there is no measurement {selection.measurement!r}: there are {known or 'none'}"
        )
    field = find_field(measurement, selection.field)
    if selection.first > selection.next:
        raise Invalid(f"the range ends before it begins: {selection.first}..{selection.next}")
    series = measurement.series.match(selection.matchers)
    first = max(selection.first, measurement.floor)
    return _Target(measurement, field, PointRange(field.number, series, first, selection.next))


def _parts(
    fold: MetricsFold,
    stretch: PointRange,
    aggregates: Sequence[AggregateFunction],
    width: int | None,
) -> list[PointsPart]:
    if any(each.name == "rate" for each in aggregates):
        return [PointsPart(points, no_entries()) for points in fold.reader.series(stretch)]
    reads_all = any(each.name == "percentile" for each in aggregates)
    return list(fold.reader.parts(stretch, None if reads_all else width or WHOLE))


def _grouped(
    target: _Target, by: Sequence[str], *, ranked: bool
) -> tuple[Sequence[dict[str, str]], SeriesGroups]:
    series = target.stretch.series
    table = target.measurement.series
    if by == EACH:
        named, group = _each(target.measurement, series)
        return named, SeriesGroups(series, group, group)
    named, group = table.groups(series, by)
    return named, SeriesGroups(series, group, table.ranks(series) if ranked else None)


def _each(measurement: Measurement, series: Ints) -> tuple[list[dict[str, str]], Ints]:
    """A group for every series, in the order of tags, and the index of each."""
    packed = measurement.series.packed_many(series)
    order = sorted(range(len(packed)), key=packed.__getitem__)
    ranks = np.empty(len(packed), dtype="<i8")
    ranks[order] = np.arange(len(packed))
    return [tags_of(packed[number]) for number in order], ranks
