"""Finds the points of some series in a stretch of time: in runs and in the tail.

There are two ways. ``series`` gives whole series, in order: all origins are sorted together, in the
order of arrival, so that of two points with the same time the later one counts. Many series are
read in slices, so that a question over everything needs no more memory than its largest slice.

``pieces`` gives points origin by origin, which is quicker when their order does not matter: only
those at *contested* times, which more than one origin has, are sorted together. Points that come in
order of time make runs that follow each other, so little is contested. A block that is in one
window, and not contested, is not even read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.metrics.storage.block import Points, joined, no_points
from strandline.views.metrics.storage.block_index import ENTRY, EXACT, Entries, joined_entries
from strandline.views.metrics.storage.overlap import contested, in_order, touching
from strandline.views.metrics.storage.runs import Run, Runs
from strandline.views.metrics.storage.tail import Tail
from strandline.views.metrics.value_types import Ints

SLICE_POINTS = 1 << 22
"""About so many points are read at once."""

_SEEK_BLOCKS = 8
"""Finding one series costs about as much as looking at so many entries."""
_CONTESTED_SHARE_MAX = 4
"""When a fourth of the time is contested, everything is sorted."""
_NO_ENTRIES = np.empty(0, dtype=ENTRY)


def no_entries() -> Entries:
    return _NO_ENTRIES


class Stretch(NamedTuple):
    """What is asked for: series of a field, in order, from ``first`` on and before ``next``."""

    field: int
    series: Ints
    first: int
    next: int


class Part(NamedTuple):
    """Points, in the order of (series, at); and blocks that stand for points that were not read.

    No point is in two parts.
    """

    points: Points
    blocks: Entries


class Reader:
    """Reads the points of a fold. Owned by one thread."""

    def __init__(self, runs: Runs, tail: Tail) -> None:
        self._runs = runs
        self._tail = tail

    def series(self, wanted: Stretch) -> Iterator[Points]:
        """All points, some whole series at a time."""
        if not len(wanted.series):
            return
        tail = self._newest(wanted)
        found = [self._entries(run, wanted) for run in self._runs.runs]
        entries = joined_entries(found)
        for some in _slices(entries, wanted.series):
            yield self._whole(wanted._replace(series=some), entries, tail)

    def pieces(self, wanted: Stretch, usable: int | None = None) -> Iterator[Part]:
        """All points, in parts. With a width, blocks inside one window of it may come unread."""
        if not len(wanted.series):
            return
        tail = in_order(self._newest(wanted))
        found = [self._entries(run, wanted) for run in self._runs.runs]
        found = [entries for entries in found if len(entries)]
        spans = [(int(each["min_at"].min()), int(each["max_at"].max())) for each in found]
        if len(tail.at):
            spans.append((int(tail.at.min()), int(tail.at.max())))
        times = contested(spans)
        if _is_much(times, spans):
            for points in self.series(wanted):
                yield Part(points, _NO_ENTRIES)
            return
        mixed: list[Points] = []
        for entries in found:
            ready = _is_inside(entries, wanted, usable)
            ready &= ~touching(entries["min_at"], entries["max_at"], times)
            yield Part(no_points(), entries[ready])
            for some in _chunks(entries[~ready]):
                points = _chosen(joined([self._runs.read(entry) for entry in some]), wanted)
                yield Part(_apart(points, times, mixed), _NO_ENTRIES)
        yield Part(_apart(tail, times, mixed), _NO_ENTRIES)
        yield Part(in_order(joined(mixed)), _NO_ENTRIES)

    def earliest(self, field: int, first: int) -> int | None:
        """A time at or before the field's first point that is not before ``first``; None: no such.

        It is exact to the block: good enough to know where to begin.
        """
        found: list[int | None] = []
        for run in self._runs.runs:
            span = run.spans.get(field)
            if span is not None and span.min_at >= first:
                found.append(span.min_at)
            elif span is not None and span.max_at >= first:
                found.append(self._earliest_in(run, field, first))
        at = self._tail.points(field).at
        at = at[at >= first]
        if len(at):
            found.append(int(at.min()))
        known = [time for time in found if time is not None]
        return min(known, default=None)

    def _earliest_in(self, run: Run, field: int, first: int) -> int | None:
        values = [value for _, value in self._runs.index.scan(run.number, field, 0)]
        entries = np.frombuffer(b"".join(values), dtype=ENTRY)
        entries = entries[entries["max_at"] >= first]
        return max(first, int(entries["min_at"].min())) if len(entries) else None

    def _whole(self, wanted: Stretch, entries: Entries, tail: Points) -> Points:
        low, high = int(wanted.series[0]), int(wanted.series[-1])
        near = entries[(entries["last_series"] >= low) & (entries["series"] <= high)]
        read = [self._runs.read(entry) for entry in near]
        return in_order(_chosen(joined([*read, tail]), wanted))

    def _newest(self, wanted: Stretch) -> Points:
        low, high = int(wanted.series[0]), int(wanted.series[-1])
        return _chosen(self._tail.points(wanted.field, low, high), wanted)

    def _entries(self, run: Run, wanted: Stretch) -> Entries:
        """Entries of a run that may have what is wanted."""
        span = run.spans.get(wanted.field)
        if span is None or span.max_at < wanted.first or span.min_at >= wanted.next:
            return _NO_ENTRIES
        index, series = self._runs.index, wanted.series
        if len(series) * _SEEK_BLOCKS < span.blocks:
            pieces = [
                index.find_one(run.number, wanted.field, one, wanted.first, wanted.next)
                for one in series.tolist()
            ]
            found = joined_entries(pieces)
            if len(pieces) > 1:  # series may share a block
                found = found[np.sort(np.unique(found["page"], return_index=True)[1])]
        else:
            low, high = int(series[0]), int(series[-1])
            found = index.find(run.number, wanted.field, low, high + 1)
            after = series.searchsorted(found["series"])
            reaches = series[np.minimum(after, len(series) - 1)] <= found["last_series"]
            found = found[reaches & (after < len(series))]
        return found[(found["max_at"] >= wanted.first) & (found["min_at"] < wanted.next)]


def _is_inside(blocks: Entries, wanted: Stretch, usable: int | None) -> NDArray[np.bool_]:
    """Which blocks can be used without reading them."""
    if usable is None:
        return np.zeros(len(blocks), dtype=bool)
    inside: NDArray[np.bool_] = (
        (blocks["flags"] == EXACT)
        & (blocks["min_at"] >= wanted.first)
        & (blocks["max_at"] < wanted.next)
        & (blocks["min_at"] // usable == blocks["max_at"] // usable)
    )
    return inside


def _chosen(points: Points, wanted: Stretch) -> Points:
    """Those of the wanted series and times, in the same order."""
    mine = (points.at >= wanted.first) & (points.at < wanted.next)
    low, high = int(wanted.series[0]), int(wanted.series[-1])
    mine &= (points.series >= low) & (points.series <= high)
    if high - low + 1 > len(wanted.series):
        known = np.zeros(high - low + 1, dtype=bool)
        known[wanted.series - low] = True
        mine[mine] = known[points.series[mine] - low]
    return points if mine.all() else points.chosen(mine)


def _is_much(times: list[tuple[int, int]], spans: list[tuple[int, int]]) -> bool:
    """Whether so much is contested that it is better to sort everything, in slices."""
    if not times:
        return False
    whole = max(high for _, high in spans) - min(low for low, _ in spans) + 1
    return sum(last - first + 1 for first, last in times) * _CONTESTED_SHARE_MAX > whole


def _apart(points: Points, times: list[tuple[int, int]], mixed: list[Points]) -> Points:
    """Points that are not contested; the others are added to the mixed ones."""
    doubtful = np.zeros(len(points.at), dtype=bool)
    for first, last in times:
        doubtful |= (points.at >= first) & (points.at <= last)
    if not doubtful.any():
        return points
    mixed.append(points.chosen(doubtful))
    return points.chosen(~doubtful)


def _chunks(entries: Entries) -> Iterator[Entries]:
    """Blocks that are read at once."""
    bounds = np.cumsum(entries["count"]) // SLICE_POINTS
    yield from np.split(entries, np.flatnonzero(np.diff(bounds)) + 1) if len(entries) else ()


def _slices(entries: Entries, series: Ints) -> Iterator[Ints]:
    """The series in pieces, each with about as many points as are read at once."""
    total = int(entries["count"].sum())
    if total <= SLICE_POINTS or len(series) == 1:
        yield series
        return
    middles = np.sort((entries["series"].astype("<i8") + entries["last_series"]) // 2)
    pieces = -(-total // SLICE_POINTS)
    bounds = middles[np.arange(1, pieces) * len(middles) // pieces]
    for piece in np.split(series, np.unique(series.searchsorted(bounds))):
        if len(piece):
            yield piece
