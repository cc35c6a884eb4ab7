"""Promise: only the current lease counts, and only time that passes ends it, never the clock."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid
from strandline.views.queue.job import LeaseTicket
from tests.unit.views.queue.world import World, leases_of, queue_of


def _data(jobs) -> list[bytes]:
    return [job.data for job in jobs]


def test_an_acked_job_is_gone_for_good():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a")
    (job,) = queue.claim()

    assert job.ack()

    assert not job.ack()
    queue = queue_of(world.kill())
    world.clock.advance(1000)
    assert queue.claim() == []


def test_a_nacked_job_comes_again_after_its_delay():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a")
    (job,) = queue.claim()

    assert job.nack(delay=5)

    assert queue.claim() == []
    numbers = queue.statistics()
    assert (numbers.ready, numbers.delayed, numbers.in_flight) == (0, 1, 0)
    world.clock.advance(5)
    (again,) = queue.claim()
    assert (again.data, again.deliveries) == (b"a", 2)


def test_a_job_that_is_given_back_does_not_wait_for_a_time_that_was_over():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a", delay=3)
    world.clock.advance(4)
    (job,) = queue.claim()
    world.clock.jump_wall(-100)

    job.nack()

    assert len(queue.claim()) == 1


def test_a_lease_that_runs_out_leads_to_another_delivery():
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put(b"a")
    (first,) = queue.claim()
    world.clock.advance(9.999)
    assert queue.claim() == []

    world.clock.advance(0.001)

    (second,) = queue.claim()
    assert (second.deliveries, second.lease != first.lease) == (2, True)
    assert not first.ack()
    assert not first.nack()
    assert not first.extend()
    assert second.ack()


@pytest.mark.parametrize("seconds", [-1_000_000, 1_000_000])
def test_setting_the_clock_ends_no_lease_and_lengthens_none(seconds):
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put(b"a")
    queue.claim()
    world.clock.advance(5)

    world.clock.jump_wall(seconds)

    assert queue.claim() == []
    world.clock.advance(4.999)
    assert queue.claim() == []
    world.clock.advance(0.001)
    assert len(queue.claim()) == 1


def test_a_lease_that_has_run_out_counts_until_somebody_else_has_the_job():
    world = World()
    queue = queue_of(world.store, lease_ms=1000)
    queue.put_many([b"a", b"b", b"c"])
    first, second, third = queue.claim(3)
    world.clock.advance(5)
    assert queue.statistics().ready == 3

    assert first.ack()
    assert second.extend()
    assert third.nack(delay=1)

    assert queue.claim(5) == []
    world.clock.advance(1)
    assert _data(queue.claim(5)) == [b"b", b"c"]


def test_an_extended_lease_counts_from_the_moment_it_is_extended():
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put(b"a")
    (job,) = queue.claim()
    world.clock.advance(8)

    assert job.extend(lease=5)

    world.clock.advance(4.999)
    assert queue.claim() == []
    world.clock.advance(0.001)
    (again,) = queue.claim()
    assert again.deliveries == 2


def test_of_a_claim_only_what_was_extended_is_kept():
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put_many([b"a", b"b"])
    queue.claim(2)[0].extend(lease=60)

    world.clock.advance(10)

    assert _data(queue.claim(5)) == [b"b"]


def test_a_shorter_extension_shortens_the_lease():
    world = World()
    queue = queue_of(world.store, lease_ms=100_000)
    queue.put(b"a")
    (job,) = queue.claim()

    job.extend(lease=1)
    world.clock.advance(1)

    assert len(queue.claim()) == 1


@pytest.mark.parametrize("saved", [False, True])
def test_after_a_restart_a_lease_counts_in_full_from_the_first_look(saved):
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put_many([b"a", b"b"])
    claimed, extended = queue.claim(2)
    extended.extend(lease=20)
    world.clock.advance(9)
    _ = world.reopen() if saved else world.kill()
    world.clock.advance(1000)
    queue = queue_of(world.store)

    assert queue.claim(2) == []

    world.clock.advance(9.999)
    assert queue.claim(2) == []
    world.clock.advance(0.001)
    assert _data(queue.claim(2)) == [b"a"]
    world.clock.advance(10)
    assert b"b" in _data(queue.claim(2))
    assert not queue.ack(LeaseTicket(claimed.seq, claimed.lease))


def test_a_lease_that_had_run_out_counts_again_after_a_restart():
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put(b"a")
    queue.claim()
    world.clock.advance(11)
    assert queue.statistics().ready == 1

    queue = queue_of(world.reopen())

    assert queue.claim() == []
    world.clock.advance(10)
    assert len(queue.claim()) == 1


def test_a_lease_from_before_a_restart_is_good():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a")
    (job,) = queue.claim()

    queue = queue_of(world.kill())

    assert queue.ack(LeaseTicket(job.seq, job.lease))
    assert not queue.ack(LeaseTicket(job.seq, job.lease))


@pytest.mark.parametrize("reopened", [False, True])
def test_a_ticket_of_a_deleted_queue_is_none_of_the_next_one_with_its_name(reopened):
    world = World()
    queue = queue_of(world.store)
    queue.put(b"old")
    (old,) = queue.claim()
    for name in (queue.name, f"{queue.name}:leases"):
        world.store.delete_topic(name)
    if reopened:
        world.reopen()

    queue = queue_of(world.store)
    queue.put(b"new")
    (new,) = queue.claim()
    ticket = LeaseTicket(old.seq, old.lease)
    settled = [queue.ack(ticket), queue.nack(ticket), queue.extend(ticket)]

    low = (1 << 64) - 1
    assert (old.seq, old.lease & low) == (new.seq, new.lease & low)  # else this test tells nothing
    assert settled == [False, False, False]
    assert queue.ack_many([ticket]).skipped == (old.seq,)
    assert queue.statistics().in_flight == 1
    assert queue.ack(LeaseTicket(new.seq, new.lease))


@pytest.mark.parametrize("lease", [0, -1, 1 << 300, 65_536])
def test_a_lease_that_was_never_given_is_not_held(lease):
    queue = queue_of(World().store)
    queue.put(b"a")
    queue.claim()

    assert not queue.ack(LeaseTicket(1, lease))
    assert queue.statistics().in_flight == 1


def test_what_is_not_held_is_skipped_and_the_rest_is_done():
    queue = queue_of(World().store)
    queue.put_many([b"a", b"b", b"c"])
    a, b, c = queue.claim(3)
    a.ack()
    never = LeaseTicket(999, 999)
    wrong = LeaseTicket(b.seq, c.lease)

    settled = queue.ack_many([a, wrong, c, never])

    assert settled.done == 1
    assert sorted(settled.skipped) == [a.seq, b.seq, 999]
    assert queue.statistics().in_flight == 1


def test_a_job_that_is_named_twice_is_settled_once():
    queue = queue_of(World().store)
    queue.put(b"a")
    (job,) = queue.claim()

    settled = queue.ack_many([job, job])

    assert (settled.done, settled.skipped) == (1, ())


def test_nothing_to_settle_is_fine():
    queue = queue_of(World().store)

    assert queue.ack_many([]).done == 0
    assert queue.nack_many([]).done == 0
    assert queue.extend_many([]).done == 0


def test_a_batch_is_one_record():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"x"] * 100)

    queue.ack_many(queue.claim(100))

    assert leases_of(world.store).head_seq == 2


def test_a_worker_that_is_gone_gives_back_what_it_holds():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b", b"c", b"d"])
    a, b = queue.claim(2, worker="gone")
    (c,) = queue.claim(worker="here")
    (d,) = queue.claim(worker="gone")
    b.extend(lease=100)
    d.ack()

    assert queue.release("gone") == 2

    assert queue.release("gone") == 0
    assert not a.ack()
    assert c.ack()
    again = queue.claim(5)
    assert [(job.data, job.deliveries) for job in again] == [(b"a", 2), (b"b", 2)]


def test_what_a_worker_holds_is_known_after_a_restart():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    queue.claim(1, worker="gone")

    queue = queue_of(world.reopen())

    assert queue.release("gone") == 1


@pytest.mark.parametrize("delay", [-1, float("inf"), "5", True])
def test_a_delay_that_makes_no_sense_is_refused(delay):
    queue = queue_of(World().store)
    queue.put(b"a")
    (job,) = queue.claim()

    with pytest.raises(Invalid):
        job.nack(delay=delay)

    assert job.ack()
