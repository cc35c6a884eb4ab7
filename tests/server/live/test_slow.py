"""Promise: a watcher that does not keep up waits, misses records of lossy topics only, and is told
exactly which; whoever takes nothing for too long is shown out."""

from __future__ import annotations

import json

import pytest

from strandline.config.settings import TopicConfig
from strandline.server.live import slow_consumers
from strandline.server.settings import LiveSettings

LIVE = LiveSettings(stalled_s_max=10.0, grace_s=1.0)


@pytest.mark.parametrize(
    ("config", "is_lossy"),
    [
        (TopicConfig(), False),
        (TopicConfig(durability="fsync"), False),
        (TopicConfig(durability="memory"), False),
        (TopicConfig(durability="ephemeral"), True),
        (TopicConfig(ttl_ms=1), True),
        (TopicConfig(cap_records=1), True),
        (TopicConfig(cap_bytes=1), True),
        (TopicConfig(cap_records=1, cap_bytes=1, discard="reject"), False),
    ],
)
def test_a_topic_is_lossy_when_it_lets_go_of_records_by_itself(config, is_lossy):
    assert slow_consumers.is_lossy(config) is is_lossy


@pytest.mark.parametrize(
    ("full_s", "has_drained", "verdict"),
    [
        (0.0, False, "wait"),
        (9.9, False, "wait"),
        (10.1, False, "end"),
        (0.1, True, "resume"),
        (99.0, True, "resume"),
    ],
)
def test_who_is_full_waits_and_ends_when_his_time_is_over(full_s, has_drained, verdict):
    found = slow_consumers.verdict(full_s=full_s, has_drained=has_drained, settings=LIVE)

    assert found == verdict


def test_the_notice_names_all_that_was_missed_and_nothing_else():
    told = slow_consumers.skipped("news", after=7, earliest_seq=5, head_seq=20)

    data = json.loads(told.wrapped("event").decode().partition("data: ")[2].splitlines()[0])
    assert (data["topic"], data["gap_from"], data["gap_to"]) == ("news", 8, 20)
    assert (data["reason"], data["head_seq"]) == ("from_seq_too_old", 20)
    assert data["earliest_seq"] == 5
    assert told.cursor == 20
