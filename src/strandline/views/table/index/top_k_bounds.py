"""The values of rank 1, 2, 4, 8 … of each zone, from both ends: for ORDER BY … LIMIT.

    arrays   ranks u32; for each zone the values of these ranks from the least up; the same from the
             greatest down

A rank that a zone does not reach has any value. The last rank of a zone, how many values it has, is
in the fence, and so are those of fields without a ladder.

When zones hold n values together that are not behind a bound, the first n rows are not behind it
either, and a zone whose best value is behind it has none of them. Rows without a value come last in
both directions: once there are n values, no zone is kept for its nulls.

A ladder counts all rows of a zone. So it may only count zones of which all rows are wanted, and
what is left out otherwise (rows that are hidden) must be added to n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import Layout, Numbers
from strandline.views.table.index.min_max import Fence
from strandline.views.table.index.zone_sets import Mask

KIND = "ladder"


def build(column: Numbers, rank_max: int) -> bytes:
    width = column.sorted.shape[1]
    ranks = 1 << np.arange(min(rank_max, width).bit_length())
    up = column.sorted[:, ranks - 1]
    places = np.maximum(column.present[:, None] - ranks, 0)
    down = np.take_along_axis(column.sorted, places, axis=1)
    return arrays.pack(ranks.astype("<u4"), up, down)


class Ladder:
    """Ranks of the zones. Immutable; safe from many threads."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        zones = layout.zones
        ranks, up, down = arrays.unpack(data)
        self.ranks: NDArray[np.int64] = ranks.astype("<i8")
        self.up = up.reshape(zones, len(ranks))
        self.down = down.reshape(zones, len(ranks))
        self.ram = len(data)


class Runners(NamedTuple):
    """The zones of one file, when the first rows are looked for."""

    fence: Fence
    ladder: Ladder | None
    counted: Mask
    """Zones of which all rows are wanted."""


def best(runners: Sequence[Runners], rows: int, *, descending: bool) -> list[Mask] | None:
    """For each file its zones that may hold one of the first rows; None when there are too few
    values to tell."""
    steps = [_steps(each, descending=descending) for each in runners]
    values = np.concatenate([values for values, _ in steps])
    counts = np.concatenate([counts for _, counts in steps])
    order = np.argsort(values, kind="stable")
    order = order[::-1] if descending else order
    reached = np.cumsum(counts[order])
    place = int(np.searchsorted(reached, rows))
    if place == len(reached):
        return None
    bound = values[order[place]]
    return [_ahead(each.fence, bound, descending=descending) for each in runners]


def _ahead(fence: Fence, bound: Array, *, descending: bool) -> Mask:
    is_ahead = fence.greatest >= bound if descending else fence.least <= bound
    return (fence.present > 0) & is_ahead


def _steps(runners: Runners, *, descending: bool) -> tuple[Array, NDArray[np.int64]]:
    """Values of the zones that count, and how many more values of their zone are not behind each
    than behind the one before."""
    fence, counted = runners.fence, runners.counted & (runners.fence.present > 0)
    present = fence.present[counted][:, None]
    first, last = fence.least, fence.greatest
    if descending:
        first, last = last, first
    if runners.ladder is None:
        ranks, inner = np.ones(1, "<i8"), first[counted][:, None]
    else:
        ladder = runners.ladder
        ranks, inner = ladder.ranks, (ladder.down if descending else ladder.up)[counted]
    more = np.where(ranks <= present, np.diff(ranks, prepend=0), 0)
    left = present - more.sum(axis=1, keepdims=True)
    values = np.concatenate([inner, last[counted][:, None]], axis=1)
    return values.reshape(-1), np.concatenate([more, left], axis=1).reshape(-1)
