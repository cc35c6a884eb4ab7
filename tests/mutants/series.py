"""Mutants of series: what makes a point seen once, in its place, and a floor a floor."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

APPENDING = "unit/views/series/test_appending"
QUEUE = "unit/views/series/test_index_queue"
RESTART = "unit/views/series/test_restart"
RETENTION = "unit/views/series/test_retention"

SERIES = {
    "series: the edge of the jitter window is late": Mutant(
        "views.series.fold:route_of",
        "at >= newest - jitter",
        "at > newest - jitter",
        APPENDING,
        "test_the_way_is_decided_by_the_sources_newest",
    ),
    "series: take what is before the floor": Mutant(
        "views.series.series:Series._check",
        "if min(ats) < fold.floor",
        "if ats[-1] < fold.floor",
        APPENDING,
        "test_a_batch_with_a_point_before_the_floor_leaves_nothing",
    ),
    "series: a point that was not checked moves the floor past the limit on the future": Mutant(
        "views.series.admission:due_floor",
        "min(newest, ceiling_of(config, now_us))",
        "newest",
        "unit/views/series/test_retention",
        "test_a_point_that_came_by_a_way_without_a_check_ends_no_other_where_the_future_has_a_limit",
    ),
    "series: sources leave memory though the share has room": Mutant(
        "views.series.sources:Sources._is_too_large",
        "self.size - self.size_charged > self._share.room",
        "True",
        "unit/views/series/test_series_memory",
        "test_no_source_leaves_memory_while_the_share_has_room",
    ),
    "series: let the floor fall": Mutant(
        "views.series.fold:SeriesFold._raise_floor",
        "if record.at > self.floor:",
        "if True:",
        RETENTION,
        "test_a_lower_floor_on_the_log_does_not_matter",
    ),
    "series: forget the floor at a restart": Mutant(
        "views.series.fold:SeriesFold.load",
        "self.floor, self.floor_seq = found.floor, found.floor_seq",
        "self.floor, self.floor_seq = AT_MIN, 0",
        RESTART,
        "test_the_floor_survives",
    ),
    "series: let a record go that is not below the floor": Mutant(
        "views.series.index:Index._drop_blocks",
        "gone.update(dead)",
        "gone.update(points.seqs)",
        RETENTION,
        "test_the_log_lets_go_of_all_that_is_below_the_floor_and_of_nothing_else",
    ),
    "series: show a block twice that a failed batch has written": Mutant(
        "views.series.index:Index._in_map",
        "following = min(following, pending[0][0])",
        "pass",
        QUEUE,
        "test_a_batch_that_fails_in_the_middle_is_neither_lost_nor_seen_twice[15-True]",
    ),
}
