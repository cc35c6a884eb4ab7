"""Points -> one value for each group and window. Pure; definitions are in aggregates.py.

First the points of every series are aggregated by window to *sums*; a block that was not read is a
sum already. Then the sums of a group are combined. Percentile and rate, which need the points
themselves, are computed separately.

A window is a number: at // width, so windows start at multiples of the width since 1970. Without a
width there is one window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import AggregateFunction
from strandline.views.metrics.storage.block import FieldPoints, joined
from strandline.views.metrics.storage.block_index import Entries
from strandline.views.metrics.storage.overlap import Mask
from strandline.views.metrics.storage.point_reader import PointsPart
from strandline.views.metrics.value_types import Ints, ValueKind, Values, numbers

WHOLE = 1 << 62
"""A width with all times in a few windows."""

_HALF = 32
_LOW = (1 << _HALF) - 1
_PARTITION_SIZE = 128
"""Above so many points per window, selecting a rank is faster than sorting all points."""
_REDUCES = {"min": np.minimum, "max": np.maximum, "sum": np.add}


class SeriesGroups(NamedTuple):
    """The group of each series; both are in the order of tags."""

    series: Ints
    """In the order of their numbers."""
    group: Ints
    rank: Ints | None = None
    """The rank of each series in the order of tags; None if it is not needed."""

    def of(self, series: Ints) -> Ints:
        return self.group[self.series.searchsorted(series)]

    def ranks(self, series: Ints) -> Ints:
        return series if self.rank is None else self.rank[self.series.searchsorted(series)]


class Outcome(NamedTuple):
    """One value for each group and window, in their order."""

    group: Ints
    at: Ints
    values: Values
    unfit: int = 0
    """The number of sums that were left out because they do not fit into an int64."""

    def checked(self) -> Outcome:
        """The outcome itself; raises Invalid if sums were left out."""
        if self.unfit:
            raise Invalid("a sum does not fit into an int64: use avg, or shorter windows")
        return self


class _Sums(NamedTuple):
    """The aggregated points of one series in one window."""

    series: Ints
    window: Ints
    size: Ints
    first_at: Ints
    last_at: Ints
    value: Values
    """The requested value: minimum, maximum, first, last, or sum."""
    rest: Ints
    """The lower half of a sum of integers; ``value`` is the upper half, so none overflows."""


def outcome(
    parts: Iterable[PointsPart],
    kind: ValueKind,
    aggregate: AggregateFunction,
    groups: SeriesGroups,
    width: int | None,
) -> Outcome:
    """The aggregate of every group and window that has points."""
    with np.errstate(over="ignore", invalid="ignore"):  # a sum of floats may become infinite
        return _outcome(parts, kind, aggregate, groups, width)


def _outcome(
    parts: Iterable[PointsPart],
    kind: ValueKind,
    aggregate: AggregateFunction,
    groups: SeriesGroups,
    width: int | None,
) -> Outcome:
    if aggregate.name == "percentile":
        points = joined([part.points for part in parts])
        return _percentiles(points, kind, aggregate.percent, groups, width)
    if aggregate.name == "rate":
        points = joined([part.points for part in parts])
        return _rates(points, kind, aggregate.per_ns, groups, width)
    name = "sum" if aggregate.name == "avg" else aggregate.name
    sums = [each for part in parts for each in _sums_of(part, kind, name, width)]
    if not sums:
        empty = np.empty(0, dtype="<i8")
        return Outcome(empty, empty, empty)
    joined_sums = _Sums(*map(np.concatenate, zip(*sums, strict=True)))
    return _combine(joined_sums, kind, aggregate.name, groups, width)


def _sums_of(part: PointsPart, kind: ValueKind, name: str, width: int | None) -> list[_Sums]:
    sums = []
    if len(part.points.at):
        sums.append(_sums_of_points(part.points, kind, name, width))
    if len(part.blocks):
        sums.append(_sums_of_blocks(part.blocks, kind, name, width))
    return sums


def _sums_of_points(points: FieldPoints, kind: ValueKind, name: str, width: int | None) -> _Sums:
    values, window = numbers(points.bits, kind), _windows(points.at, width)
    starts = np.flatnonzero(_changes(points.series, window))
    ends = np.append(starts[1:], len(values)) - 1
    rest = np.zeros(len(starts), dtype="<i8")
    if name == "sum" and kind is not ValueKind.FLOAT:
        value: Values = np.add.reduceat(values >> _HALF, starts)
        rest = np.add.reduceat(values & _LOW, starts)
    elif name in _REDUCES:
        value = _REDUCES[name].reduceat(values, starts)
    else:
        value = values[ends if name == "last" else starts]
    return _Sums(
        series=points.series[starts],
        window=window[starts],
        size=ends + 1 - starts,
        first_at=points.at[starts],
        last_at=points.at[ends],
        value=value,
        rest=rest,
    )


def _sums_of_blocks(blocks: Entries, kind: ValueKind, name: str, width: int | None) -> _Sums:
    column = {"min": "low", "max": "high", "sum": "total", "last": "last"}.get(name, "first")
    value = numbers(blocks[column].copy(), kind)
    rest = np.zeros(len(blocks), dtype="<i8")
    if name == "sum" and kind is not ValueKind.FLOAT:
        value, rest = value >> _HALF, value & _LOW
    return _Sums(
        series=blocks["series"].astype("<i8"),
        window=_windows(blocks["min_at"], width),
        size=blocks["count"].astype("<i8"),
        first_at=blocks["min_at"].astype("<i8"),
        last_at=blocks["max_at"].astype("<i8"),
        value=value,
        rest=rest,
    )


def _combine(
    sums: _Sums, kind: ValueKind, name: str, groups: SeriesGroups, width: int | None
) -> Outcome:
    """Combine the sums of each group and window."""
    group = groups.of(sums.series)
    order_at = sums.last_at if name == "last" else sums.first_at
    order = np.lexsort((groups.ranks(sums.series), order_at, sums.window, group))
    group, window, value = group[order], sums.window[order], sums.value[order]
    starts = np.flatnonzero(_changes(group, window))
    group = group[starts]
    at = _times(np.minimum.reduceat(sums.first_at[order], starts), window[starts], width)
    if name == "first":
        return Outcome(group, at, value[starts])
    if name == "last":
        return Outcome(group, at, value[np.append(starts[1:], len(value)) - 1])
    if name in ("min", "max"):
        return Outcome(group, at, _REDUCES[name].reduceat(value, starts))
    count = np.add.reduceat(sums.size[order], starts)
    if name == "count":
        return Outcome(group, at, count)
    total, rest = np.add.reduceat(value, starts), np.add.reduceat(sums.rest[order], starts)
    if name == "avg":
        return Outcome(group, at, _as_floats(total, rest, kind) / count)
    return _join_halves(Outcome(group, at, total), rest, kind)


def _percentiles(
    points: FieldPoints, kind: ValueKind, percent: float, groups: SeriesGroups, width: int | None
) -> Outcome:
    values, window = numbers(points.bits, kind), _windows(points.at, width)
    group = groups.of(points.series)
    order = np.lexsort((window, group))
    group, window, values = group[order], window[order], values[order].astype("<f8")
    starts = np.flatnonzero(_changes(group, window))
    sizes = np.diff(np.append(starts, len(values)))
    rank = (sizes - 1) * (percent / 100)
    low = starts + np.floor(rank).astype("<i8")
    share = rank - np.floor(rank)
    high = low + (share > 0)
    if len(values) > _PARTITION_SIZE * len(starts):
        for first, size, *ranks in zip(
            *(c.tolist() for c in (starts, sizes, low, high)), strict=True
        ):
            values[first : first + size].partition([position - first for position in ranks])
    else:
        values = values[np.lexsort((values, window, group))]
    first_at = np.minimum.reduceat(points.at[order], starts) if len(starts) else points.at
    at = _times(first_at, window[starts], width)
    return Outcome(group[starts], at, values[low] + (values[high] - values[low]) * share)


def _rates(
    points: FieldPoints, kind: ValueKind, per_ns: int, groups: SeriesGroups, width: int | None
) -> Outcome:
    """Rates of each series, then their sum for each group."""
    values, window = numbers(points.bits, kind).astype("<f8"), _windows(points.at, width)
    if not len(values):
        return Outcome(points.series, points.at, values)
    starts = np.flatnonzero(_changes(points.series, window))
    rises = np.append(0.0, _rises(values))
    rises[starts] = 0.0
    ends = np.append(starts[1:], len(values)) - 1
    spans = points.at[ends] - points.at[starts]
    several = spans > 0
    starts, spans = starts[several], spans[several]
    rate = np.add.reduceat(rises, np.flatnonzero(_changes(points.series, window)))[several]
    rate = rate * (per_ns / spans)
    series, window = points.series[starts], window[starts]
    group = groups.of(series)
    order = np.lexsort((groups.ranks(series), window, group))
    firsts = np.flatnonzero(_changes(group[order], window[order]))
    if not len(firsts):
        return Outcome(group, window, rate)
    at = np.minimum.reduceat(points.at[starts][order], firsts)
    return Outcome(
        group[order][firsts],
        _times(at, window[order][firsts], width),
        np.add.reduceat(rate[order], firsts),
    )


def _rises(values: Values) -> Values:
    """The increases from each value to the next; a fall is a restarted counter."""
    rises = np.diff(values)
    return np.where(rises < 0, values[1:], rises)


def _windows(at: Ints, width: int | None) -> Ints:
    return np.zeros(len(at), dtype="<i8") if width is None else at // width


def _times(first_at: Ints, window: Ints, width: int | None) -> Ints:
    """The time of an outcome: the start of its window; without windows its first point."""
    return first_at if width is None else window * width


def _changes(one: Ints, other: Ints) -> Mask:
    """The rows in which one of two columns changes; the first row is always one."""
    changed = np.ones(len(one), dtype=bool)
    changed[1:] = (one[1:] != one[:-1]) | (other[1:] != other[:-1])
    return changed


def _join_halves(sums: Outcome, rest: Ints, kind: ValueKind) -> Outcome:
    """The sums of integers from their halves, if they fit."""
    if kind is ValueKind.FLOAT:
        return sums
    high = sums.values + (rest >> _HALF)
    fits = (high < 1 << (_HALF - 1)) & (high >= -(1 << (_HALF - 1)))
    values = (high[fits] << _HALF) | (rest[fits] & _LOW)
    return Outcome(sums.group[fits], sums.at[fits], values, len(fits) - int(fits.sum()))


def _as_floats(total: Values, rest: Ints, kind: ValueKind) -> Values:
    return total if kind is ValueKind.FLOAT else total * float(1 << _HALF) + rest
