"""Promise: of a unique key at most one job waits or is in flight; a job ends with its ttl."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, TooLarge
from tests.unit.views.queue.world import NAME, World, host_of, queue_of, save


def test_a_second_job_of_a_key_is_answered_with_the_first():
    queue = queue_of(World().store)
    first = queue.put(b"a", key="k")

    second = queue.put(b"b", key=b"k")

    assert (first.existed, second.existed) == (False, True)
    assert second.seq == first.seq
    assert queue.statistics().waiting == 1


@pytest.mark.parametrize("restart", ["none", "kill", "reopen"])
def test_a_key_is_taken_while_its_job_is_in_flight_and_free_when_it_has_ended(restart):
    world = World()
    queue = queue_of(world.store)
    first = queue.put(b"a", key="k")
    (job,) = queue.claim()
    if restart != "none":
        _ = world.kill() if restart == "kill" else world.reopen()
        queue = queue_of(world.store)
    assert queue.put(b"b", key="k").seq == first.seq

    queue.ack(job)

    again = queue.put(b"c", key="k")
    assert not again.existed
    assert again.seq > first.seq


def test_in_a_batch_the_first_of_a_key_is_put():
    queue = queue_of(World().store)
    queue.put(b"there", key="k")

    found = queue.put_many([b"a", b"b", b"c", b"d"], keys=["k", "l", None, "l"])

    assert [(put.seq, put.existed) for put in found] == [
        (1, True),
        (2, False),
        (3, False),
        (2, True),
    ]
    assert [job.data for job in queue.claim(10)] == [b"there", b"b", b"c"]


def test_a_batch_of_which_all_is_there_appends_nothing():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"there", key="k")

    queue.put_many([b"a", b"b"], keys=["k", "k"])

    assert world.store.topic(NAME).head_seq == 1


def test_the_key_of_a_plain_record_is_nobodys():
    world = World()
    queue = queue_of(world.store)
    world.store.topic(NAME).append(b"plain", key="k")

    assert not queue.put(b"a", key="k").existed


def test_many_keys_find_their_job():
    queue = queue_of(World().store)
    keys = [f"key-{n}" for n in range(2000)]
    first = queue.put_many([b"x"] * 2000, keys=keys)
    queue.ack_many(queue.claim(1000))

    second = queue.put_many([b"x"] * 2000, keys=keys)

    assert [put.existed for put in second] == [False] * 1000 + [True] * 1000
    assert [put.seq for put in second[1000:]] == [put.seq for put in first[1000:]]


def test_a_job_ends_when_its_ttl_is_over():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"short", ttl=5)
    queue.put(b"long", ttl=50)
    world.clock.advance(5)

    assert [job.data for job in queue.peek(5)] == [b"long"]
    assert [job.data for job in queue.claim(5)] == [b"long"]
    assert queue.statistics().waiting == 0
    assert queue.dead.count() == 0


def test_a_job_in_flight_is_left_to_its_worker_though_its_ttl_is_over():
    world = World()
    queue = queue_of(world.store, lease_ms=10_000)
    queue.put_many([b"a", b"b", b"c"], ttl=5)
    acked, nacked, _ = queue.claim(3)
    world.clock.advance(6)

    assert acked.ack()
    assert nacked.nack()
    assert queue.claim(5) == []
    assert queue.statistics().in_flight == 1
    world.clock.advance(5)
    assert queue.claim(5) == []
    assert queue.statistics().in_flight == 0


def test_the_key_of_an_expired_job_is_free():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a", key="k", ttl=5)
    world.clock.advance(5)

    assert not queue.put(b"b", key="k").existed


def test_expired_jobs_leave_though_nobody_claims():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"x"] * 50, ttl=5)
    world.clock.advance(5)
    save(world.store)

    queue.maintain()
    save(world.store)
    queue.maintain()

    with host_of(world.store).reading() as fold:
        assert int(fold.jobs.table.tally.sum()) == 0
    assert world.store.topic(NAME).statistics().count == 0


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 256},
        {"priority": -1},
        {"priority": 1.5},
        {"delay": -1},
        {"delay": 1, "at": 5},
        {"at": -5},
        {"at": 2**63},
        {"at": "now"},
        {"ttl": 0},
        {"ttl": -1},
        {"key": ""},
        {"key": 7},
        {"key": "\ud800"},
        {"group": 7},
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_put(options):
    world = World()
    queue = queue_of(world.store)

    with pytest.raises(Invalid):
        queue.put(b"a", **options)

    assert world.store.topic(NAME).head_seq == 0


@pytest.mark.parametrize("options", [{"group": ""}, {"group": "g" * 1025}, {"key": "k" * 4097}])
def test_what_is_too_large_is_refused(options):
    with pytest.raises(TooLarge):
        queue_of(World().store).put(b"a", **options)


@pytest.mark.parametrize(
    "columns", [{"keys": ["a"]}, {"groups": ["a", "b", "c"]}, {"priorities": [1]}]
)
def test_columns_must_fit_the_jobs(columns):
    with pytest.raises(Invalid):
        queue_of(World().store).put_many([b"a", b"b"], **columns)


def test_every_job_of_a_batch_may_have_its_own_priority():
    queue = queue_of(World().store)

    queue.put_many([b"c", b"a", b"b"], priorities=[9, 1, 5])

    assert [job.data for job in queue.claim(5)] == [b"a", b"b", b"c"]


def test_nothing_to_put_is_fine():
    assert queue_of(World().store).put_many([]) == []
