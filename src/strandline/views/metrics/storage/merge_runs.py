"""Merges runs of similar size, a few points at a time.

A run has a size class: two runs of one class differ by less than a factor of eight. As soon as
eight runs of one class follow each other, with or without smaller ones between them, they become
one. This is done in steps, each after the tail became a run, so that no write waits for a whole
merge; until it is finished, readers use its inputs. Its progress is saved, and it resumes after a
restart.

A block of one series that is at least half full, and that no other point overlaps, is reused
without reading it. So points in order of busy series are packed once.

A merge does not change the result of any query, so it may run at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from strandline.views.metrics.storage.block import FieldPoints, joined
from strandline.views.metrics.storage.block_index import (
    ENTRY,
    SERIES_NEXT_MAX,
    Entries,
    joined_entries,
)
from strandline.views.metrics.storage.overlap import isolated_blocks, sort_points
from strandline.views.metrics.storage.runs import PointRun, PointRuns
from strandline.views.metrics.value_types import ValueKind

RUNS_MIN = 8
"""So many runs of one class are merged."""
POINTS_MAX = 1 << 25
"""The maximal size of a merged run: old runs cover ranges of time, and expire as a whole."""
SLICE_POINTS = 1 << 17
"""The approximate number of points that one step merges."""

_BLOCK_COST = 64
"""Reusing a block costs about as much as merging so many points."""


class Merge(msgspec.Struct):
    """A merge in progress."""

    inputs: list[int]
    output: PointRun
    field: int = 0
    series: int = 0
    """The first series of the field that is not merged yet."""


class RunMerger:
    """Merges the runs of one fold. Owned by one thread."""

    def __init__(
        self, runs: PointRuns, kind_of: Callable[[int], ValueKind], floor_of: Callable[[int], int]
    ) -> None:
        self.current: Merge | None = None
        self._runs = runs
        self._kind_of = kind_of
        self._floor_of = floor_of

    def resume(self, merge: Merge | None) -> None:
        """Continue a saved merge."""
        self.current = merge
        self._runs.merge_outputs = [] if merge is None else [merge.output]

    def inputs(self) -> list[int]:
        """Runs that are being merged."""
        return [] if self.current is None else self.current.inputs

    def work(self, points: int) -> None:
        """Merge about so many points, if there is anything to merge."""
        while points > 0:
            if self.current is None:
                selected = select_runs(self._runs.runs)
                if not selected:
                    return
                self.resume(Merge([run.number for run in selected], self._runs.new_run()))
            points -= self._step()

    def _step(self) -> int:
        """Merge some series of one field, or finish; return the cost in points."""
        merge = self.current
        assert merge is not None, "work has started it"
        inputs = [run for run in self._runs.runs if run.number in merge.inputs]
        fields = sorted({field for run in inputs for field in run.spans if field >= merge.field})
        if not fields:
            self.resume(None)
            self._runs.replace(inputs, merge.output)
            return _BLOCK_COST
        if fields[0] > merge.field:
            merge.field, merge.series = fields[0], 0
        return self._merge_series(merge, [run for run in inputs if merge.field in run.spans])

    def _merge_series(self, merge: Merge, inputs: list[PointRun]) -> int:
        field, first = merge.field, merge.series
        count_min = SLICE_POINTS // len(inputs)
        fetched = [self._fetch(run, field, first, count_min) for run in inputs]
        after = min(limit for _, limit in fetched)
        blocks = joined_entries([entries[entries["series"] < after] for entries, _ in fetched])
        blocks = blocks[blocks["max_at"] >= self._floor_of(field)]
        cost = self._rewrite(merge.output, field, blocks, first, after)
        if after == SERIES_NEXT_MAX:
            merge.field, merge.series = field + 1, 0
        else:
            merge.series = after
        return cost

    def _rewrite(
        self, output: PointRun, field: int, inputs: Entries, first: int, after: int
    ) -> int:
        """Write the points of a range of series from blocks, which are from oldest to newest."""
        runs = self._runs
        half = max(2, runs.block_points // 2)
        ready = (inputs["series"] == inputs["last_series"]) & (inputs["count"] >= half)
        points = sort_points(joined([runs.read(entry) for entry in inputs[~ready]]))
        blocks = inputs[ready]
        free = isolated_blocks(blocks, points)
        if not free.all():
            # In the order of the runs, so that of equal points the last one counts.
            reused = np.zeros(len(inputs), dtype=bool)
            reused[np.flatnonzero(ready)[free]] = True
            points = sort_points(joined([runs.read(entry) for entry in inputs[~reused]]))
            blocks = blocks[free]
        in_range = (points.series >= first) & (points.series < after)
        points = points.select(in_range & (points.at >= self._floor_of(field)))
        kind, written = self._kind_of(field), 0
        for block in _sorted_blocks(blocks):
            # A new block must not overlap a reused one: blocks of a run are in order.
            before = _count_before(points, block)
            runs.write(output, field, kind, points.select(slice(written, before)), small=True)
            runs.add_block(output, field, int(block["min_at"][0]), block)
            written = before
        runs.write(output, field, kind, points.select(slice(written, None)), small=True)
        return len(points.at) + _BLOCK_COST * (len(inputs) + 1)

    def _fetch(self, run: PointRun, field: int, first: int, count_min: int) -> tuple[Entries, int]:
        """Entries from series ``first`` on, about ``count_min`` points; and the next series."""
        values: list[bytes] = []
        count = 0
        for _, value in self._runs.index.scan(run.number, field, first):
            entry = np.frombuffer(value, dtype=ENTRY)[0]
            if int(entry["last_series"]) < first:
                continue
            if count >= count_min and int(entry["series"]) > first:
                return np.frombuffer(b"".join(values), dtype=ENTRY), int(entry["series"])
            values.append(value)
            count += int(entry["count"])
        return np.frombuffer(b"".join(values), dtype=ENTRY), SERIES_NEXT_MAX


def _sorted_blocks(blocks: Entries) -> Iterator[Entries]:
    order = np.lexsort((blocks["min_at"], blocks["series"]))
    return (blocks[index : index + 1] for index in order.tolist())


def _count_before(points: FieldPoints, block: Entries) -> int:
    """The number of points before a block of one series."""
    first, after = points.series.searchsorted([block["series"][0], block["series"][0] + 1])
    return int(first + points.at[first:after].searchsorted(block["min_at"][0]))


def select_runs(runs: list[PointRun]) -> list[PointRun]:
    """The newest runs to merge; empty if there are too few of one size class."""
    classes = [_size_class(run.points) for run in runs]
    for limit in sorted(set(classes)):
        first = len(runs)
        while first and classes[first - 1] <= limit:
            first -= 1
        last = max(index for index, size in enumerate(classes) if size == limit)
        selected = runs[first : last + 1]
        if (
            classes[first : last + 1].count(limit) >= RUNS_MIN
            and sum(run.points for run in selected) <= POINTS_MAX
        ):
            return selected
    return []


def _size_class(points: int) -> int:
    return max(0, points.bit_length() - 1) // 3
