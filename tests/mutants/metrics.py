"""Mutants of metrics: what makes a window whole, and a point that was written stay."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DOWNSAMPLING = "unit/views/metrics/test_downsampling"
MEMORY = "unit/views/metrics/test_metrics_memory"
QUERIES = "unit/views/metrics/test_queries"

METRICS = {
    "metrics: a window has its end": Mutant(
        "views.metrics.windows:_windows",
        "at // width",
        "(at - 1) // width",
        QUERIES,
        "test_windows_begin_at_multiples_of_their_width",
    ),
    "metrics: the last is the first": Mutant(
        "views.metrics.windows:_together",
        "value[np.append(starts[1:], len(value)) - 1]",
        "value[starts]",
        QUERIES,
        "test_aggregates_put_the_points_of_a_group_together",
    ),
    "metrics: be further than the windows that were made": Mutant(
        "views.metrics.upkeep:_due",
        "Progress(rule.into, standing.seq, due[1])",
        "Progress(rule.into, standing.seq, due[1] + rule.window_ns)",
        DOWNSAMPLING,
        "test_a_window_is_made_when_it_is_over",
    ),
    "metrics: leave a window as it was when points come late": Mutant(
        "views.metrics.standings:Standings.late",
        "standing.stale.update(windows[windows >= floor].tolist())",
        "pass",
        DOWNSAMPLING,
        "test_a_late_point_makes_its_window_again",
    ),
    "metrics: raise the floor above windows that are not made": Mutant(
        "views.metrics.upkeep:_floor",
        "wanted = min(wanted, *maker.stale, wanted if undone is None else undone)",
        "pass",
        DOWNSAMPLING,
        "test_the_floor_waits_for_windows_that_are_not_made",
    ),
    "metrics: empty the tail before its run is written": Mutant(
        "views.metrics.fold:MetricsFold._empty_tail",
        "columns, at, bits = self._tail.all()",
        "columns, at, bits = self._tail.all(); self._tail.clear()",
        MEMORY,
        "test_memory_that_cannot_be_freed_is_nobody_elses_failure_and_nothing_is_lost",
    ),
}
