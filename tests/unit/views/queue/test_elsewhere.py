"""Promise: who works in another process can do all a holder can, and waits without a thread."""

from __future__ import annotations

import pytest

from strandline.views.queue.dead_letter_filter import DeadLetterFilter
from strandline.views.queue.job import LeaseTicket
from tests.unit.views.queue.world import World, queue_of


def test_a_worker_finds_its_own_jobs_by_their_seqs_and_no_others():
    queue = queue_of(World().store)
    queue.put_many([b"a", b"b", b"c"])
    mine, other = queue.claim(1, worker="w1"), queue.claim(1, worker="w2")

    found = queue.held("w1", [1, 2, 3, 99])

    assert found == [LeaseTicket(mine[0].seq, mine[0].lease)]
    assert queue.ack_many(found).done == 1
    assert other[0].ack()


def test_a_lease_that_has_run_out_is_not_in_hand_though_it_may_still_be_acked():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    long, short = *queue.claim(lease=100), *queue.claim(lease=1)

    before = queue.still_leased([long, short])
    world.clock.advance(2)

    assert before == [True, True]
    assert queue.still_leased([long, short]) == [True, False]
    assert short.ack()
    assert queue.still_leased([]) == []


def test_whoever_may_claim_is_called_when_something_changes():
    queue = queue_of(World().store)
    calls = []

    with queue.subscribe(lambda: calls.append("ring")):
        queue.put(b"a")
        (job,) = queue.claim()
        job.nack()
    queue.put(b"b")

    assert calls == ["ring", "ring"]


def test_it_is_told_when_time_alone_makes_a_job_ready():
    world = World()
    queue = queue_of(world.store)
    nothing = queue.due_s()
    queue.put(b"a", delay=30)

    delayed = queue.due_s()
    queue.pause()

    assert nothing is None
    assert delayed == pytest.approx(30)
    assert queue.due_s() is None


def test_the_meta_of_a_plain_record_comes_with_its_job_and_that_of_the_queue_does_not():
    store = World().store
    queue = queue_of(store)
    store.topic("jobs").append(b"plain", meta=b'{"from": "x"}')
    queue.put(b"own", priority=200)

    assert [job.meta for job in queue.claim(2)] == [b'{"from": "x"}', None]


def test_a_lease_is_as_long_as_the_options_say():
    assert queue_of(World().store, lease_ms=1234).lease_ms == 1234


@pytest.mark.parametrize(
    ("meant", "found"),
    [
        (DeadLetterFilter(), [1, 2, 3]),
        (DeadLetterFilter(seqs=frozenset({2, 9})), [2]),
        (DeadLetterFilter(key=b"k"), [1]),
        (DeadLetterFilter(tag="eu"), []),
        (DeadLetterFilter(tag="eu*"), [1, 2, 3]),
        (DeadLetterFilter(tag="eu-1"), [1, 2, 3]),
        (DeadLetterFilter(group=b"g"), [2]),
        (DeadLetterFilter(contains=b"ee"), [3]),
        (DeadLetterFilter(contains=b"e", key=b"k"), []),
        (DeadLetterFilter(reason="deliveries"), [1, 2, 3]),
        (DeadLetterFilter(reason="other"), []),
    ],
)
def test_dead_letters_are_meant_that_are_all_of_it(meant, found):
    queue = _worn_out()

    assert queue.dead.redrive(meant.predicate(), dry_run=True).matched == len(found)
    every = queue.dead.letters()
    assert [
        each.seq for each in every if meant.predicate() is None or meant.predicate()(each)
    ] == found


def test_dead_letters_are_meant_by_when_they_were_given_up():
    queue = _worn_out()
    moment = queue.dead.letters()[0].ts

    assert queue.dead.purge(DeadLetterFilter(before_us=moment).predicate(), dry_run=True) == 0
    assert queue.dead.purge(DeadLetterFilter(after_us=moment).predicate(), dry_run=True) == 3
    assert queue.dead.purge(DeadLetterFilter(before_us=moment + 1).predicate(), dry_run=True) == 3
    assert queue.dead.purge(DeadLetterFilter(after_us=moment + 1).predicate(), dry_run=True) == 0


def _worn_out():
    queue = queue_of(World().store, deliveries_max=1)
    queue.put(b"a", key="k", tag="eu-1")
    queue.put(b"b", group="g", tag="eu-1")
    queue.put(b"tree", tag="eu-1")
    queue.nack_many(queue.claim(3))
    assert queue.claim(3) == []
    return queue
