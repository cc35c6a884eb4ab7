"""Overlaps in time of points from different runs and the tail. Pure.

A block that no other points overlap in time can be used without reading it: no other point is
between its points or replaces one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strandline.views.metrics.storage.block import FieldPoints
from strandline.views.metrics.storage.block_index import Entries
from strandline.views.metrics.value_types import Ints

Mask = NDArray[np.bool_]


def sort_points(points: FieldPoints) -> FieldPoints:
    """Points in the order of (series, at), without duplicates: of equal ones, the last counts."""
    series, at, _ = points
    same_series = series[1:] == series[:-1]
    if bool(((series[1:] > series[:-1]) | (same_series & (at[1:] > at[:-1]))).all()):
        return points
    points = points.select(np.lexsort((at, series)))
    same = (points.series[1:] == points.series[:-1]) & (points.at[1:] == points.at[:-1])
    return points.select(np.append(~same, True)) if same.any() else points


def overlapping_times(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of time that more than one span has, sorted and disjoint."""
    ranges: list[tuple[int, int]] = []
    end: int | None = None
    for low, high in sorted(spans):
        if end is not None and low <= end:
            overlap = low, min(high, end)
            if ranges and overlap[0] <= ranges[-1][1]:
                before = ranges.pop()
                overlap = before[0], max(before[1], overlap[1])
            ranges.append(overlap)
        end = high if end is None else max(end, high)
    return ranges


def overlaps_any(low: Ints, high: Ints, times: list[tuple[int, int]]) -> Mask:
    """A mask of the spans that overlap some of the ranges of time."""
    is_touching = np.zeros(len(low), dtype=bool)
    for first, last in times:
        is_touching |= (low <= last) & (high >= first)
    return is_touching


def isolated_blocks(blocks: Entries, points: FieldPoints) -> Mask:
    """A mask of the blocks, each of one series, that overlap no other block and no point.

    The points are in order.
    """
    free = np.ones(len(blocks), dtype=bool)
    if not len(blocks):
        return free
    order = np.lexsort((blocks["min_at"], blocks["series"]))
    free[order] = ~_overlapping(blocks[order])
    if len(points.at):
        _mark_with_points(free, blocks, points)
    return free


def _overlapping(blocks: Entries) -> Mask:
    """A mask of blocks, sorted by (series, min_at), that overlap another."""
    overlapping = np.zeros(len(blocks), dtype=bool)
    is_same_series = blocks["series"][1:] == blocks["series"][:-1]
    overlaps_next = is_same_series & (blocks["min_at"][1:] <= blocks["max_at"][:-1])
    overlapping[:-1] |= overlaps_next
    # The latest end so far in a series, as a rank, so that a new series always starts higher.
    ends, ranks = np.unique(blocks["max_at"], return_inverse=True)
    numbers = np.cumsum(np.append(0, ~is_same_series))
    latest = np.maximum.accumulate(numbers * len(ends) + ranks) - numbers * len(ends)
    overlapping[1:] |= is_same_series & (blocks["min_at"][1:] <= ends[np.maximum(latest[:-1], 0)])
    return overlapping


def _mark_with_points(free: Mask, blocks: Entries, points: FieldPoints) -> None:
    starts = np.flatnonzero(np.append(True, points.series[1:] != points.series[:-1]))
    series = points.series[starts]
    ends = np.append(starts[1:], len(points.at))
    row = np.minimum(np.searchsorted(series, blocks["series"]), len(series) - 1)
    overlaps = (
        (series[row] == blocks["series"])
        & (points.at[starts[row]] <= blocks["max_at"])
        & (points.at[ends[row] - 1] >= blocks["min_at"])
    )
    for number in np.flatnonzero(free & overlaps).tolist():
        series_at: Ints = points.at[starts[row[number]] : ends[row[number]]]
        low, high = blocks["min_at"][number], blocks["max_at"][number]
        free[number] = series_at.searchsorted(low) == series_at.searchsorted(high, side="right")
