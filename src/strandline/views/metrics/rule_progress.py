"""The rules that hold, and how far each is. Part of the fold.

What is stale is known from the records alone: a point for a window that the rule has done, and that
no later record has done again. Windows below a floor, of the source or of what is made of it, are
nobody's concern any more.
"""

from __future__ import annotations

import numpy as np

from strandline.views.metrics.rules import (
    Downsample,
    Keep,
    Progress,
    Removed,
    Rule,
    Standing,
    name_of,
)
from strandline.views.metrics.value_types import INT64_MIN, Ints


class Standings:
    """Rules by name. Owned by one thread."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], Standing] = {}
        self._of_source: dict[str, list[Standing]] = {}
        self._floors: dict[str, int] = {}

    def all(self) -> list[Standing]:
        """In the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def rules(self) -> list[Rule]:
        return [standing.rule for standing in self.all()]

    def find(self, kind: str, measurement: str) -> Standing | None:
        return self._by_name.get((kind, measurement))

    def keeps(self) -> list[Keep]:
        return [rule for rule in self.rules() if isinstance(rule, Keep)]

    def of_source(self, measurement: str) -> list[Standing]:
        """What is made of a measurement."""
        return self._of_source.get(measurement, [])

    def put(self, rule: Rule | Removed, seq: int) -> list[int]:
        """A rule holds from now on, or no longer; seqs of the records that it replaces."""
        before = self._by_name.pop(name_of(rule), None)
        if not isinstance(rule, Removed):
            self._by_name[name_of(rule)] = Standing(rule, seq)
        self._sort()
        return [] if before is None else [before.seq]

    def advance(self, progress: Progress, seq: int) -> None:
        """Points of a rule were made. Those of an older rule of its name say nothing of it."""
        standing = self._by_name.get(("downsample", progress.into))
        if standing is None or standing.seq != progress.version:
            return
        standing.until = progress.until
        standing.stale.difference_update(progress.redone)
        standing.progress_seq = seq

    def late(self, measurement: str, at: Ints | int, earliest: int) -> None:
        """Points have come, all above the floor: windows that were done may be stale."""
        for standing in self._of_source.get(measurement, ()):
            until = standing.until
            if until is None or earliest >= until:
                continue
            assert isinstance(standing.rule, Downsample), "only they have a source"
            width = standing.rule.window_ns
            times = np.atleast_1d(at)
            windows = np.unique(times[times < until] // width) * width
            floor = self._floors.get(standing.rule.into, INT64_MIN)
            standing.stale.update(windows[windows >= floor].tolist())

    def raised(self, measurement: str, floor: int) -> None:
        """Below this a measurement has nothing any more."""
        self._floors[measurement] = floor
        for standing in self._by_name.values():
            rule = standing.rule
            if isinstance(rule, Downsample) and measurement in (rule.source, rule.into):
                standing.stale = {window for window in standing.stale if window >= floor}

    def seqs(self) -> set[int]:
        """Records that say how far rules are: those that nothing newer has replaced."""
        return {standing.progress_seq for standing in self._by_name.values()} - {0}

    def dump(self) -> list[Standing]:
        return self.all()

    def load(self, standings: list[Standing], floors: dict[str, int]) -> None:
        self._by_name = {standing.name: standing for standing in standings}
        self._floors = floors
        self._sort()

    def _sort(self) -> None:
        self._of_source = {}
        for standing in self.all():
            if isinstance(standing.rule, Downsample):
                self._of_source.setdefault(standing.rule.source, []).append(standing)
