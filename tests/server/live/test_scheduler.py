"""Promise: bands share turns 8:4:2:1:1, the oldest goes first, and nobody waits over 10 s."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.server.live.topic_scheduler import TopicScheduler
from strandline.testing.sim_clock import SimClock

BANDS = {"top": 800, "high": 600, "middle": 300, "low": 10, "lowest": -500}


def test_nobody_waits_then_nobody_has_a_turn():
    scheduler: TopicScheduler[str] = TopicScheduler()

    turn = scheduler.pop(0.0)

    assert turn is None


def test_a_topic_that_waits_keeps_its_place_when_it_is_marked_again():
    scheduler: TopicScheduler[str] = TopicScheduler()
    scheduler.add("a", 0, 1.0)
    scheduler.add("b", 0, 2.0)
    scheduler.add("a", 0, 3.0)

    first, second = scheduler.pop(4.0), scheduler.pop(4.0)

    assert first == ("a", 1.0)
    assert second == ("b", 2.0)
    assert len(scheduler) == 0


def test_bands_share_the_turns_eight_to_four_to_two_to_one_to_one():
    scheduler: TopicScheduler[tuple[str, int]] = TopicScheduler()
    for band, priority in BANDS.items():
        for number in range(100):
            scheduler.add((band, number), priority, 0.0)

    served = Counter()
    for _ in range(160):
        turn = scheduler.pop(0.0)
        assert turn is not None
        served[turn.key[0]] += 1

    assert served == {"top": 80, "high": 40, "middle": 20, "low": 10, "lowest": 10}


def test_while_deferring_the_lowest_band_has_no_turn_until_it_has_aged():
    scheduler: TopicScheduler[str] = TopicScheduler()
    scheduler.add("lowest", -500, 0.0)

    at_once = scheduler.pop(1.0, deferring=True)
    aged = scheduler.pop(5.0, deferring=True)

    assert at_once is None
    assert aged == ("lowest", 0.0)


def test_the_least_of_all_is_in_the_top_band_before_ten_seconds():
    scheduler: TopicScheduler[str] = TopicScheduler()
    scheduler.add("least", -1000, 0.0)
    for number in range(50):
        scheduler.add(f"hot-{number}", 1000, 8.0)

    turn = scheduler.pop(8.0, deferring=True)

    assert turn == ("least", 0.0)


def test_a_topic_that_was_forgotten_has_no_turn():
    scheduler: TopicScheduler[str] = TopicScheduler()
    scheduler.add("a", 0, 0.0)
    scheduler.remove("a")

    turn = scheduler.pop(0.0)

    assert turn is None


@settings(deadline=None, max_examples=40)
@given(
    priorities=st.lists(st.integers(-1000, 1500), min_size=1, max_size=60),
    turn_ms=st.integers(1, 40),
    rest_ms=st.lists(st.integers(0, 3000), min_size=1, max_size=20),
    deferring=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_no_topic_waits_longer_than_ten_seconds_under_sustained_load(
    priorities, turn_ms, rest_ms, deferring
):
    clock = SimClock()
    scheduler: TopicScheduler[int] = TopicScheduler()
    returns = [(0.0, topic) for topic in range(len(priorities))]
    longest = 0.0

    for step in range(1500):
        now = clock.monotonic()
        for due, topic in [entry for entry in returns if entry[0] <= now]:
            returns.remove((due, topic))
            scheduler.add(topic, priorities[topic], now)
        turn = scheduler.pop(now, deferring=deferring[step % len(deferring)])
        if turn is not None:
            longest = max(longest, now - turn.since)
            again = rest_ms[turn.key % len(rest_ms)] / 1000
            returns.append((now + turn_ms / 1000 + again, turn.key))
        clock.advance(turn_ms / 1000)

    assert longest <= 10.0
    waiting = [scheduler.pop(clock.monotonic()) for _ in range(len(scheduler))]
    assert all(clock.monotonic() - turn.since <= 10.0 for turn in waiting if turn is not None)
