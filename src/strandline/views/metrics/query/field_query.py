"""Questions about one field: its points, or what they come to.

The fold is asked under its host's lock, for the points; what is made of them is made without.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from strandline.errors import Invalid, NotFound
from strandline.views.metrics.aggregates import Aggregate
from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.names import tags_of
from strandline.views.metrics.query.result import Answer
from strandline.views.metrics.query.windows import WHOLE, Groups, outcome
from strandline.views.metrics.storage.block import joined
from strandline.views.metrics.storage.catalog import Field, Measurement
from strandline.views.metrics.storage.point_reader import Part, Stretch, no_entries
from strandline.views.metrics.storage.series_index import Matcher
from strandline.views.metrics.value_types import AT_MIN, INT64_MAX, Ints, from_bits

EACH = "*"
"""Groups of one series each."""


class Question(NamedTuple):
    """Which points are meant."""

    measurement: str
    field: str | None = None
    """None: the only one, or the one named value."""
    matchers: tuple[Matcher, ...] = ()
    first: int = AT_MIN
    next: int = INT64_MAX
    """Exclusive."""


class _Found(NamedTuple):
    measurement: Measurement
    field: Field
    stretch: Stretch


def points(fold: MetricsFold, question: Question, limit: int | None = None) -> Answer:
    """The points themselves, series by series; of each the first ones up to the limit."""
    found = _find(fold, question)
    read = joined(list(fold.reader.series(found.stretch)))
    groups, group = _each(found.measurement, found.stretch.series)
    place = group[found.stretch.series.searchsorted(read.series)]
    order = np.argsort(place, kind="stable")
    values = from_bits(read.bits[order], found.field.kind)
    answer = Answer(found.field.name, groups, place[order], read.at[order], values)
    return answer if limit is None else first_of_each(answer, limit)


def aggregated(
    fold: MetricsFold,
    question: Question,
    aggregates: Sequence[Aggregate],
    *,
    width: int | None,
    by: Sequence[str],
    unfit: Literal["refused", "left out"] = "refused",
) -> list[Answer]:
    """What the points come to, for each aggregate. A sum of integers may not fit into one."""
    found = _find(fold, question)
    parts = _parts(fold, found.stretch, aggregates, width)
    named, groups = _grouped(found, by, ranked=any(each.is_by_time for each in aggregates))
    answers = []
    for each in aggregates:
        made = outcome(parts, found.field.kind, each, groups, width)
        if unfit == "refused":
            made.checked()
        name = f"{found.field.name}_{each.label}"
        answers.append(Answer(name, named, made.group, made.at, made.values))
    return answers


def first_of_each(answer: Answer, limit: int) -> Answer:
    """The first values of each group."""
    starts = answer.group.searchsorted(answer.group)
    return answer.replace(chosen=np.arange(len(answer)) - starts < limit)


def last_of_each(answer: Answer, limit: int) -> Answer:
    ends = answer.group.searchsorted(answer.group, side="right")
    return answer.replace(chosen=ends - np.arange(len(answer)) <= limit)


def the_field(measurement: Measurement, name: str | None) -> Field:
    """The field of this name; without one the only one, or the one named value."""
    fields = measurement.fields
    if name is None:
        name = next(iter(fields)) if len(fields) == 1 else "value"
    found = fields.get(name)
    if found is None:
        known = ", ".join(sorted(fields))
        raise NotFound(f"{measurement.name!r} has no field {name!r}: it has {known}")
    return found


def _find(fold: MetricsFold, question: Question) -> _Found:
    measurement = fold.catalogue.find(question.measurement)
    if measurement is None or not measurement.fields:
        known = ", ".join(each.name for each in islice(fold.catalogue.sorted(), 10))
        raise NotFound(
            f"there is no measurement {question.measurement!r}: there are {known or 'none'}"
        )
    field = the_field(measurement, question.field)
    if question.first > question.next:
        raise Invalid(f"the range ends before it begins: {question.first}..{question.next}")
    series = measurement.series.match(question.matchers)
    first = max(question.first, measurement.floor)
    return _Found(measurement, field, Stretch(field.number, series, first, question.next))


def _parts(
    fold: MetricsFold, stretch: Stretch, aggregates: Sequence[Aggregate], width: int | None
) -> list[Part]:
    if any(each.name == "rate" for each in aggregates):
        return [Part(points, no_entries()) for points in fold.reader.series(stretch)]
    reads_all = any(each.name == "percentile" for each in aggregates)
    return list(fold.reader.pieces(stretch, None if reads_all else width or WHOLE))


def _grouped(
    found: _Found, by: Sequence[str], *, ranked: bool
) -> tuple[Sequence[dict[str, str]], Groups]:
    series = found.stretch.series
    table = found.measurement.series
    if by == EACH:
        named, group = _each(found.measurement, series)
        return named, Groups(series, group, group)
    named, group = table.groups(series, by)
    return named, Groups(series, group, table.ranks(series) if ranked else None)


def _each(measurement: Measurement, series: Ints) -> tuple[list[dict[str, str]], Ints]:
    """Every series its own group, in the order of tags; and the place of each."""
    packed = measurement.series.packed_many(series)
    order = sorted(range(len(packed)), key=packed.__getitem__)
    ranks = np.empty(len(packed), dtype="<i8")
    ranks[order] = np.arange(len(packed))
    return [tags_of(packed[place]) for place in order], ranks
