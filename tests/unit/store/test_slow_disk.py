"""Promise: a disk whose syncs are slow is reported, with figures, and so is the end of it."""

from __future__ import annotations

import logging

import pytest

from strandline.log.files.sync_watch import SyncWatch
from tests.unit.store.world import World


class SlowWorld(World):
    """A disk whose every sync of the log takes so long."""

    def __init__(self) -> None:
        super().__init__()
        self.sync_s = 0.0
        self.during = lambda: None
        self.topic = self.store.topic("t", durability="fsync")
        self.disk.on_call = self._on_call

    def _on_call(self, operation: str, _: str) -> None:
        if operation == "sync":
            self.clock.advance(self.sync_s)
            self.during()


@pytest.fixture
def world() -> SlowWorld:
    return SlowWorld()


def test_syncs_of_a_second_turn_health_yellow_with_figures_until_a_minute_has_passed(world):
    world.sync_s = 1.0
    world.topic.append(b"x")
    world.sync_s = 2.5
    world.topic.append(b"x")

    slow = world.store.health()
    (numbers,) = world.store.log_statistics()
    world.clock.advance(61)
    after = world.store.health()

    assert slow.status == "yellow"
    assert slow.reasons == [
        "the disk is slow: 2 syncs of log 0 took more than 500 ms within 60 s, the longest 2500 ms"
    ]
    assert (numbers.slow_syncs, numbers.is_slow) == (2, True)
    assert after.status == "green"
    assert [(each.slow_syncs, each.is_slow) for each in world.store.log_statistics()] == [
        (2, False)
    ]


def test_a_sync_that_does_not_return_is_reported_while_it_lasts(world):
    seen = []
    world.sync_s = 30.0
    world.during = lambda: seen.append(world.store.health().reasons)

    world.topic.append(b"x")

    assert seen == [
        [
            "the disk is slow: 1 syncs of log 0 took more than 500 ms within 60 s, the longest "
            "30000 ms"
        ]
    ]


@pytest.mark.parametrize("sync_s", [0.0, 0.1, 0.5])
def test_syncs_that_are_not_slow_are_healthy_however_many(world, sync_s):
    world.sync_s = sync_s

    for _ in range(20):
        world.topic.append(b"x")

    assert world.store.health().status == "green"


def test_one_hiccup_is_not_a_slow_disk(world):
    world.sync_s = 0.6

    world.topic.append(b"x")

    assert world.store.health().status == "green"


def test_the_beginning_and_the_end_are_in_the_log(world, caplog):
    watch = SyncWatch(world.store._shards)
    with caplog.at_level(logging.WARNING, logger="strandline"):
        watch.run_once()
        world.sync_s = 1.0
        for _ in range(3):
            world.topic.append(b"x")
            watch.run_once()
        world.clock.advance(61)
        watch.run_once()

    assert caplog.messages == [
        "the disk is slow: 1 syncs of log 0 took more than 500 ms within 60 s, the longest 1000 ms",
        "the disk is not slow any more",
    ]
