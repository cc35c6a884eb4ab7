"""Promise (E1, E2, E9, C7): health is green while all is well, yellow to look, red when it is over.

Nothing that is dead pretends to be alive, and nobody waits for it.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from strandline.config.settings import SegmentSettings, SpaceSettings
from strandline.errors import DiskFull, StoreFailed
from strandline.testing.allocations import Allocations
from tests.unit.store.world import World, payloads

DEADLINE_S = 30


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(DEADLINE_S * 1000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


def test_a_store_without_trouble_is_green():
    world = World(start_jobs=True)
    world.store.topic("t").append(b"x")

    health = world.store.health()
    world.store.close()

    assert (health.status, health.reasons) == ("green", [])
    assert {job.name for job in health.jobs} >= {"sync-0", "checkpoint", "retention", "space"}
    assert all(job.alive for job in health.jobs)


def test_without_memory_for_complaints_health_says_so():
    world = World()
    world.disk.on_call = Allocations(1, once=False).on_call

    health = world.store.health()
    world.disk.on_call = None
    world.store.close()

    assert health.status == "yellow"
    assert any("complaints cannot be read" in reason for reason in health.reasons)


def test_a_job_that_fails_turns_it_yellow_and_a_recovery_green_again():
    world = World(start_jobs=True)
    topic = world.store.topic("t", ttl_ms=1000)
    topic.append_many([b"x" * 100] * 5)
    world.store.checkpoint()
    topic.append(b"y")
    fault = world.disk.fail("free_bytes", errno=errno.EIO)

    world.clock.advance(1)
    _until(lambda: fault.fired == 1 and world.store.health().status == "yellow")
    reasons = world.store.health().reasons

    def green_again() -> bool:
        world.clock.advance(1)
        return world.store.health().status == "green"

    _until(green_again)
    world.store.close()

    assert any("space" in reason for reason in reasons)


def test_a_failed_background_sync_turns_it_red_and_every_append_fails():
    world = World(start_jobs=True)
    topic = world.store.topic("t")
    topic.append(b"x")
    world.disk.fail("sync", errno=errno.EIO, once=False)

    def red() -> bool:
        world.clock.advance(1)
        return world.store.health().status == "red"

    topic.append(b"y")
    _until(red)

    for append in (lambda: topic.append(b"z"), lambda: topic.append_many([b"z"])):
        with pytest.raises(StoreFailed):
            append()
    assert payloads(topic)[:1] == [b"x"]
    world.store.close()


def test_a_job_that_meets_a_bug_turns_it_red(monkeypatch):
    world = World(start_jobs=True)
    topic = world.store.topic("t", cap_records=1)
    topic.append_many([b"x", b"y"])

    def bug(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr("strandline.log.retention.retention.enforce", bug)

    def red() -> bool:
        world.clock.advance(1)
        return world.store.health().status == "red"

    _until(red)

    assert "retention" in world.store.health().reasons[0]
    assert topic.append(b"z").last_seq == 3
    world.store.close()


def test_a_file_that_cannot_be_read_does_not_stop_the_retention_of_other_topics():
    world = World(segment=SegmentSettings(seal_bytes=1), start_jobs=True)
    for name in ("broken", "fine"):
        topic = world.store.topic(name, ttl_ms=1000)
        topic.append_many([b"x" * 50] * 3)
    world.store.checkpoint()
    broken, _ = world.files("segments")
    world.store.close()
    world.disk.fail("open_read", path_contains=broken, errno=errno.EIO, once=False)
    world.store = world.open()
    fine = world.store.topic("fine")

    def retained() -> bool:
        world.clock.advance(0.6)
        return fine._state.evict_floor == 4

    _until(retained)
    _until(lambda: any("retention" in reason for reason in world.store.health().reasons))

    assert world.store.health().status == "yellow"
    world.store.close()


def _space(**changes: int) -> SpaceSettings:
    return SpaceSettings(
        **{"free_bytes_soft": 0, "free_bytes_hard": 0, "ballast_bytes": 0, **changes}
    )


def test_below_the_hard_mark_appends_are_refused_and_all_else_goes_on():
    world = World(
        space=_space(free_bytes_hard=100_000, free_bytes_soft=200_000, ballast_bytes=50_000)
    )
    topic = world.store.topic("t")
    topic.append_many([b"1", b"2", b"3"])
    look = world.store._space.run_once
    look()
    ballast = "/data/BALLAST" in world.files()
    used = sum(len(world.disk.read(path)) for path in world.files())

    world.disk.capacity = used + 60_000
    look()

    assert ballast
    assert "/data/BALLAST" not in world.files()
    for append in (lambda: topic.append(b"x"), lambda: topic.append_many([b"x"])):
        with pytest.raises(DiskFull, match="free_bytes_hard"):
            append()
    assert payloads(topic) == [b"1", b"2", b"3"]
    assert topic.delete(before=2).deleted == 1
    topic.alter(cap_records=10)
    health = world.store.health()
    assert health.status == "red"
    assert any("free_bytes_hard" in reason for reason in health.reasons)

    world.disk.capacity = None
    look()
    assert topic.append(b"4").first_seq == 4
    assert world.store.health().status == "green"


def test_below_the_soft_mark_health_is_yellow_and_appends_go_on():
    world = World(space=_space(free_bytes_soft=1_000_000))
    topic = world.store.topic("t")
    world.disk.capacity = 500_000

    world.store._space.run_once()

    assert topic.append(b"x").first_seq == 1
    health = world.store.health()
    assert health.status == "yellow"
    assert 0 < health.free_bytes < 500_000


@pytest.mark.parametrize("durability", ["memory", "ephemeral"])
def test_the_hard_mark_counts_for_records_in_memory_too(durability):
    world = World(space=_space(free_bytes_hard=1_000_000))
    topic = world.store.topic("t", durability=durability)
    topic.append(b"x")
    world.disk.capacity = 500_000

    world.store._space.run_once()

    with pytest.raises(DiskFull):
        topic.append(b"y")
