"""Where points of different origins may meet in time. Pure.

A block that has a stretch of time to itself can be used unread: no other point lies between its
points, and none replaces one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strandline.views.metrics.storage.block import Points
from strandline.views.metrics.storage.block_index import Entries
from strandline.views.metrics.value_types import Ints

Mask = NDArray[np.bool_]


def in_order(points: Points) -> Points:
    """In the order of (series, at), each once: of equal ones the last counts."""
    series, at, _ = points
    same_series = series[1:] == series[:-1]
    if bool(((series[1:] > series[:-1]) | (same_series & (at[1:] > at[:-1]))).all()):
        return points
    points = points.chosen(np.lexsort((at, series)))
    same = (points.series[1:] == points.series[:-1]) & (points.at[1:] == points.at[:-1])
    return points.chosen(np.append(~same, True)) if same.any() else points


def contested(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The times, first and last, that more than one of the spans has; in order, apart."""
    found: list[tuple[int, int]] = []
    reached: int | None = None
    for low, high in sorted(spans):
        if reached is not None and low <= reached:
            both = low, min(high, reached)
            if found and both[0] <= found[-1][1]:
                before = found.pop()
                both = before[0], max(before[1], both[1])
            found.append(both)
        reached = high if reached is None else max(reached, high)
    return found


def touching(low: Ints, high: Ints, times: list[tuple[int, int]]) -> Mask:
    """Which spans have some of the times."""
    found = np.zeros(len(low), dtype=bool)
    for first, last in times:
        found |= (low <= last) & (high >= first)
    return found


def undisturbed(blocks: Entries, points: Points) -> Mask:
    """Which of these blocks, each of one series, overlap no other and none of the points.

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
    """Of blocks in the order of (series, min_at), those that overlap another."""
    overlapping = np.zeros(len(blocks), dtype=bool)
    alike = blocks["series"][1:] == blocks["series"][:-1]
    meets_next = alike & (blocks["min_at"][1:] <= blocks["max_at"][:-1])
    overlapping[:-1] |= meets_next
    # The latest end so far in a series: ranks, so that a new series always begins higher.
    ends, ranks = np.unique(blocks["max_at"], return_inverse=True)
    numbers = np.cumsum(np.append(0, ~alike))
    latest = np.maximum.accumulate(numbers * len(ends) + ranks) - numbers * len(ends)
    overlapping[1:] |= alike & (blocks["min_at"][1:] <= ends[np.maximum(latest[:-1], 0)])
    return overlapping


def _mark_with_points(free: Mask, blocks: Entries, points: Points) -> None:
    starts = np.flatnonzero(np.append(True, points.series[1:] != points.series[:-1]))
    series = points.series[starts]
    ends = np.append(starts[1:], len(points.at))
    place = np.minimum(np.searchsorted(series, blocks["series"]), len(series) - 1)
    meets = (
        (series[place] == blocks["series"])
        & (points.at[starts[place]] <= blocks["max_at"])
        & (points.at[ends[place] - 1] >= blocks["min_at"])
    )
    for number in np.flatnonzero(free & meets).tolist():
        mine: Ints = points.at[starts[place[number]] : ends[place[number]]]
        low, high = blocks["min_at"][number], blocks["max_at"][number]
        free[number] = mine.searchsorted(low) == mine.searchsorted(high, side="right")
