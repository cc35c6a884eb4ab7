"""Reads the points of some series in a range of time, from runs and the tail.

There are two ways. ``series`` returns whole series, in order: the points of all runs and of the
tail are sorted together, in the order of arrival, so that of two points with the same time the
later one counts. Many series are read in slices, so that a query over all points needs no more
memory than its largest slice.

``pieces`` returns points by run, which is faster when their order does not matter: only those at
*contested* times, which more than one run has, are sorted together. Points in order of time make
runs that follow each other, so few times are contested. A block that is in one window, and not
contested, is not even read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.metrics.storage.block import FieldPoints, joined, no_points
from strandline.views.metrics.storage.block_index import ENTRY, EXACT, Entries, joined_entries
from strandline.views.metrics.storage.overlap import overlapping_times, overlaps_any, sort_points
from strandline.views.metrics.storage.runs import PointRun, PointRuns
from strandline.views.metrics.storage.tail import Tail
from strandline.views.metrics.value_types import Ints

SLICE_POINTS = 1 << 22
"""The approximate number of points that are read at once."""

_SEEK_BLOCKS = 8
"""Finding one series costs about as much as scanning so many entries."""
_CONTESTED_SHARE_MAX = 4
"""If a fourth of the time is contested, all points are sorted."""
_NO_ENTRIES = np.empty(0, dtype=ENTRY)


def no_entries() -> Entries:
    return _NO_ENTRIES


class PointRange(NamedTuple):
    """The points to read: series of a field, in order, from ``first`` on and before ``next``."""

    field: int
    series: Ints
    first: int
    next: int


class PointsPart(NamedTuple):
    """Points in the order of (series, at), and entries of blocks that were not read.

    No point is in two parts.
    """

    points: FieldPoints
    blocks: Entries


class PointReader:
    """Reads the points of a fold. Owned by one thread."""

    def __init__(self, runs: PointRuns, tail: Tail) -> None:
        self._runs = runs
        self._tail = tail

    def series(self, stretch: PointRange) -> Iterator[FieldPoints]:
        """All points, a few whole series at a time."""
        if not len(stretch.series):
            return
        tail = self._newest(stretch)
        by_run = [self._entries(run, stretch) for run in self._runs.runs]
        entries = joined_entries(by_run)
        for part in _slices(entries, stretch.series):
            yield self._whole(stretch._replace(series=part), entries, tail)

    def parts(self, stretch: PointRange, width: int | None = None) -> Iterator[PointsPart]:
        """All points, in parts. With a width, blocks inside one window need not be read."""
        if not len(stretch.series):
            return
        tail = sort_points(self._newest(stretch))
        by_run = [self._entries(run, stretch) for run in self._runs.runs]
        by_run = [entries for entries in by_run if len(entries)]
        spans = [(int(each["min_at"].min()), int(each["max_at"].max())) for each in by_run]
        if len(tail.at):
            spans.append((int(tail.at.min()), int(tail.at.max())))
        times = overlapping_times(spans)
        if _mostly_contested(times, spans):
            for points in self.series(stretch):
                yield PointsPart(points, _NO_ENTRIES)
            return
        mixed: list[FieldPoints] = []
        for entries in by_run:
            ready = _is_inside(entries, stretch, width)
            ready &= ~overlaps_any(entries["min_at"], entries["max_at"], times)
            yield PointsPart(no_points(), entries[ready])
            for chunk in _chunks(entries[~ready]):
                points = _select(joined([self._runs.read(entry) for entry in chunk]), stretch)
                yield PointsPart(_uncontested(points, times, mixed), _NO_ENTRIES)
        yield PointsPart(_uncontested(tail, times, mixed), _NO_ENTRIES)
        yield PointsPart(sort_points(joined(mixed)), _NO_ENTRIES)

    def earliest(self, field: int, first: int) -> int | None:
        """A lower bound of the time of the field's first point from ``first`` on; None without one.

        It is exact to the block: good enough to know where to start.
        """
        times: list[int | None] = []
        for run in self._runs.runs:
            span = run.spans.get(field)
            if span is not None and span.min_at >= first:
                times.append(span.min_at)
            elif span is not None and span.max_at >= first:
                times.append(self._earliest_in(run, field, first))
        at = self._tail.points(field).at
        at = at[at >= first]
        if len(at):
            times.append(int(at.min()))
        known = [time for time in times if time is not None]
        return min(known, default=None)

    def _earliest_in(self, run: PointRun, field: int, first: int) -> int | None:
        values = [value for _, value in self._runs.index.scan(run.number, field, 0)]
        entries = np.frombuffer(b"".join(values), dtype=ENTRY)
        entries = entries[entries["max_at"] >= first]
        return max(first, int(entries["min_at"].min())) if len(entries) else None

    def _whole(self, stretch: PointRange, entries: Entries, tail: FieldPoints) -> FieldPoints:
        low, high = int(stretch.series[0]), int(stretch.series[-1])
        overlapping = entries[(entries["last_series"] >= low) & (entries["series"] <= high)]
        read = [self._runs.read(entry) for entry in overlapping]
        return sort_points(_select(joined([*read, tail]), stretch))

    def _newest(self, stretch: PointRange) -> FieldPoints:
        low, high = int(stretch.series[0]), int(stretch.series[-1])
        return _select(self._tail.points(stretch.field, low, high), stretch)

    def _entries(self, run: PointRun, stretch: PointRange) -> Entries:
        """Entries of a run that may have points of the range."""
        span = run.spans.get(stretch.field)
        if span is None or span.max_at < stretch.first or span.min_at >= stretch.next:
            return _NO_ENTRIES
        index, series = self._runs.index, stretch.series
        if len(series) * _SEEK_BLOCKS < span.blocks:
            blocks = [
                index.find_one(run.number, stretch.field, one, stretch.first, stretch.next)
                for one in series.tolist()
            ]
            entries = joined_entries(blocks)
            if len(blocks) > 1:  # several series may share a block
                entries = entries[np.sort(np.unique(entries["page"], return_index=True)[1])]
        else:
            low, high = int(series[0]), int(series[-1])
            entries = index.find(run.number, stretch.field, low, high + 1)
            after = series.searchsorted(entries["series"])
            reaches = series[np.minimum(after, len(series) - 1)] <= entries["last_series"]
            entries = entries[reaches & (after < len(series))]
        return entries[(entries["max_at"] >= stretch.first) & (entries["min_at"] < stretch.next)]


def _is_inside(blocks: Entries, stretch: PointRange, width: int | None) -> NDArray[np.bool_]:
    """A mask of the blocks that can be used without reading them."""
    if width is None:
        return np.zeros(len(blocks), dtype=bool)
    inside: NDArray[np.bool_] = (
        (blocks["flags"] == EXACT)
        & (blocks["min_at"] >= stretch.first)
        & (blocks["max_at"] < stretch.next)
        & (blocks["min_at"] // width == blocks["max_at"] // width)
    )
    return inside


def _select(points: FieldPoints, stretch: PointRange) -> FieldPoints:
    """The points of these series and times, in the same order."""
    is_match = (points.at >= stretch.first) & (points.at < stretch.next)
    low, high = int(stretch.series[0]), int(stretch.series[-1])
    is_match &= (points.series >= low) & (points.series <= high)
    if high - low + 1 > len(stretch.series):
        is_wanted = np.zeros(high - low + 1, dtype=bool)
        is_wanted[stretch.series - low] = True
        is_match[is_match] = is_wanted[points.series[is_match] - low]
    return points if is_match.all() else points.select(is_match)


def _mostly_contested(times: list[tuple[int, int]], spans: list[tuple[int, int]]) -> bool:
    """Whether so much time is contested that sorting all points, in slices, is faster."""
    if not times:
        return False
    whole = max(high for _, high in spans) - min(low for low, _ in spans) + 1
    return sum(last - first + 1 for first, last in times) * _CONTESTED_SHARE_MAX > whole


def _uncontested(
    points: FieldPoints, times: list[tuple[int, int]], mixed: list[FieldPoints]
) -> FieldPoints:
    """The points that are not contested; the others are appended to ``mixed``."""
    is_contested = np.zeros(len(points.at), dtype=bool)
    for first, last in times:
        is_contested |= (points.at >= first) & (points.at <= last)
    if not is_contested.any():
        return points
    mixed.append(points.select(is_contested))
    return points.select(~is_contested)


def _chunks(entries: Entries) -> Iterator[Entries]:
    """Divide blocks into chunks that are read at once."""
    bounds = np.cumsum(entries["count"]) // SLICE_POINTS
    yield from np.split(entries, np.flatnonzero(np.diff(bounds)) + 1) if len(entries) else ()


def _slices(entries: Entries, series: Ints) -> Iterator[Ints]:
    """Divide series into slices, each with about as many points as are read at once."""
    total = int(entries["count"].sum())
    if total <= SLICE_POINTS or len(series) == 1:
        yield series
        return
    middles = np.sort((entries["series"].astype("<i8") + entries["last_series"]) // 2)
    count = -(-total // SLICE_POINTS)
    bounds = middles[np.arange(1, count) * len(middles) // count]
    for part in np.split(series, np.unique(series.searchsorted(bounds))):
        if len(part):
            yield part
