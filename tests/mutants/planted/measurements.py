"""Mutants of series and metrics: floors, windows, and points that stay stored."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Force, Insert, Remove, Replace, Set, Swap, Use

APPENDING = "unit/views/series/test_appending"
QUEUE = "unit/views/series/test_index_queue"
RESTART = "unit/views/series/test_restart"
RETENTION = "unit/views/series/test_retention"
DOWNSAMPLING = "unit/views/metrics/test_downsampling"
MEMORY = "unit/views/metrics/test_metrics_memory"
QUERIES = "unit/views/metrics/test_queries"


MEASUREMENTS = {
    "series: the edge of the jitter window is late": Mutant(
        "views.series.fold:route_of",
        Swap("Return 2", "return _ if _ >= _ - _ else _", "Compare 1", ">"),
        APPENDING,
        "test_the_way_is_decided_by_the_sources_newest",
    ),
    "series: take what is before the floor": Mutant(
        "views.series.series:Series._check",
        Replace("If 1", "if _(_) < _ or _(_) > _:", "Call 1", "{Name 2}[-1]"),
        APPENDING,
        "test_a_batch_with_a_point_before_the_floor_leaves_nothing",
    ),
    "series: a point that was not checked moves the floor past the limit on the future": Mutant(
        "views.series.admission:due_floor",
        Use("Return 3", "return _(_, _(_, _(_, _)) - _)", "Call 2", "Name 4"),
        "unit/views/series/test_retention",
        "test_a_point_that_came_by_a_way_without_a_check_ends_no_other_where_the_future_has_a_limit",
    ),
    "series: sources leave memory though the share has room": Mutant(
        "views.series.source_table:SourceTable._is_too_large",
        Set("Return 1", "return _ - _ > _", "Compare 1", True),
        "unit/views/series/test_series_memory",
        "test_no_source_leaves_memory_while_the_share_has_room",
    ),
    "series: let the floor fall": Mutant(
        "views.series.fold:SeriesFold._raise_floor",
        Force("If 1", "if _ > _:", True),
        RETENTION,
        "test_a_lower_floor_on_the_log_does_not_matter",
    ),
    "series: forget the floor at a restart": Mutant(
        "views.series.fold:SeriesFold.load",
        Replace(
            "Assign 2",
            "_, _ = (_, _) (1 of 3)",
            "Tuple 2",
            "({name 1}, 0)",
            names=("views.series.meta:AT_MIN",),
        ),
        RESTART,
        "test_the_floor_survives",
    ),
    "series: let a record go that is not below the floor": Mutant(
        "views.series.index:PointIndex._drop_blocks",
        Use("Expr 3", "_(_) (2 of 2)", "Name 2", "If 1: Attribute 1", others=("if _(_) == _(_):",)),
        RETENTION,
        "test_the_log_lets_go_of_all_that_is_below_the_floor_and_of_nothing_else",
    ),
    "series: show a block twice that a failed batch has written": Mutant(
        "views.series.index:PointIndex._map_blocks",
        Remove("Assign 3", "_ = _(_, _[0][0])"),
        QUEUE,
        "test_a_batch_that_fails_in_the_middle_is_neither_lost_nor_seen_twice[15-True]",
    ),
    "metrics: a window has its end": Mutant(
        "views.metrics.query.windows:_windows",
        Replace("Return 1", "return _(_(_), _='') if _ is None else _ // _", "Name 5", "{it} - 1"),
        QUERIES,
        "test_windows_begin_at_multiples_of_their_width",
    ),
    "metrics: the last is the first": Mutant(
        "views.metrics.query.windows:_combine",
        Use("Return 2", "return _(_, _, _[_(_[1:], _(_)) - 1])", "BinOp 1", "Name 6"),
        QUERIES,
        "test_aggregates_put_the_points_of_a_group_together",
    ),
    "metrics: be further than the windows that were made": Mutant(
        "views.metrics.rule_runner:_draft_due",
        Replace(
            "Return 2",
            "return _(_, _(_, _, _[1]))",
            "Subscript 1",
            "{it} + {Name 4}.{name 1}",
            names=("views.metrics.rules:DownsamplingRule.window_ns",),
        ),
        DOWNSAMPLING,
        "test_a_window_is_made_when_it_is_over",
    ),
    "metrics: leave a window as it was when points come late": Mutant(
        "views.metrics.rule_progress:RuleProgress.mark_stale",
        Remove("Expr 1", "_(_[_ >= _]._())"),
        DOWNSAMPLING,
        "test_a_late_point_makes_its_window_again",
    ),
    "metrics: raise the floor above windows that are not made": Mutant(
        "views.metrics.rule_runner:_highest_floor",
        Remove("Assign 4", "_ = _(_, *_, _ if _ is None else _)"),
        DOWNSAMPLING,
        "test_the_floor_waits_for_windows_that_are_not_made",
    ),
    "metrics: empty the tail before its run is written": Mutant(
        "views.metrics.fold:MetricsFold._flush_tail",
        Insert("Assign 2", "_ = _ >= _()[_ >> _]", "{Expr 2}", others=("_()",)),
        MEMORY,
        "test_memory_that_cannot_be_freed_is_nobody_elses_failure_and_nothing_is_lost",
    ),
}
