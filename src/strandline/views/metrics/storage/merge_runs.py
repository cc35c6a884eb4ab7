"""Merges runs of alike size, a few points at a time.

A run has a size class: two runs of one class differ by less than a factor of eight. As soon as
eight of one class follow each other, with smaller ones between them or not, they become one. It is
done in steps, each after the tail has become a run, so that no write waits for all of it; until it
is finished, readers see what is merged from. Where it stands is saved, and goes on after a restart.

A block of one series that is at least half full, and that no other point overlaps, is taken over as
it is, unread. So in-order points of busy series are packed once.

Merging does not change what anybody sees, so when it happens does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from strandline.views.metrics.storage.block import Points, joined
from strandline.views.metrics.storage.block_index import (
    ENTRY,
    SERIES_NEXT_MAX,
    Entries,
    joined_entries,
)
from strandline.views.metrics.storage.overlap import in_order, undisturbed
from strandline.views.metrics.storage.runs import Run, Runs
from strandline.views.metrics.value_types import Kind

RUNS_MIN = 8
"""So many runs of one class become one."""
POINTS_MAX = 1 << 25
"""A run is not merged beyond this: old runs are stretches of time that go as a whole."""
SLICE_POINTS = 1 << 17
"""About so many points are merged in one step."""

_BLOCK_PRICE = 64
"""Taking a block over costs about as much as merging so many points."""


class Merge(msgspec.Struct):
    """A merge that is under way."""

    inputs: list[int]
    output: Run
    field: int = 0
    series: int = 0
    """The first series of the field that is not merged."""


class Merging:
    """Merges the runs of one fold. Owned by one thread."""

    def __init__(
        self, runs: Runs, kind_of: Callable[[int], Kind], floor_of: Callable[[int], int]
    ) -> None:
        self.current: Merge | None = None
        self._runs = runs
        self._kind_of = kind_of
        self._floor_of = floor_of

    def resume(self, merge: Merge | None) -> None:
        """Go on with what was saved."""
        self.current = merge
        self._runs.making = [] if merge is None else [merge.output]

    def inputs(self) -> list[int]:
        """Runs that are being merged."""
        return [] if self.current is None else self.current.inputs

    def work(self, points: int) -> None:
        """Merge about so many points, if there is anything to merge."""
        while points > 0:
            if self.current is None:
                chosen = choose(self._runs.runs)
                if not chosen:
                    return
                self.resume(Merge([run.number for run in chosen], self._runs.begin()))
            points -= self._step()

    def _step(self) -> int:
        """Merge some series of one field, or finish; what it cost, in points."""
        merge = self.current
        assert merge is not None, "work has begun it"
        inputs = [run for run in self._runs.runs if run.number in merge.inputs]
        fields = sorted({field for run in inputs for field in run.spans if field >= merge.field})
        if not fields:
            self.resume(None)
            self._runs.replace(inputs, merge.output)
            return _BLOCK_PRICE
        if fields[0] > merge.field:
            merge.field, merge.series = fields[0], 0
        return self._merge_some(merge, [run for run in inputs if merge.field in run.spans])

    def _merge_some(self, merge: Merge, inputs: list[Run]) -> int:
        field, first = merge.field, merge.series
        wanted = SLICE_POINTS // len(inputs)
        fetched = [self._fetch(run, field, first, wanted) for run in inputs]
        following = min(limit for _, limit in fetched)
        found = joined_entries([entries[entries["series"] < following] for entries, _ in fetched])
        found = found[found["max_at"] >= self._floor_of(field)]
        cost = self._rewrite(merge.output, field, found, first, following)
        if following == SERIES_NEXT_MAX:
            merge.field, merge.series = field + 1, 0
        else:
            merge.series = following
        return cost

    def _rewrite(self, output: Run, field: int, found: Entries, first: int, following: int) -> int:
        """Write the points of blocks, from oldest to newest run, that are of these series."""
        runs = self._runs
        half = max(2, runs.block_points // 2)
        ready = (found["series"] == found["last_series"]) & (found["count"] >= half)
        points = in_order(joined([runs.read(entry) for entry in found[~ready]]))
        blocks = found[ready]
        free = undisturbed(blocks, points)
        if not free.all():
            # In the order of the runs, so that of equal points the last one counts.
            kept = np.zeros(len(found), dtype=bool)
            kept[np.flatnonzero(ready)[free]] = True
            points = in_order(joined([runs.read(entry) for entry in found[~kept]]))
            blocks = blocks[free]
        mine = (points.series >= first) & (points.series < following)
        points = points.chosen(mine & (points.at >= self._floor_of(field)))
        kind, written = self._kind_of(field), 0
        for block in _in_order(blocks):
            # A new block must not reach over one that is taken over: blocks of a run are in order.
            place = _place_of(points, block)
            runs.write(output, field, kind, points.chosen(slice(written, place)), small=True)
            runs.place(output, field, int(block["min_at"][0]), block)
            written = place
        runs.write(output, field, kind, points.chosen(slice(written, None)), small=True)
        return len(points.at) + _BLOCK_PRICE * (len(found) + 1)

    def _fetch(self, run: Run, field: int, first: int, wanted: int) -> tuple[Entries, int]:
        """Entries of the series from the first on, until it is enough; the first series missing."""
        values: list[bytes] = []
        count = 0
        for _, value in self._runs.index.scan(run.number, field, first):
            entry = np.frombuffer(value, dtype=ENTRY)[0]
            if int(entry["last_series"]) < first:
                continue
            if count >= wanted and int(entry["series"]) > first:
                return np.frombuffer(b"".join(values), dtype=ENTRY), int(entry["series"])
            values.append(value)
            count += int(entry["count"])
        return np.frombuffer(b"".join(values), dtype=ENTRY), SERIES_NEXT_MAX


def _in_order(blocks: Entries) -> Iterator[Entries]:
    order = np.lexsort((blocks["min_at"], blocks["series"]))
    return (blocks[place : place + 1] for place in order.tolist())


def _place_of(points: Points, block: Entries) -> int:
    """How many points come before a block of one series."""
    first, following = points.series.searchsorted([block["series"][0], block["series"][0] + 1])
    return int(first + points.at[first:following].searchsorted(block["min_at"][0]))


def choose(runs: list[Run]) -> list[Run]:
    """The newest runs that are to become one, none when there are too few of one size."""
    classes = [_class(run.points) for run in runs]
    for limit in sorted(set(classes)):
        first = len(runs)
        while first and classes[first - 1] <= limit:
            first -= 1
        last = max(place for place, size in enumerate(classes) if size == limit)
        chosen = runs[first : last + 1]
        if (
            classes[first : last + 1].count(limit) >= RUNS_MIN
            and sum(run.points for run in chosen) <= POINTS_MAX
        ):
            return chosen
    return []


def _class(points: int) -> int:
    return max(0, points.bit_length() - 1) // 3
