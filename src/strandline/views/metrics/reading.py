"""Finds the points of some series in a stretch of time: in runs and in the tail.

Parts come in the order of arrival and are sorted together, so that of two points with the same
series and time the later one counts, wherever they lie. Many series are read in slices, whole ones,
so that a question over everything needs no more memory than its largest slice and its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.metrics.block import Points, joined
from strandline.views.metrics.index import ENTRY, EXACT, Entries
from strandline.views.metrics.kinds import Ints
from strandline.views.metrics.overlap import in_order, undisturbed
from strandline.views.metrics.runs import Run, Runs
from strandline.views.metrics.tail import Tail

SLICE_POINTS = 1 << 22
"""About so many points are read at once."""

_SEEK_BLOCKS = 8
"""Finding one series costs about as much as looking at so many entries."""


class Stretch(NamedTuple):
    """What is asked for: series of a field, in order, from ``first`` on and before ``next``."""

    field: int
    series: Ints
    first: int
    next: int


class Part(NamedTuple):
    """Points of whole series, in order; and blocks that stand for points that were not read."""

    points: Points
    blocks: Entries


class Reader:
    """Reads the points of a fold. Owned by one thread."""

    def __init__(self, runs: Runs, tail: Tail) -> None:
        self._runs = runs
        self._tail = tail

    def read(self, wanted: Stretch) -> Iterator[Points]:
        """All points, slice by slice."""
        for part in self.parts(wanted, usable=None):
            yield part.points

    def parts(self, wanted: Stretch, *, usable: int | None) -> Iterator[Part]:
        """The same. With a width, a block that fits into one window of it may come unread."""
        if not len(wanted.series):
            return
        tail = self._from_tail(wanted)
        found = [self._entries(run, wanted) for run in self._runs.runs]
        entries = np.concatenate(found) if found else np.empty(0, dtype=ENTRY)
        for piece in _slices(entries, wanted.series):
            yield self._part(wanted._replace(series=piece), entries, tail, usable)

    def earliest(self, field: int, first: int) -> int | None:
        """A time at or before the field's first point that is not before ``first``; None: no such.

        It is exact to the block: good enough to know where to begin.
        """
        found = []
        for run in self._runs.runs:
            span = run.spans.get(field)
            if span is not None and span.max_at >= first:
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

    def _part(self, wanted: Stretch, entries: Entries, tail: Points, usable: int | None) -> Part:
        low, high = int(wanted.series[0]), int(wanted.series[-1])
        near = entries[(entries["last_series"] >= low) & (entries["series"] <= high)]
        ready = _is_inside(near, wanted, usable)
        read = [self._runs.read(entry) for entry in near[~ready]]
        points = in_order(_chosen(joined([*read, tail]), wanted))
        blocks = near[ready]
        free = undisturbed(blocks, points)
        if not free.all():
            unread = np.zeros(len(near), dtype=bool)
            unread[np.flatnonzero(ready)[free]] = True
            read = [self._runs.read(entry) for entry in near[~unread]]
            points = in_order(_chosen(joined([*read, tail]), wanted))
        return Part(points, blocks[free])

    def _entries(self, run: Run, wanted: Stretch) -> Entries:
        """Entries of a run that may have what is wanted."""
        span = run.spans.get(wanted.field)
        if span is None or span.max_at < wanted.first or span.min_at >= wanted.next:
            return np.empty(0, dtype=ENTRY)
        index, series = self._runs.index, wanted.series
        if len(series) * _SEEK_BLOCKS < span.blocks:
            pieces = [index.find(run.number, wanted.field, one, one + 1) for one in series.tolist()]
            found = np.unique(np.concatenate(pieces))  # series may share a block
        else:
            low, high = int(series[0]), int(series[-1])
            found = index.find(run.number, wanted.field, low, high + 1)
            after = series.searchsorted(found["series"])
            reaches = series[np.minimum(after, len(series) - 1)] <= found["last_series"]
            found = found[reaches & (after < len(series))]
        return found[(found["max_at"] >= wanted.first) & (found["min_at"] < wanted.next)]

    def _from_tail(self, wanted: Stretch) -> Points:
        return _chosen(self._tail.points(wanted.field), wanted)


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
