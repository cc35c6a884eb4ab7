"""Promise: many small commits stay few runs, and no row is written again too often."""

from __future__ import annotations

import pytest

from strandline.query.materialized.manifest import FrameRun
from strandline.query.materialized.merge_policy import FAN, to_merge


def run_of(rows: int) -> FrameRun:
    return FrameRun(part=0, first=1, last=1, rows=rows, size=rows)


def after(deltas: list[int]) -> tuple[list[FrameRun], int]:
    """The runs after these commits, and how many rows were written a second time or more."""
    runs: list[FrameRun] = []
    rewritten = 0
    for rows in deltas:
        taken = to_merge(runs, rows)
        merged = sum(run.rows for run in runs[len(runs) - taken :])
        runs = [*runs[: len(runs) - taken], run_of(rows + merged)]
        rewritten += merged
    return runs, rewritten


def test_the_eighth_run_of_a_level_takes_those_before_it():
    assert to_merge([run_of(1)] * (FAN - 1), 1) == FAN - 1


def test_fewer_runs_are_left_alone():
    assert to_merge([run_of(1)] * (FAN - 2), 1) == 0


def test_a_large_run_is_not_written_again_for_a_few_rows():
    assert to_merge([run_of(100_000), *[run_of(1)] * (FAN - 1)], 1) == FAN - 1


@pytest.mark.parametrize("delta", [1, 5, 100])
def test_runs_grow_with_the_logarithm_and_rows_are_rewritten_once_a_level(delta: int):
    runs, rewritten = after([delta] * 5000)

    assert len(runs) < 5 * FAN
    assert rewritten < 6 * 5000 * delta


def test_small_and_large_commits_in_turn_stay_few_runs():
    runs, _ = after([1, 1000] * 2000)

    assert len(runs) < 6 * FAN
