"""How much a topic matters: its own priority, and for a while that somebody has read it."""

from __future__ import annotations

import pytest

from strandline.config.settings import TopicConfig
from strandline.server.priority import FORGOTTEN_MS, HALF_MS, READ_WEIGHT, priority_of

NOW_MS = 1_790_000_000_000


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (None, 0),
        (0, READ_WEIGHT),
        (HALF_MS, READ_WEIGHT // 2),
        (2 * HALF_MS, READ_WEIGHT // 4),
        (FORGOTTEN_MS + 1, 0),
        (-5000, READ_WEIGHT),
    ],
)
def test_a_read_counts_half_after_every_thirty_seconds(age_ms, expected):
    read_at_ms = None if age_ms is None else NOW_MS - age_ms

    assert priority_of(TopicConfig(), read_at_ms, NOW_MS) == expected


def test_a_priority_of_its_own_is_added():
    assert priority_of(TopicConfig(priority=-200), NOW_MS, NOW_MS) == READ_WEIGHT - 200


def test_a_topic_may_have_none_of_it():
    assert priority_of(TopicConfig(auto_priority=False), NOW_MS, NOW_MS) == 0


def test_a_priority_out_of_range_counts_as_the_nearest():
    assert priority_of(TopicConfig(priority=9999), None, NOW_MS) == 1000
