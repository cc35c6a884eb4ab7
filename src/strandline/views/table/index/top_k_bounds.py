"""Ladder index: the values of rank 1, 2, 4, 8 … of each zone from both ends, for ORDER BY … LIMIT.

    arrays   ranks u32; for each zone the values of these ranks in ascending order; the same in
             descending order

The value of a rank above the number of a zone's values is undefined. The last rank of a zone, its
number of values, is in the min_max index, also for fields without a ladder.

If zones together hold n values up to a bound, the first n rows are not beyond the bound either, and
a zone whose first value is beyond it has none of them. Nulls come last in both directions: if there
are n values, no zone is kept for its nulls.

A ladder counts all rows of a zone. So only zones of which all rows match may be counted, and the
number of rows that are left out for other reasons (hidden rows) must be added to n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strandline.views.table.index import arrays
from strandline.views.table.index.arrays import Array
from strandline.views.table.index.column import NumberColumn, ZoneLayout
from strandline.views.table.index.min_max import MinMaxIndex
from strandline.views.table.index.zone_sets import Mask

KIND = "ladder"


def build(column: NumberColumn, rank_max: int) -> bytes:
    width = column.sorted.shape[1]
    ranks = 1 << np.arange(min(rank_max, width).bit_length())
    up = column.sorted[:, ranks - 1]
    positions = np.maximum(column.present[:, None] - ranks, 0)
    down = np.take_along_axis(column.sorted, positions, axis=1)
    return arrays.pack(ranks.astype("<u4"), up, down)


class TopKBounds:
    """Ranks of the zones. Immutable; safe to use from many threads."""

    def __init__(self, data: bytes, layout: ZoneLayout) -> None:
        zones = layout.zones
        ranks, up, down = arrays.unpack(data)
        self.ranks: NDArray[np.int64] = ranks.astype("<i8")
        self.up = up.reshape(zones, len(ranks))
        self.down = down.reshape(zones, len(ranks))
        self.ram = len(data)


class TopKInput(NamedTuple):
    """The zones of one file, for the search of the first rows."""

    fence: MinMaxIndex
    top_k: TopKBounds | None
    counted: Mask
    """Zones of which all rows match."""


def prune_top_k(runners: Sequence[TopKInput], rows: int, *, descending: bool) -> list[Mask] | None:
    """For each file, the zones that may hold one of the first rows; None if there are fewer values
    than rows."""
    steps = [_steps(each, descending=descending) for each in runners]
    values = np.concatenate([values for values, _ in steps])
    counts = np.concatenate([counts for _, counts in steps])
    order = np.argsort(values, kind="stable")
    order = order[::-1] if descending else order
    cumulative = np.cumsum(counts[order])
    position = int(np.searchsorted(cumulative, rows))
    if position == len(cumulative):
        return None
    bound = values[order[position]]
    return [_zones_up_to(each.fence, bound, descending=descending) for each in runners]


def _zones_up_to(fence: MinMaxIndex, bound: Array, *, descending: bool) -> Mask:
    is_within = fence.greatest >= bound if descending else fence.least <= bound
    return (fence.present > 0) & is_within


def _steps(runners: TopKInput, *, descending: bool) -> tuple[Array, NDArray[np.int64]]:
    """Values of the counted zones, and for each the number of values of its zone from the previous
    one up to it."""
    fence, counted = runners.fence, runners.counted & (runners.fence.present > 0)
    present = fence.present[counted][:, None]
    first, last = fence.least, fence.greatest
    if descending:
        first, last = last, first
    if runners.top_k is None:
        ranks, inner = np.ones(1, "<i8"), first[counted][:, None]
    else:
        bounds = runners.top_k
        ranks, inner = bounds.ranks, (bounds.down if descending else bounds.up)[counted]
    more = np.where(ranks <= present, np.diff(ranks, prepend=0), 0)
    remaining = present - more.sum(axis=1, keepdims=True)
    values = np.concatenate([inner, last[counted][:, None]], axis=1)
    return values.reshape(-1), np.concatenate([more, remaining], axis=1).reshape(-1)
