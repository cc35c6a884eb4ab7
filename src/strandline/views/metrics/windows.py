"""Points -> one value for each group and window. Pure; definitions are in aggregates.py.

First the points of every series are added up window by window, which are *sums*; a block that was
not read is a sum already. Then the sums of a group are put together. What needs the points
themselves, percentile and rate, has its own way.

A window is a number: at // width, so windows begin at multiples of the width since 1970.
Without a width there is one window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import Aggregate
from strandline.views.metrics.block import Points, joined
from strandline.views.metrics.index import Entries
from strandline.views.metrics.kinds import Ints, Kind, Values, numbers
from strandline.views.metrics.overlap import Mask
from strandline.views.metrics.reading import Part

_HALF = 32
_LOW = (1 << _HALF) - 1


class Groups(NamedTuple):
    """Which group each series is of; both are in the order of tags."""

    series: Ints
    """In order of their numbers."""
    group: Ints
    rank: Ints
    """The place of each series in the order of their tags."""

    def of(self, series: Ints) -> Ints:
        return self.group[self.series.searchsorted(series)]

    def ranks(self, series: Ints) -> Ints:
        return self.rank[self.series.searchsorted(series)]


class Outcome(NamedTuple):
    """One value for each group and window, in their order."""

    group: Ints
    at: Ints
    values: Values
    unfit: int = 0
    """Sums that are left out: they do not fit into an int64."""

    def checked(self) -> Outcome:
        """The outcome itself, if it is whole."""
        if self.unfit:
            raise Invalid("a sum does not fit into an int64: ask for avg, or for shorter windows")
        return self


class _Sums(NamedTuple):
    """What points of one series in one window come to."""

    series: Ints
    window: Ints
    size: Ints
    first_at: Ints
    last_at: Ints
    first: Values
    last: Values
    low: Values
    high: Values
    total: Values
    """Of integers the part above 32 bits; the rest is apart, so that no sum overflows."""
    rest: Ints


def outcome(
    parts: Iterable[Part], kind: Kind, aggregate: Aggregate, groups: Groups, width: int | None
) -> Outcome:
    """The aggregate of every group and window that has points."""
    with np.errstate(over="ignore", invalid="ignore"):  # a sum of floats may become infinite
        return _outcome(parts, kind, aggregate, groups, width)


def _outcome(
    parts: Iterable[Part], kind: Kind, aggregate: Aggregate, groups: Groups, width: int | None
) -> Outcome:
    if aggregate.name == "percentile":
        points = joined([part.points for part in parts])
        return _percentiles(points, kind, aggregate.percent, groups, width)
    if aggregate.name == "rate":
        points = joined([part.points for part in parts])
        return _rates(points, kind, aggregate.per_ns, groups, width)
    pieces = [sums for part in parts for sums in _sums_of(part, kind, width)]
    if not pieces:
        nothing = np.empty(0, dtype="<i8")
        return Outcome(nothing, nothing, nothing)
    together = _Sums(*map(np.concatenate, zip(*pieces, strict=True)))
    return _together(together, kind, aggregate, groups, width)


def usable_width(aggregate: Aggregate, width: int | None) -> int | None:
    """Whether blocks may stand for their points, and in windows of what width."""
    if aggregate.name in ("percentile", "rate"):
        return None
    return 1 << 62 if width is None else width


def _sums_of(part: Part, kind: Kind, width: int | None) -> list[_Sums]:
    found = []
    if len(part.points.at):
        found.append(_sums_of_points(part.points, kind, width))
    if len(part.blocks):
        found.append(_sums_of_blocks(part.blocks, kind, width))
    return found


def _sums_of_points(points: Points, kind: Kind, width: int | None) -> _Sums:
    values, window = numbers(points.bits, kind), _windows(points.at, width)
    starts = np.flatnonzero(_changes(points.series, window))
    ends = np.append(starts[1:], len(values)) - 1
    total, rest = _halves(values, kind)
    return _Sums(
        series=points.series[starts],
        window=window[starts],
        size=ends + 1 - starts,
        first_at=points.at[starts],
        last_at=points.at[ends],
        first=values[starts],
        last=values[ends],
        low=np.minimum.reduceat(values, starts),
        high=np.maximum.reduceat(values, starts),
        total=np.add.reduceat(total, starts),
        rest=np.add.reduceat(rest, starts) if len(rest) else np.zeros(len(starts), dtype="<i8"),
    )


def _sums_of_blocks(blocks: Entries, kind: Kind, width: int | None) -> _Sums:
    total, rest = _halves(numbers(blocks["total"].copy(), kind), kind)
    return _Sums(
        series=blocks["series"].astype("<i8"),
        window=_windows(blocks["min_at"], width),
        size=blocks["count"].astype("<i8"),
        first_at=blocks["min_at"].astype("<i8"),
        last_at=blocks["max_at"].astype("<i8"),
        first=numbers(blocks["first"].copy(), kind),
        last=numbers(blocks["last"].copy(), kind),
        low=numbers(blocks["low"].copy(), kind),
        high=numbers(blocks["high"].copy(), kind),
        total=total,
        rest=rest if len(rest) else np.zeros(len(blocks), dtype="<i8"),
    )


def _together(
    sums: _Sums, kind: Kind, aggregate: Aggregate, groups: Groups, width: int | None
) -> Outcome:
    group = groups.of(sums.series)
    order = np.lexsort((groups.ranks(sums.series), sums.first_at, sums.window, group))
    group, window = group[order], sums.window[order]
    starts = np.flatnonzero(_changes(group, window))
    at = _times(sums.first_at[order][starts], window[starts], width)
    name = aggregate.name
    if name == "first":
        values: Values = sums.first[order][starts]
    elif name == "last":
        values = _lasts(sums, groups)
    elif name in ("min", "max"):
        reduce = np.minimum if name == "min" else np.maximum
        values = reduce.reduceat((sums.low if name == "min" else sums.high)[order], starts)
    else:
        count = np.add.reduceat(sums.size[order], starts)
        total = np.add.reduceat(sums.total[order], starts)
        rest = np.add.reduceat(sums.rest[order], starts)
        if name == "count":
            values = count
        elif name == "avg":
            values = _as_floats(total, rest, kind) / count
        else:
            return _summed(Outcome(group[starts], at, total), rest, kind)
    return Outcome(group[starts], at, values)


def _lasts(sums: _Sums, groups: Groups) -> Values:
    group = groups.of(sums.series)
    order = np.lexsort((groups.ranks(sums.series), sums.last_at, sums.window, group))
    ends = np.flatnonzero(np.append(_changes(group[order], sums.window[order])[1:], True))
    return sums.last[order][ends]


def _percentiles(
    points: Points, kind: Kind, percent: float, groups: Groups, width: int | None
) -> Outcome:
    values, window = numbers(points.bits, kind), _windows(points.at, width)
    group = groups.of(points.series)
    first_at = _first_times(points.at, group, window)
    order = np.lexsort((values, window, group))
    values = values[order].astype("<f8")
    starts = np.flatnonzero(_changes(group[order], window[order]))
    rank = (np.diff(np.append(starts, len(values))) - 1) * (percent / 100)
    below = np.floor(rank)
    low = starts + below.astype("<i8")
    share = rank - below
    high = low + (share > 0)
    at = _times(first_at, window[order][starts], width)
    return Outcome(group[order][starts], at, values[low] + (values[high] - values[low]) * share)


def _rates(points: Points, kind: Kind, per_ns: int, groups: Groups, width: int | None) -> Outcome:
    """Each series by itself, then those of a group added up."""
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
    rate = rate / spans * per_ns
    series, window = points.series[starts], window[starts]
    group = groups.of(series)
    order = np.lexsort((groups.ranks(series), window, group))
    firsts = np.flatnonzero(_changes(group[order], window[order]))
    at = _first_times(points.at[starts], group, window)
    return Outcome(
        group[order][firsts],
        _times(at, window[order][firsts], width),
        np.add.reduceat(rate[order], firsts) if len(firsts) else rate,
    )


def _rises(values: Values) -> Values:
    """From each value to the next; a fall is a counter that began again."""
    rises = np.diff(values)
    return np.where(rises < 0, values[1:], rises)


def _windows(at: Ints, width: int | None) -> Ints:
    return np.zeros(len(at), dtype="<i8") if width is None else at // width


def _times(first_at: Ints, window: Ints, width: int | None) -> Ints:
    """When an outcome is: the beginning of its window, without windows its first point."""
    return first_at if width is None else window * width


def _first_times(at: Ints, group: Ints, window: Ints) -> Ints:
    order = np.lexsort((at, window, group))
    return at[order][np.flatnonzero(_changes(group[order], window[order]))]


def _changes(one: Ints, other: Ints) -> Mask:
    """Where one of two columns is not what it was before; the first row always."""
    changed = np.ones(len(one), dtype=bool)
    changed[1:] = (one[1:] != one[:-1]) | (other[1:] != other[:-1])
    return changed


def _halves(values: Values, kind: Kind) -> tuple[Values, Ints]:
    if kind is Kind.FLOAT:
        return values, np.empty(0, dtype="<i8")
    return values >> _HALF, values & _LOW


def _summed(found: Outcome, rest: Ints, kind: Kind) -> Outcome:
    """Sums of integers out of their halves, those that fit."""
    if kind is Kind.FLOAT:
        return found
    high = found.values + (rest >> _HALF)
    fits = (high < 1 << (_HALF - 1)) & (high >= -(1 << (_HALF - 1)))
    values = (high[fits] << _HALF) | (rest[fits] & _LOW)
    return Outcome(found.group[fits], found.at[fits], values, len(fits) - int(fits.sum()))


def _as_floats(total: Values, rest: Ints, kind: Kind) -> Values:
    return total if kind is Kind.FLOAT else total * float(1 << _HALF) + rest
