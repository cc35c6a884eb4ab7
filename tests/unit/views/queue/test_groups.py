"""Promise: jobs of a group are never in flight together, and go out in the order of their seqs."""

from __future__ import annotations

import pytest

from tests.unit.views.queue.world import NAME, World, queue_of


def _data(jobs) -> list[bytes]:
    return [job.data for job in jobs]


def test_one_job_of_a_group_goes_out_at_a_time():
    queue = queue_of(World().store)
    queue.put_many([b"a1", b"b1", b"a2", b"b2", b"-"], groups=["a", "b", "a", "b", None])

    first = queue.claim(10)

    assert _data(first) == [b"a1", b"b1", b"-"]
    assert queue.claim(10) == []
    assert queue.statistics().blocked == 2
    first[0].ack()
    assert _data(queue.claim(10)) == [b"a2"]


def test_the_order_of_a_group_counts_more_than_priority():
    queue = queue_of(World().store)
    queue.put(b"first", group="g", priority=200)
    queue.put(b"second", group="g", priority=0)

    (job,) = queue.claim(10)

    assert job.data == b"first"
    job.ack()
    assert _data(queue.claim(10)) == [b"second"]


@pytest.mark.parametrize("how", ["nack", "lapse", "delay"])
def test_a_group_waits_for_its_oldest_job_whatever_that_waits_for(how):
    world = World()
    queue = queue_of(world.store, lease_ms=1000)
    queue.put(b"first", group="g", delay=5 if how == "delay" else 0)
    queue.put(b"second", group="g")
    claimed = queue.claim(10)
    if how == "nack":
        claimed[0].nack(delay=5)

    assert queue.claim(10) == []
    world.clock.advance(5)

    assert _data(queue.claim(10)) == [b"first"]


def test_the_next_job_waits_for_its_own_time_when_it_has_become_the_oldest():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"first", group="g")
    queue.put(b"second", group="g", delay=60)
    (first,) = queue.claim(10)
    first.ack()

    assert queue.claim(10) == []
    assert queue.statistics().delayed == 1
    world.clock.advance(60)

    assert _data(queue.claim(10)) == [b"second"]


def test_jobs_that_expire_in_the_middle_of_a_group_do_not_stop_it():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"1", group="g")
    queue.put(b"2", group="g", ttl=5)
    queue.put(b"3", group="g", ttl=5)
    queue.put(b"4", group="g")
    (first,) = queue.claim(10)
    world.clock.advance(6)
    assert queue.claim(10) == []
    assert queue.statistics().blocked == 1

    first.ack()

    (last,) = queue.claim(10)
    assert last.data == b"4"
    last.ack()
    queue.put(b"5", group="g")
    assert _data(queue.claim(10)) == [b"5"]


def test_a_job_that_expired_in_its_group_does_not_come_back_when_the_clock_is_set_back():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"1", group="g")
    queue.put(b"2", group="g", ttl=5)
    queue.put(b"3", group="g")
    (first,) = queue.claim(10)
    world.clock.advance(6)
    queue.claim(10)

    world.clock.jump_wall(-100)
    first.ack()

    assert _data(queue.claim(10)) == [b"3"]


def test_a_group_whose_last_job_expired_while_it_was_blocked_goes_on_with_the_next():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"1", group="g")
    queue.put(b"2", group="g", ttl=5)
    (first,) = queue.claim(10)
    world.clock.advance(6)
    queue.claim(10)
    queue.put(b"3", group="g")
    assert queue.statistics().blocked == 1

    first.ack()

    assert _data(queue.claim(10)) == [b"3"]


def test_a_buried_job_makes_room_for_the_next_of_its_group():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put(b"poison", group="g")
    queue.put(b"next", group="g")
    queue.claim()[0].nack()

    assert _data(queue.claim(10)) == [b"next"]
    assert [letter.data for letter in queue.dead.letters()] == [b"poison"]


@pytest.mark.parametrize("killed", [False, True])
def test_groups_are_kept_over_a_restart(killed):
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"1", b"2", b"3"], groups=["g", "g", "g"])
    queue.claim()[0].ack()
    queue.claim()

    _ = world.kill() if killed else world.reopen()
    queue = queue_of(world.store)

    queue.put(b"4", group="g")
    assert queue.claim(10) == []
    world.clock.advance(31)
    for expected in (b"2", b"3", b"4"):
        (job,) = queue.claim(10)
        assert job.data == expected
        job.ack()


def test_many_groups_find_their_way():
    queue = queue_of(World().store)
    for turn in range(3):
        queue.put_many([b"%d" % turn] * 500, groups=[f"g{n}" for n in range(500)])

    for turn in range(3):
        claimed = queue.claim(1000)
        assert _data(claimed) == [b"%d" % turn] * 500
        queue.ack_many(claimed)

    assert queue.statistics().waiting == 0


def test_a_plain_record_with_a_key_is_in_no_group():
    world = World()
    queue = queue_of(world.store)

    world.store.topic(NAME).append([b"a", b"b"], key="same")

    assert _data(queue.claim(10)) == [b"a", b"b"]
