"""Promise: the index becomes coarser under pressure and finer at rest, and does not swing."""

from __future__ import annotations

import pytest

from strandline.views.series.adaptive_spacing import HIGH, LEVEL_MAX, LOW, PATIENCE, Tuning


@pytest.mark.parametrize(
    ("level", "spacing", "batch"), [(0, 16, 8), (6, 1024, 512), (8, 4096, 2048)]
)
def test_spacing_and_batch_belong_to_the_level(level, spacing, batch):
    tuning = Tuning(level)

    assert (tuning.spacing, tuning.batch) == (spacing, batch)


def test_it_begins_in_between():
    assert Tuning().level == 6


@pytest.mark.parametrize(
    ("waiting", "change"), [(HIGH + 1, 1), (HIGH, 0), (LOW, 0), (LOW - 1, -1), (0, -1)]
)
def test_the_level_changes_beyond_the_marks_only(waiting, change):
    tuning = Tuning(4)

    for _ in range(PATIENCE):
        tuning.after_batch(waiting)

    assert tuning.level == 4 + change
    assert (tuning.ups, tuning.downs) == (change == 1, change == -1)


def test_between_two_changes_lie_five_batches():
    tuning = Tuning(0)

    levels = []
    for _ in range(3 * PATIENCE):
        tuning.after_batch(HIGH + 1)
        levels.append(tuning.level)

    assert levels == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3]


def test_patience_is_kept_while_nothing_is_to_be_done():
    tuning = Tuning(4)
    for _ in range(10):
        tuning.after_batch((HIGH + LOW) // 2)

    tuning.after_batch(HIGH + 1)

    assert tuning.level == 5


@pytest.mark.parametrize(("level", "waiting"), [(0, 0), (LEVEL_MAX, HIGH + 1)])
def test_it_stays_within_the_table(level, waiting):
    tuning = Tuning(level)

    for _ in range(20):
        tuning.after_batch(waiting)

    assert (tuning.level, tuning.ups, tuning.downs) == (level, 0, 0)
