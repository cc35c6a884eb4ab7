"""Sorted runs of points: what was the tail, and what was merged from such runs.

    run      points of all fields that were sorted together, as blocks (block.py) that are found
             through the index (block_index.py); never changed, but for blocks that are dropped
    order    the list of runs is in the order of arrival: of two points with the same column and
             time, the one in the later run counts

A series that has many points in a run gets blocks of its own, at least half full; series with few
share blocks. So a hundred thousand quiet series are as cheap as one busy one: what a block costs is
paid for every few thousand points, however many series they are of.

Runs of alike size are merged (merge_runs.py), so that there are few, and a point is rewritten at
most once for each factor of eight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import msgspec
import numpy as np

from strandline.views.metrics.storage.block import Points, decode, encode
from strandline.views.metrics.storage.block_index import (
    ENTRY,
    SERIES_NEXT_MAX,
    Entries,
    Index,
    entry_of,
)
from strandline.views.metrics.storage.block_pages import Pages
from strandline.views.metrics.storage.tail import FIELD_SHIFT, SERIES_MASK
from strandline.views.metrics.value_types import INT64_MAX, INT64_MIN, Ints, Kind


class Span(msgspec.Struct, array_like=True):
    """What a run has of one field."""

    min_at: int = INT64_MAX
    max_at: int = INT64_MIN
    points: int = 0
    blocks: int = 0


class Run(msgspec.Struct):
    """Points that were sorted together."""

    number: int
    spans: dict[int, Span] = {}

    @property
    def points(self) -> int:
        return sum(span.points for span in self.spans.values())


class Runs:
    """All runs of a fold. Owned by one thread."""

    def __init__(self, index: Index, pages: Pages, *, next_number: int, block_points: int) -> None:
        self.runs: list[Run] = []
        self.making: list[Run] = []
        """A run that is being merged, and not in the list yet. It shares blocks with others."""
        self.index = index
        self.pages = pages
        self.next_number = next_number
        self.block_points = block_points

    def begin(self) -> Run:
        """A new run, not in the list yet."""
        run = Run(self.next_number)
        self.next_number += 1
        return run

    def write(
        self, run: Run, field: int, kind: Kind, points: Points, *, small: bool = False
    ) -> None:
        """Add points of a field to a run: in order, behind what it has of the field."""
        for first, following in _cuts(points.series, self.block_points):
            part = points.chosen(slice(first, following))
            page = self.pages.put(encode(part, kind, small=small))
            self.place(run, field, int(part.at[0]), entry_of(part, kind, page))

    def place(self, run: Run, field: int, at: int, entry: Entries) -> None:
        """Add a block that is there already; ``at`` is the time of its first point."""
        self.index.put(run.number, field, at, entry)
        span = run.spans.setdefault(field, Span())
        span.min_at = min(span.min_at, int(entry["min_at"][0]))
        span.max_at = max(span.max_at, int(entry["max_at"][0]))
        span.points += int(entry["count"][0])
        span.blocks += 1

    def read(self, entry: np.void) -> Points:
        """The points of a block."""
        return decode(self.pages.get(int(entry["page"])), int(entry["series"]))

    def drop_below(self, field: int, floor: int) -> None:
        """Drop blocks of a field that lie below a floor as a whole."""
        pages: set[int] = set()
        for run in (*self.runs, *self.making):
            span = run.spans.get(field)
            if span is not None and span.min_at < floor:
                pages |= self._drop_some(run, field, span, floor)
        self._drop_pages(pages)

    def replace(self, inputs: list[Run], output: Run) -> None:
        """A run takes the place of those that it was merged from."""
        first = self.runs.index(inputs[0])
        self.runs[first : first + len(inputs)] = [output] if output.spans else []
        old = set[int]()
        for run in inputs:
            for field in run.spans:
                old.update(self.index.delete(run.number, field)["page"].tolist())
        for field in output.spans:
            found = self.index.find(output.number, field, 0, SERIES_NEXT_MAX)
            old.difference_update(found["page"].tolist())
        self._drop_pages(old)

    def prune(self, kept: Collection[int]) -> None:
        """Take out runs that have nothing left, but for these."""
        self.runs = [run for run in self.runs if run.spans or run.number in kept]

    def _drop_some(self, run: Run, field: int, span: Span, floor: int) -> set[int]:
        gone, pages, low = [], set(), INT64_MAX
        for key, value in list(self.index.scan(run.number, field, 0)):
            entry = np.frombuffer(value, dtype=ENTRY)[0]
            if int(entry["max_at"]) >= floor:
                low = min(low, int(entry["min_at"]))
                continue
            gone.append(key)
            pages.add(int(entry["page"]))
            span.points -= int(entry["count"])
            span.blocks -= 1
        self.index.delete_keys(gone)
        span.min_at = low
        if not span.blocks:
            del run.spans[field]
        return pages

    def _drop_pages(self, pages: set[int]) -> None:
        for page in sorted(pages):
            self.pages.drop(page)


def by_field(columns: Ints, at: Ints, bits: Ints) -> Iterator[tuple[int, Points]]:
    """Points as they came, sorted, each once, field by field."""
    order = np.lexsort((at, columns))
    columns, at, bits = columns[order], at[order], bits[order]
    replaced = (columns[1:] == columns[:-1]) & (at[1:] == at[:-1])
    if replaced.any():
        kept = np.append(~replaced, True)
        columns, at, bits = columns[kept], at[kept], bits[kept]
    points = Points(columns & SERIES_MASK, at, bits)
    fields = columns >> FIELD_SHIFT
    starts = np.flatnonzero(np.append(True, fields[1:] != fields[:-1])).tolist()
    for first, following in zip(starts, [*starts[1:], len(fields)], strict=True):
        yield int(fields[first]), points.chosen(slice(first, following))


def _cuts(series: Ints, size: int) -> Iterator[tuple[int, int]]:
    """Where blocks begin and end: large series have their own, small ones share."""
    if not len(series):
        return
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], len(series))
    large = np.flatnonzero(ends - starts >= max(2, size // 2)).tolist()
    place = 0
    for number in large:
        yield from _shared(ends[place:number], int(starts[place]), size)
        yield from _own(int(starts[number]), int(ends[number]), size)
        place = number + 1
    if place < len(starts):
        yield from _shared(ends[place:], int(starts[place]), size)


def _own(first: int, following: int, size: int) -> Iterator[tuple[int, int]]:
    """One series, in parts of about equal size."""
    parts = -(-(following - first) // size)
    bounds = [first + (following - first) * part // parts for part in range(parts + 1)]
    yield from pairwise(bounds)


def _shared(ends: Ints, first: int, size: int) -> Iterator[tuple[int, int]]:
    """Small series, whole, as many as fit."""
    place = 0
    while place < len(ends):
        last = max(place, int(ends.searchsorted(first + size, side="right")) - 1)
        following = int(ends[last])
        yield first, following
        first, place = following, last + 1
