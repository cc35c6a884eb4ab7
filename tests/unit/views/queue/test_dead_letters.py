"""Promise: a job that was given out too often becomes a dead letter once, whatever fails meanwhile,
and a dead letter that is put back is a job once."""

from __future__ import annotations

import struct
import threading

import msgspec
import pytest

from strandline.errors import Invalid
from strandline.records import Record
from strandline.views.queue import dead_letter_codec
from strandline.views.queue.codec import StoredJobOptions, decode_job, encode_job, foreign_meta
from tests.unit.store.world import SMALL_WAL
from tests.unit.views.queue.crashes import FOUR_SHARDS, left_by_crashes, restarted
from tests.unit.views.queue.world import NAME, World, host_of, queue_of, rebuilt_digest

DEAD = f"{NAME}:dead"


def _wear_out(world: World, queue, times: int = 1) -> None:
    """Claim everything and let the leases run out."""
    for _ in range(times):
        queue.claim(100)
        world.clock.advance(31)


def test_a_job_is_given_out_so_often_and_then_is_a_dead_letter():
    world = World()
    queue = queue_of(world.store)
    put = queue.put(b"poison", priority=3, key="k", group="g", tag="t")
    put_ts = world.clock.now_us()
    for delivery in range(1, 6):
        (job,) = queue.claim()
        assert job.deliveries == delivery
        world.clock.advance(31)

    assert queue.claim() == []

    (dead,) = queue.dead.letters()
    assert (dead.data, dead.key, dead.tag, dead.group) == (b"poison", b"k", "t", b"g")
    assert (dead.job_seq, dead.put_ts, dead.deliveries) == (put.seq, put_ts, 5)
    assert (dead.reason, dead.priority, dead.ts) == ("deliveries", 3, world.clock.now_us())
    numbers = queue.statistics()
    assert (numbers.waiting, numbers.in_flight, numbers.dying, numbers.dead) == (0, 0, 0, 1)
    assert not queue.put(b"again", key="k").existed


def test_queues_may_share_a_topic_of_dead_letters_and_each_has_its_own():
    world = World()
    mails = world.store.queue("mails", deliveries_max=1, dead_letter="failed")
    calls = world.store.queue("calls", deliveries_max=1, dead_letter="failed")
    mails.put_many([b"m1", b"m2"])
    calls.put(b"c1")
    world.store.topic("failed").append(b"by hand")
    for queue in (mails, calls):
        _wear_out(world, queue)
        queue.claim(100)

    assert [each.data for each in mails.dead.letters()] == [b"m1", b"m2"]
    assert [each.data for each in calls.dead.letters()] == [b"c1"]
    assert mails.dead.redrive().redriven == 2
    assert calls.dead.purge() == 1
    assert sorted(job.data for job in mails.claim(100)) == [b"m1", b"m2"]
    assert world.store.topic("failed").read().data == [b"by hand"]
    assert "mails:dead" not in world.store.topics()


def test_each_queue_counts_its_own_letters_of_a_topic_that_they_share():
    world = World()
    mails = world.store.queue("mails", deliveries_max=1, dead_letter="failed")
    calls = world.store.queue("calls", deliveries_max=1, dead_letter="failed")
    told = []

    def tell() -> None:
        numbers = [queue.statistics().dead for queue in (mails, calls)]
        assert numbers == [queue.dead.count() for queue in (mails, calls)]
        told.append(tuple(numbers))

    tell()
    mails.put_many([b"m1", b"m2", b"m3"])
    calls.put(b"c1")
    world.store.topic("failed").append(b"by hand")
    for queue in (mails, calls):
        _wear_out(world, queue)
        queue.claim(100)
    tell()
    mails.dead.purge(lambda letter: letter.data == b"m2")
    tell()
    calls.dead.redrive()
    tell()
    _wear_out(world, calls)
    calls.claim(100)
    tell()
    world.kill()
    mails, calls = (world.store.queue(name) for name in ("mails", "calls"))
    tell()
    world.store.topic("failed").alter(cap_records=1)
    tell()

    assert told == [(0, 0), (3, 1), (2, 1), (2, 0), (2, 1), (2, 1), (0, 1)]


@pytest.mark.parametrize("shards", [SMALL_WAL, FOUR_SHARDS])
def test_a_named_topic_of_dead_letters_is_known_after_a_kill(shards):
    world = World(wal=shards)
    queue = world.store.queue("mails", deliveries_max=1, dead_letter="failed")
    queue.put_many([b"a", b"b"])
    _wear_out(world, queue)
    queue.claim(100)
    world.kill()

    queue = world.store.queue("mails")
    queue.put(b"c")
    _wear_out(world, queue)
    queue.claim(100)

    assert [each.data for each in queue.dead.letters()] == [b"a", b"b", b"c"]


def test_where_dead_letters_go_is_checked_and_does_not_change():
    world = World()
    world.store.kv("map")
    world.store.queue("mails", dead_letter="failed")

    for wrong in ("mails2", "map", "mails", "a/b"):
        with pytest.raises(Invalid):
            world.store.queue("mails2", dead_letter=wrong)
    for other in (None, "elsewhere"):
        with pytest.raises(Invalid, match="cannot change"):
            world.store.views.alter("queue", "mails", dead_letter=other)
    world.store.views.alter("queue", "mails", lease_ms=1000)
    assert world.store.topic("mails").config.views.queue.dead_letter == "failed"


def test_with_no_maximum_a_job_is_given_out_for_ever():
    world = World()
    queue = queue_of(world.store, deliveries_max=0)
    queue.put(b"a")

    _wear_out(world, queue, 20)

    assert queue.claim()[0].deliveries == 21
    assert queue.dead.count() == 0


def test_worn_out_jobs_do_not_keep_others_from_a_claim():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put_many([b"p%d" % n for n in range(700)])
    _wear_out(world, queue, 7)
    queue.put(b"fresh")

    assert [job.data for job in queue.claim(5)] == [b"fresh"]
    assert queue.dead.count() == 700


def test_worn_out_jobs_far_behind_are_buried_too():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put(b"worn", priority=200)
    _wear_out(world, queue)
    queue.put_many([b"fresh"] * 700)

    assert len(queue.claim(1000)) == 700
    assert queue.dead.count() == 1


def test_threads_that_redrive_at_once_put_back_every_letter_once():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put_many([b"%d" % n for n in range(1200)])
    for _ in range(12):
        queue.claim(100)
    world.clock.advance(31)
    queue.claim()

    threads = [threading.Thread(target=queue.dead.redrive, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert queue.statistics().ready == 1200
    assert queue.dead.count() == 0


def test_a_limit_that_makes_no_sense_is_refused():
    queue = queue_of(World().store)

    with pytest.raises(Invalid):
        queue.dead.redrive(limit=0)


def test_a_read_only_queue_tells_what_it_has_and_gives_nothing_out():
    world = World()
    queue_of(world.store).put(b"a")
    world.store.close()
    store = world.open(readonly=True)
    queue = queue_of(store)

    assert (queue.statistics().ready, queue.statistics().dead) == (1, 0)
    assert [job.data for job in queue.peek()] == [b"a"]
    assert queue.dead.letters() == []
    assert queue.dead.redrive(dry_run=True).matched == 0
    assert queue.dead.purge(dry_run=True) == 0
    with pytest.raises(Invalid):
        queue.claim()
    store.close()


def test_large_dead_letters_are_buried_a_few_at_a_time():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    for n in range(20):
        queue.put(b"%02d" % n * 500_000)
    _wear_out(world, queue)

    assert queue.claim(100) == []

    letters = queue.dead.letters()
    assert [dead.data[:2] for dead in letters] == [b"%02d" % n for n in range(20)]


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_crash_at_any_moment_of_a_burial_leaves_one_letter_of_each(durability):
    world = World(wal=FOUR_SHARDS)
    queue = queue_of(world.store, deliveries_max=1, durability=durability)
    queue.put_many([b"a", b"b"])
    _wear_out(world, queue)
    world.store.sync()

    left = left_by_crashes(world, queue.claim)

    assert queue.dead.count() == 2
    assert len(left) > 20
    for disk in left:
        again = restarted(world, disk)
        queue = queue_of(again.store)
        queue.statistics()
        again.clock.advance(31)
        assert queue.claim(10) == []
        assert [dead.data for dead in queue.dead.letters()] == [b"a", b"b"]
        digest = host_of(again.store).digest()
        assert rebuilt_digest(again.store) == digest
        again.store.close()


@pytest.mark.parametrize("redrives_again", [False, True])
@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_crash_at_any_moment_of_a_redrive_leaves_a_letter_or_a_job_of_each(
    durability, redrives_again
):
    world = World(wal=FOUR_SHARDS)
    queue = queue_of(world.store, deliveries_max=1, durability=durability)
    queue.put_many([b"a", b"b"])
    _wear_out(world, queue)
    queue.claim()
    world.store.sync()

    left = left_by_crashes(world, queue.dead.redrive)

    assert queue.dead.count() == 0
    assert len(left) > 10
    for disk in left:
        again = restarted(world, disk)
        queue = queue_of(again.store)
        if redrives_again:
            queue.dead.redrive()
        jobs = [job.data for job in queue.claim(10)]
        letters = [dead.data for dead in queue.dead.letters()]
        assert sorted(jobs + letters) == [b"a", b"b"]
        assert not (redrives_again and letters)
        again.store.close()


def test_a_redriven_letter_is_a_job_with_a_new_life():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put(b"a", priority=7, group="g", key="k", tag="t", ttl=10_000)
    queue.put(b"b", delay=1)
    world.clock.advance(1)
    _wear_out(world, queue)
    queue.claim()

    done = queue.dead.redrive()

    assert (done.matched, done.redriven, done.kept) == (2, 2, ())
    assert queue.dead.count() == 0
    a, b = queue.claim(5)
    assert [(job.data, job.deliveries) for job in (a, b)] == [(b"a", 1), (b"b", 1)]
    assert (a.key, a.tag) == (b"k", "t")
    assert queue.put(b"c", key="k").existed
    world.clock.advance(20_000)
    queue.claim()
    assert [dead.priority for dead in queue.dead.letters()] == [7, 100]


def test_a_dry_run_tells_what_would_be_done_and_does_nothing():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put_many([b"a", b"b", b"c"], keys=["k", None, None])
    _wear_out(world, queue)
    queue.claim()
    queue.put(b"other", key="k")

    told = queue.dead.redrive(lambda dead: dead.data != b"c", dry_run=True)
    purged = queue.dead.purge(dry_run=True)

    assert (told.matched, told.redriven, told.kept) == (2, 1, (1,))
    assert purged == 3
    assert (queue.dead.count(), queue.statistics().waiting) == (3, 1)
    assert queue.dead.redrive(lambda dead: dead.data != b"c") == told
    assert [dead.data for dead in queue.dead.letters()] == [b"a", b"c"]


def test_of_two_letters_with_the_same_key_one_is_put_back():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    for data in (b"a", b"b"):
        queue.put(data, key="k")
        _wear_out(world, queue)
        queue.claim()

    done = queue.dead.redrive()

    assert (done.redriven, done.kept) == (1, (2,))
    assert [job.data for job in queue.claim(5)] == [b"a"]


def test_letters_are_chosen_by_what_they_say_and_by_how_many():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put_many([b"%d" % n for n in range(1200)])
    for _ in range(12):
        queue.claim(100)
    world.clock.advance(31)
    queue.claim()

    assert queue.dead.redrive(limit=600).redriven == 600
    assert queue.dead.redrive(lambda dead: dead.data == b"1000").redriven == 1
    assert queue.dead.purge(lambda dead: dead.job_seq <= 1000) == 400
    assert queue.dead.purge() == 199
    assert queue.dead.purge() == 0
    assert queue.statistics().ready == 601


def test_letters_are_read_page_by_page():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    queue.put_many([b"a", b"b", b"c"])
    _wear_out(world, queue)
    queue.claim()

    first = queue.dead.letters(limit=2)

    assert [dead.data for dead in first] == [b"a", b"b"]
    assert [dead.data for dead in queue.dead.letters(after=first[-1].seq)] == [b"c"]


def test_a_letter_that_somebody_appended_by_hand_can_be_put_back():
    world = World()
    queue = queue_of(world.store)
    queue.dead.count()
    world.store.existing_topic(DEAD).append(b"by hand", key="k")

    (dead,) = queue.dead.letters()
    assert (dead.reason, dead.job_seq, dead.deliveries) == ("", 0, 0)
    assert queue.dead.redrive().redriven == 1
    assert queue.claim()[0].data == b"by hand"


METAS = [
    None,
    b'{"trace": [1, 2.50]}',
    b" {}",
    b"\xff\0",
    b"not JSON",
    encode_job(StoredJobOptions(priority=5, group=b"group", unique=True)),
    encode_job(StoredJobOptions(group=b"\xff")),
]


@pytest.mark.parametrize("meta", METAS)
def test_a_letter_tells_what_was_written_into_it(meta):
    record = Record(seq=7, ts=9, data=b"d", key=b"k", meta=meta)
    written = dead_letter_codec.encode(record, 3, "why", "jobs")

    found = dead_letter_codec.decode(Record(seq=1, ts=20, data=b"d", key=b"k", meta=written))

    job = decode_job(meta)
    assert (found.job_seq, found.put_ts, found.deliveries) == (7, 9, 3)
    assert (found.reason, found.queue, found.meta) == ("why", "jobs", foreign_meta(meta))
    assert (found.group, found.priority, found.unique) == (job.group, job.priority, job.unique)


def test_the_meta_of_a_letter_can_be_read_without_the_queue():
    world = World()
    queue = queue_of(world.store, deliveries_max=1)
    world.store.topic(NAME).append(b"bad", meta=b'{"trace": "t-1"}')
    queue.put(b"worse", group="eu", priority=7)
    _wear_out(world, queue, 2)
    queue.claim()

    records = world.store.existing_topic(DEAD).read().records

    told = [msgspec.json.decode(record.meta) for record in records]
    common = {
        "$dead_letter_from": NAME,
        "$dead_letter_deliveries": 1,
        "$dead_letter_reason": "deliveries",
    }
    assert [{**common, **each} for each in told] == told
    first, second = sorted(told, key=lambda each: each["$dead_letter_src_seq"])
    assert (first["$dead_letter_src_seq"], second["$dead_letter_src_seq"]) == (1, 2)
    assert first["$dead_letter_meta"] == {"trace": "t-1"}
    assert (second["$dead_letter_group"], second["$dead_letter_priority"]) == ("eu", 7)


def test_a_letter_of_the_binary_form_is_still_read():
    own = encode_job(StoredJobOptions(priority=5, group=b"group", unique=True))
    binary = struct.pack("<5sqqHB", b"\0dead", 7, 9, 3, 3) + b"why" + own

    found = dead_letter_codec.decode(Record(seq=1, ts=20, data=b"d", key=b"k", meta=binary))

    assert (found.job_seq, found.put_ts, found.deliveries, found.reason) == (7, 9, 3, "why")
    assert (found.group, found.priority, found.unique) == (b"group", 5, True)
    assert (found.meta, found.queue) == (None, "")


@pytest.mark.parametrize("meta", [b'{"$dead_letter_from":', b'{"$dead_letter_from":7}', b"\0dead"])
def test_a_meta_that_only_begins_as_that_of_a_letter_is_one_of_its_own(meta):
    found = dead_letter_codec.decode(Record(seq=1, ts=20, data=b"d", meta=meta))

    assert (found.job_seq, found.reason, found.meta) == (0, "", meta)


def test_a_meta_that_leaves_no_room_is_left_out():
    record = Record(seq=7, ts=9, data=b"d", meta=b"m" * 16 * 1024)

    meta = dead_letter_codec.encode(record, 3, "why", "jobs")

    found = dead_letter_codec.decode(Record(seq=1, ts=20, data=b"d", meta=meta))
    assert (found.job_seq, found.meta) == (7, None)
