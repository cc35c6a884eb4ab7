"""Promise: a job that has ended is not read from its topic any more, from the moment at which it
ends; a router still forwards it, and another view of the topic still has it.
"""

from __future__ import annotations

import pytest

from tests.unit.views.queue.world import NAME, World, host_of, queue_of, save


def _seen(store) -> tuple[list[int], list[int], list[int], int, int]:
    topic = store.existing_topic(NAME)
    numbers = topic.statistics()
    read = [record.seq for record in topic.read().records]
    live = topic.read_unlocked(0, 100, node=None, size_max=1 << 20)
    picked = [record.seq for record in topic.get_many(range(1, 10)).records]
    return read, [each.seq for each in live.records], picked, numbers.count, numbers.earliest_seq


def _of(*seqs: int) -> tuple[list[int], list[int], list[int], int, int]:
    each = list(seqs)
    return each, each, each, len(each), min(each, default=6)


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
@pytest.mark.parametrize("single", [False, True], ids=["a batch", "single records"])
def test_an_acked_job_is_not_read_any_more(durability, single):
    world = World()
    queue = queue_of(world.store, durability=durability)
    if single:
        for number in range(5):
            queue.put(b"%d" % number)
    else:
        queue.put_many([b"%d" % number for number in range(5)])
    first, second, third, *_ = queue.claim(5)

    queue.ack_many([first, third])
    assert _seen(world.store) == _of(2, 4, 5)

    queue.nack(second)
    assert _seen(world.store) == _of(2, 4, 5)

    save(world.store)
    queue.maintain()
    assert _seen(world.store) == _of(2, 4, 5)

    queue.ack_many(queue.claim(5))
    assert _seen(world.store) == _of(4, 5)  # those are held by the first claim


def test_a_job_that_is_done_stays_hidden_after_a_restart_and_a_rebuild():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"%d" % number for number in range(5)])
    queue.ack_many(queue.claim(2))

    queue = queue_of(world.kill())
    queue.statistics()  # hidden from the first use on
    assert _seen(world.store) == _of(3, 4, 5)

    save(world.store)
    queue.ack_many(queue.claim(1))
    queue = queue_of(world.reopen())
    queue.statistics()
    assert _seen(world.store) == _of(4, 5)

    world.store.rebuild("queue", NAME)
    queue.statistics()
    assert _seen(world.store) == _of(4, 5)

    save(world.store)
    queue.maintain()
    assert _seen(world.store) == _of(4, 5)
    assert not host_of(world.store).fold.jobs.ended, "all of them have left the log"


def test_dead_and_expired_jobs_are_not_read_either():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put(b"bad")
    queue.put(b"late", ttl=5)
    queue.put_many([b"3", b"4", b"5"])
    queue.claim(1)
    world.clock.advance(31)

    queue.claim(1)

    assert _seen(world.store) == _of(3, 4, 5)


def test_another_view_of_the_topic_keeps_jobs_that_have_ended():
    world = World()
    queue = queue_of(world.store)
    world.store.kv(NAME)
    topic = world.store.existing_topic(NAME)
    for number in range(5):
        topic.append(b"%d" % number, key=b"%d" % number)
    queue.ack_many(queue.claim(2))

    assert _seen(world.store) == _of(1, 2, 3, 4, 5)
    assert world.store.kv(NAME).get(b"0") == b"0"


def test_a_topic_whose_jobs_are_all_done_counts_as_empty():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    queue.ack_many(queue.claim(2))

    assert world.store.existing_topic(NAME).statistics().count == 0
    world.store.delete_topic(NAME, if_empty=True)


def test_a_router_forwards_a_job_that_was_done_before_its_turn():
    world = World()
    queue = queue_of(world.store)
    world.store.topic("copies")
    queue.put_many([b"a", b"b", b"c"])
    queue.ack_many(queue.claim(2))

    topic = world.store.existing_topic(NAME)
    stored = topic.read_stored(0, 10, size_max=1 << 20)

    assert [record.seq for record in stored.records] == [1, 2, 3]
    assert [record.seq for record in topic.read().records] == [3]
