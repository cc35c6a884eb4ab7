"""Sorted runs of points: sorted tails, and merges of runs.

    run      points of all fields that were sorted together, as blocks (block.py) that are found
             by the index (block_index.py); immutable, except that blocks are dropped
    order    the list of runs is in the order of arrival: of two points with the same column and
             time, the one in the later run counts

A series with many points in a run gets separate blocks, at least half full; series with few points
share blocks. So a hundred thousand quiet series cost as little as one busy one: there is one block
for every few thousand points, however many series they are of.

Runs of similar size are merged (merge_runs.py), so that there are few, and a point is rewritten at
most once for each factor of eight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import msgspec
import numpy as np

from strandline.views.metrics.storage.block import FieldPoints, decode, encode
from strandline.views.metrics.storage.block_index import (
    ENTRY,
    SERIES_NEXT_MAX,
    BlockIndex,
    Entries,
    entry_of,
)
from strandline.views.metrics.storage.block_pages import BlockPages
from strandline.views.metrics.storage.tail import FIELD_SHIFT, SERIES_MASK
from strandline.views.metrics.value_types import INT64_MAX, INT64_MIN, Ints, ValueKind


class RunSpan(msgspec.Struct, array_like=True):
    """The points of one field in a run."""

    min_at: int = INT64_MAX
    max_at: int = INT64_MIN
    points: int = 0
    blocks: int = 0


class PointRun(msgspec.Struct):
    """Points that were sorted together."""

    number: int
    spans: dict[int, RunSpan] = {}

    @property
    def points(self) -> int:
        return sum(span.points for span in self.spans.values())


class PointRuns:
    """All runs of a fold. Owned by one thread."""

    def __init__(
        self, index: BlockIndex, pages: BlockPages, *, next_number: int, block_points: int
    ) -> None:
        self.runs: list[PointRun] = []
        self.merge_outputs: list[PointRun] = []
        """The output of a merge that is not in the list yet. It shares blocks with its inputs."""
        self.index = index
        self.pages = pages
        self.next_number = next_number
        self.block_points = block_points

    def new_run(self) -> PointRun:
        """A new run that is not in the list yet."""
        run = PointRun(self.next_number)
        self.next_number += 1
        return run

    def write(
        self,
        run: PointRun,
        field: int,
        kind: ValueKind,
        points: FieldPoints,
        *,
        small: bool = False,
    ) -> None:
        """Add points of a field to a run: sorted, and after those that it has of the field."""
        for first, after in _block_ranges(points.series, self.block_points):
            part = points.select(slice(first, after))
            page = self.pages.put(encode(part, kind, small=small))
            self.add_block(run, field, int(part.at[0]), entry_of(part, kind, page))

    def add_block(self, run: PointRun, field: int, at: int, entry: Entries) -> None:
        """Add an existing block; ``at`` is the time of its first point."""
        self.index.put(run.number, field, at, entry)
        span = run.spans.setdefault(field, RunSpan())
        span.min_at = min(span.min_at, int(entry["min_at"][0]))
        span.max_at = max(span.max_at, int(entry["max_at"][0]))
        span.points += int(entry["count"][0])
        span.blocks += 1

    def read(self, entry: np.void) -> FieldPoints:
        """The points of a block."""
        return decode(self.pages.get(int(entry["page"])), int(entry["series"]))

    def drop_below(self, field: int, floor: int) -> None:
        """Drop blocks of a field that are entirely below a floor."""
        pages: set[int] = set()
        for run in (*self.runs, *self.merge_outputs):
            span = run.spans.get(field)
            if span is not None and span.min_at < floor:
                pages |= self._drop_blocks(run, field, span, floor)
        self._drop_pages(pages)

    def replace(self, inputs: list[PointRun], output: PointRun) -> None:
        """Replace the inputs of a merge by its output."""
        first = self.runs.index(inputs[0])
        self.runs[first : first + len(inputs)] = [output] if output.spans else []
        old = set[int]()
        for run in inputs:
            for field in run.spans:
                old.update(self.index.delete(run.number, field)["page"].tolist())
        for field in output.spans:
            entries = self.index.find(output.number, field, 0, SERIES_NEXT_MAX)
            old.difference_update(entries["page"].tolist())
        self._drop_pages(old)

    def prune(self, keep: Collection[int]) -> None:
        """Remove empty runs, except these."""
        self.runs = [run for run in self.runs if run.spans or run.number in keep]

    def _drop_blocks(self, run: PointRun, field: int, span: RunSpan, floor: int) -> set[int]:
        dropped, pages, low = [], set(), INT64_MAX
        for key, value in list(self.index.scan(run.number, field, 0)):
            entry = np.frombuffer(value, dtype=ENTRY)[0]
            if int(entry["max_at"]) >= floor:
                low = min(low, int(entry["min_at"]))
                continue
            dropped.append(key)
            pages.add(int(entry["page"]))
            span.points -= int(entry["count"])
            span.blocks -= 1
        self.index.delete_keys(dropped)
        span.min_at = low
        if not span.blocks:
            del run.spans[field]
        return pages

    def _drop_pages(self, pages: set[int]) -> None:
        for page in sorted(pages):
            self.pages.drop(page)


def by_field(columns: Ints, at: Ints, bits: Ints) -> Iterator[tuple[int, FieldPoints]]:
    """Points in the order of arrival -> sorted points by field, without duplicates."""
    order = np.lexsort((at, columns))
    columns, at, bits = columns[order], at[order], bits[order]
    replaced = (columns[1:] == columns[:-1]) & (at[1:] == at[:-1])
    if replaced.any():
        is_last = np.append(~replaced, True)
        columns, at, bits = columns[is_last], at[is_last], bits[is_last]
    points = FieldPoints(columns & SERIES_MASK, at, bits)
    fields = columns >> FIELD_SHIFT
    starts = np.flatnonzero(np.append(True, fields[1:] != fields[:-1])).tolist()
    for first, after in zip(starts, [*starts[1:], len(fields)], strict=True):
        yield int(fields[first]), points.select(slice(first, after))


def _block_ranges(series: Ints, size: int) -> Iterator[tuple[int, int]]:
    """The ranges of blocks: large series have separate blocks, small ones share."""
    if not len(series):
        return
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    ends = np.append(starts[1:], len(series))
    large = np.flatnonzero(ends - starts >= max(2, size // 2)).tolist()
    position = 0
    for number in large:
        yield from _shared(ends[position:number], int(starts[position]), size)
        yield from _split_series(int(starts[number]), int(ends[number]), size)
        position = number + 1
    if position < len(starts):
        yield from _shared(ends[position:], int(starts[position]), size)


def _split_series(first: int, after: int, size: int) -> Iterator[tuple[int, int]]:
    """The blocks of one series, of about equal size."""
    parts = -(-(after - first) // size)
    bounds = [first + (after - first) * part // parts for part in range(parts + 1)]
    yield from pairwise(bounds)


def _shared(ends: Ints, first: int, size: int) -> Iterator[tuple[int, int]]:
    """The blocks of small series, each with as many whole series as fit."""
    position = 0
    while position < len(ends):
        last = max(position, int(ends.searchsorted(first + size, side="right")) - 1)
        after = int(ends[last])
        yield first, after
        first, position = after, last + 1
