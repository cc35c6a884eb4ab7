"""Promise: ttl, caps and purge bound the jobs that wait; a job in flight is never taken from its
worker, and an append that is refused leaves nothing behind.
"""

from __future__ import annotations

import random

import pytest

from strandline.config.settings import ViewSettings
from strandline.errors import Invalid, MemoryPressure, TooLarge, TopicFull
from tests.unit.views.queue.world import NAME, World, host_of, queue_of, rebuilt_digest, save

MS = 1000


def _data(jobs) -> list[bytes]:
    return [job.data for job in jobs]


def _put(world: World, how: str, *data: bytes) -> None:
    """As a job, or as a plain record in one of the ways in which a topic takes some."""
    topic = world.store.topic(NAME)
    if how == "put":
        world.store.queue(NAME).put_many(data)
    elif how == "append_many":
        topic.append_many(data)
    else:
        for each in data:
            topic.append(each)


HOW = pytest.mark.parametrize("how", ["put", "append", "append_many"])
CLASSES = pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])


@HOW
@CLASSES
@pytest.mark.parametrize("cap", [{"cap_records": 3}, {"cap_bytes": 6}], ids=["count", "bytes"])
def test_a_queue_that_rejects_takes_no_more_than_its_cap(how, durability, cap):
    world = World()
    queue = queue_of(world.store, discard="reject", durability=durability, **cap)
    _put(world, how, b"j1", b"j2", b"j3")

    with pytest.raises(TopicFull, match="purge"):
        _put(world, how, b"j4")
    assert queue.statistics().waiting == 3

    (job,) = queue.claim(1)  # what is in flight does not count
    _put(world, how, b"j5")
    with pytest.raises(TopicFull):
        _put(world, how, b"j6")

    job.nack()  # over the cap, and nothing is lost
    with pytest.raises(TopicFull):
        _put(world, how, b"j7")
    assert _data(queue.claim(10)) == [b"j1", b"j2", b"j3", b"j5"]
    _put(world, how, b"j8", b"j9")
    assert queue.statistics().waiting == 2


@pytest.mark.parametrize("how", ["put", "append_many"])
def test_a_batch_that_can_never_fit_says_so(how):
    world = World()
    queue_of(world.store, discard="reject", cap_records=2)

    with pytest.raises(TooLarge):
        _put(world, how, b"1", b"2", b"3")
    assert world.store.topic(NAME).head_seq == 0


@HOW
@pytest.mark.parametrize("cap", [{"cap_records": 3}, {"cap_bytes": 6}], ids=["count", "bytes"])
def test_a_queue_that_discards_ends_its_oldest_waiting_jobs(how, cap):
    world = World()
    queue = queue_of(world.store, **cap)
    _put(world, "put", b"j1", b"j2")
    (job,) = queue.claim(1)

    _put(world, how, b"j3", b"j4", b"j5")

    assert _data(queue.claim(10)) == [b"j3", b"j4", b"j5"]
    assert job.ack()
    assert queue.statistics().waiting == 0


def test_a_plain_append_over_the_cap_is_discarded_by_the_turn_of_the_job():
    world = World()
    queue = queue_of(world.store, cap_records=2)
    _put(world, "append", b"1", b"2", b"3")

    host_of(world.store).periodic_work()

    assert queue.statistics().waiting == 2
    assert [record.data for record in world.store.topic(NAME).read().records] == [b"2", b"3"]


@HOW
def test_jobs_that_are_older_than_the_ttl_end_unless_they_are_in_flight(how):
    world = World()
    queue = queue_of(world.store, ttl_ms=10 * MS, lease_ms=60 * MS)
    _put(world, how, b"held", b"old")
    (held,) = queue.claim(1)
    world.clock.advance(6)
    _put(world, how, b"young")
    world.clock.advance(5)

    assert _data(queue.peek(9)) == [b"young"]
    assert _data(queue.claim(9)) == [b"young"]

    assert held.nack()
    assert queue.claim(9) == [], "given back, it is too old to be given out"
    assert queue.statistics().in_flight == 1


def test_a_job_ends_when_it_is_older_than_the_ttl_and_not_before():
    world = World()
    queue = queue_of(world.store, ttl_ms=10 * MS)
    put = world.store.topic(NAME).append(b"1")
    (record,) = world.store.topic(NAME).get_many([put.first_seq]).records
    world.clock.advance((record.ts + 10_000_000 - world.clock.now_us()) / 1e6)

    queue.maintain()
    assert queue.statistics().waiting == 1

    world.clock.advance(0.001)
    queue.maintain()
    assert queue.statistics().waiting == 0


def test_a_ttl_lets_a_queue_that_rejects_take_jobs_again():
    world = World()
    queue = queue_of(world.store, discard="reject", cap_records=2, ttl_ms=10 * MS)
    _put(world, "append", b"1", b"2")
    world.clock.advance(11)

    _put(world, "append", b"3")

    assert _data(queue.claim(9)) == [b"3"]


def test_an_old_job_that_is_young_again_when_the_clock_is_set_back_stays():
    world = World()
    queue = queue_of(world.store, ttl_ms=10 * MS)
    queue.put(b"a")
    (job,) = queue.claim(1, lease=1000)
    queue.put(b"b")
    world.clock.advance(11)
    queue.maintain()
    world.clock.jump_wall(-10)
    job.nack()

    assert _data(queue.claim(9)) == [b"a"]


def test_settings_may_change_at_any_time_and_count_for_jobs_that_are_there():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"1", b"22", b"333", b"4444"], tag="t")
    topic = world.store.topic(NAME)

    topic.alter(cap_bytes=11)  # each has a byte of tag
    queue.put(b"")
    assert _data(queue.peek(9)) == [b"333", b"4444", b""]

    topic.alter(cap_bytes=0, cap_records=1, discard="reject")
    with pytest.raises(TopicFull):
        queue.put(b"more")
    topic.alter(discard="old")
    queue.put(b"last")
    assert _data(queue.claim(9)) == [b"last"]
    topic.alter(cap_records=0)
    _put(world, "append", b"1", b"2", b"3")
    assert queue.statistics().waiting == 3


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("discard", ["old", "reject"])
def test_bounds_hold_after_a_kill_also_for_a_plain_append_to_a_queue_that_is_not_in_use(
    saved, discard
):
    world = World()
    queue = queue_of(world.store, discard=discard, cap_bytes=6)
    queue.put_many([b"j1", b"j2", b"j3"])
    queue.claim(1)
    if saved:
        save(world.store)

    world.kill()
    topic = world.store.topic(NAME)
    topic.append(b"j4")
    if discard == "reject":
        with pytest.raises(TopicFull):
            topic.append(b"j5")
    else:
        topic.append(b"j5")

    waiting = _data(queue_of(world.store).claim(9))
    assert waiting == ([b"j2", b"j3", b"j4"] if discard == "reject" else [b"j3", b"j4", b"j5"])
    digest = host_of(world.store).digest()
    assert rebuilt_digest(world.store) == digest


def test_a_cap_counts_seqs_that_were_lost_as_nothing():
    world = World()
    queue_of(world.store, discard="reject", cap_records=2, durability="disk").put(b"1")
    world.store.topic(NAME).sync()
    world.store.topic(f"{NAME}:leases").sync()
    disk = world.disk.crash(random.Random(1))
    world.store.close()
    world.disk = disk
    world.store = world.open()
    topic = world.store.topic(NAME)

    topic.append(b"2")

    with pytest.raises(TopicFull):
        topic.append(b"3")


def test_plain_appends_to_a_queue_are_admitted_by_the_memory_of_jobs():
    world = World(views=ViewSettings(memory_bytes=8 << 20))
    queue = queue_of(world.store)
    topic = world.store.topic(NAME)
    batch = [b""] * 5_000

    def flood(append) -> int:
        for taken in range(0, 3_000_000, len(batch)):
            try:
                append(batch)
            except MemoryPressure:
                return taken
        return 3_000_000

    taken = flood(topic.append_many)
    for append in (queue.put_many, topic.append_many, topic.append):
        assert flood(append) == 0
    assert taken < 1_000_000
    assert queue.statistics().waiting == topic.statistics().count == taken

    queue.purge()
    save(world.store)
    queue.maintain()
    assert flood(topic.append_many) > 0


def test_purge_takes_waiting_jobs_of_a_tag_of_a_range_or_all():
    world = World()
    queue = queue_of(world.store)
    for number, tag in enumerate(["eu-1", "eu-2", "us", None, "eu-1", "us"], 1):
        queue.put(b"%d" % number, tag=tag, key=f"k{number}", group="g" if number > 4 else None)
    queue.claim(1)

    assert queue.purge(tag="eu*", dry_run=True) == 2
    assert queue.purge(tag="eu*", to_seq=4) == 1
    assert queue.purge(tag="nothing") == 0
    assert queue.purge(from_seq=4, to_seq=4) == 1
    assert queue.purge(tag="us", from_seq=4) == 1
    assert [record.seq for record in world.store.topic(NAME).read().records] == [1, 3, 5]
    assert not queue.put(b"again", key="k6").existed
    assert queue.purge() == 3
    assert queue.purge() == 0
    assert queue.statistics().in_flight == 1


@pytest.mark.parametrize(
    "wrong",
    [{"tag": "a*b"}, {"tag": 7}, {"from_seq": 0}, {"to_seq": -1}, {"from_seq": "1"}],
)
def test_a_purge_that_makes_no_sense_is_refused(wrong):
    queue = queue_of(World().store)
    queue.put(b"a")

    with pytest.raises(Invalid):
        queue.purge(**wrong)
    assert queue.statistics().waiting == 1


@pytest.mark.parametrize("bound", [{"ttl_ms": 1}, {"cap_records": 1}, {"cap_bytes": 1}])
def test_a_topic_with_other_views_says_why_it_cannot_be_bounded(bound):
    world = World()
    queue_of(world.store, **bound)

    with pytest.raises(Invalid, match="only view"):
        world.store.kv(NAME)
    with pytest.raises(Invalid, match="only view"):
        world.store.kv("map", **bound)


def test_an_ephemeral_queue_is_empty_after_a_restart_and_its_leases_are_new():
    world = World()
    queue = queue_of(world.store, durability="ephemeral")
    queue.put_many([b"1", b"2"])
    (job,) = queue.claim(1)
    save(world.store)

    queue = queue_of(world.reopen())

    assert queue.claim(9) == []
    assert not queue.ack(job)
    put = queue.put(b"3")
    assert put.seq > 2
    (again,) = queue.claim(9)
    assert (again.data, again.lease != job.lease, again.ack()) == (b"3", True, True)
