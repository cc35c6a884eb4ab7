"""The rules in force and the progress of each. Part of the fold.

Stale windows follow from the records alone: a window is stale if a point arrived for it after the
rule computed it, and no later record has recomputed it. Windows below the floor of the source or of
the target are dropped.
"""

from __future__ import annotations

import numpy as np

from strandline.views.metrics.rules import (
    DownsamplingRule,
    Progress,
    RetentionRule,
    Rule,
    RuleRemoval,
    RuleState,
    name_of,
)
from strandline.views.metrics.value_types import INT64_MIN, Ints


class RuleProgress:
    """The rules by name, with their progress. Owned by one thread."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], RuleState] = {}
        self._of_source: dict[str, list[RuleState]] = {}
        self._floors: dict[str, int] = {}

    def all(self) -> list[RuleState]:
        """All rules with their progress, in the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def rules(self) -> list[Rule]:
        return [standing.rule for standing in self.all()]

    def find(self, kind: str, measurement: str) -> RuleState | None:
        return self._by_name.get((kind, measurement))

    def keeps(self) -> list[RetentionRule]:
        return [rule for rule in self.rules() if isinstance(rule, RetentionRule)]

    def of_source(self, measurement: str) -> list[RuleState]:
        """The downsampling rules that read a measurement."""
        return self._of_source.get(measurement, [])

    def put(self, rule: Rule | RuleRemoval, seq: int) -> list[int]:
        """Add, replace or remove a rule; return the seqs of the records that it replaces."""
        before = self._by_name.pop(name_of(rule), None)
        if not isinstance(rule, RuleRemoval):
            self._by_name[name_of(rule)] = RuleState(rule, seq)
        self._sort()
        return [] if before is None else [before.seq]

    def advance(self, progress: Progress, seq: int) -> None:
        """Apply the progress of a rule. Progress of an older rule of that name is ignored."""
        standing = self._by_name.get(("downsample", progress.into))
        if standing is None or standing.seq != progress.version:
            return
        standing.until = progress.until
        standing.stale.difference_update(progress.redone)
        standing.progress_seq = seq

    def mark_stale(self, measurement: str, at: Ints | int, earliest: int) -> None:
        """Mark computed windows as stale that these points, all above the floor, belong to."""
        for standing in self._of_source.get(measurement, ()):
            until = standing.until
            if until is None or earliest >= until:
                continue
            assert isinstance(standing.rule, DownsamplingRule), "only a Downsample has a source"
            width = standing.rule.window_ns
            times = np.atleast_1d(at)
            windows = np.unique(times[times < until] // width) * width
            floor = self._floors.get(standing.rule.into, INT64_MIN)
            standing.stale.update(windows[windows >= floor].tolist())

    def drop_stale_below(self, measurement: str, floor: int) -> None:
        """The floor of a measurement was raised: drop the stale windows below it."""
        self._floors[measurement] = floor
        for standing in self._by_name.values():
            rule = standing.rule
            if isinstance(rule, DownsamplingRule) and measurement in (rule.source, rule.into):
                standing.stale = {window for window in standing.stale if window >= floor}

    def seqs(self) -> set[int]:
        """Seqs of the newest progress record of each rule."""
        return {standing.progress_seq for standing in self._by_name.values()} - {0}

    def dump(self) -> list[RuleState]:
        return self.all()

    def load(self, standings: list[RuleState], floors: dict[str, int]) -> None:
        self._by_name = {standing.name: standing for standing in standings}
        self._floors = floors
        self._sort()

    def _sort(self) -> None:
        self._of_source = {}
        for standing in self.all():
            if isinstance(standing.rule, DownsamplingRule):
                self._of_source.setdefault(standing.rule.source, []).append(standing)
