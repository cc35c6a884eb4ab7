"""Promise: what the log keeps of a queue follows the jobs that are alive, and what is left folds
into the same state, after a crash between any two steps."""

from __future__ import annotations

import random

import pytest

from strandline.config.settings import LimitSettings
from strandline.views.queue import log_trim
from tests.unit.views.queue.world import (
    NAME,
    World,
    host_of,
    leases_of,
    queue_of,
    rebuilt_digest,
    save,
)


def _work(queue, count: int) -> None:
    """Put jobs and finish all but every tenth of them."""
    queue.put_many([b"job %d" % n for n in range(count)])
    jobs = queue.claim(count)
    queue.ack_many([job for job in jobs if job.seq % 10])
    queue.nack_many([job for job in jobs if not job.seq % 10])


def _stored(world: World) -> list[bytes]:
    """Jobs that the log has, those that have ended included."""
    page = world.store.topic(NAME).read_stored(0, 1000, size_max=1 << 20)
    return [record.data for record in page.records]


def test_ended_jobs_leave_the_log_when_the_saved_state_knows_of_it():
    world = World()
    queue = queue_of(world.store)
    _work(queue, 100)
    queue.maintain()
    assert len(_stored(world)) == 100

    save(world.store)
    queue.maintain()

    assert len(_stored(world)) == 10
    digest = host_of(world.store).digest()
    assert rebuilt_digest(world.store) == digest
    assert len(queue.claim(100)) == 10


def test_a_job_that_ends_after_the_save_stays_until_the_next():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b", b"c"])
    a, b, _ = queue.claim(3)
    a.ack()
    save(world.store)
    b.ack()

    queue.maintain()

    assert _stored(world) == [b"b", b"c"]


def test_nothing_goes_before_the_state_that_says_so_is_durable():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    save(world.store)
    queue.ack_many(queue.claim(2))
    host_of(world.store).save()  # handed over, and not yet made durable

    queue.maintain()

    assert _stored(world) == [b"a", b"b"]


def test_old_records_of_leases_go_when_a_survey_is_saved():
    world = World()
    queue = queue_of(world.store)
    for _ in range(5):
        _work(queue, 50)
    queue.claim(3, worker="w")
    queue.pause()
    digest = host_of(world.store).digest()
    before = leases_of(world.store).statistics().count

    queue.compact()
    queue.maintain()
    assert leases_of(world.store).statistics().count == before + 1
    save(world.store)
    queue.maintain()

    assert leases_of(world.store).statistics().count == 1
    assert rebuilt_digest(world.store) == digest
    assert queue.paused
    assert queue.release("w") == 3


def test_a_survey_is_made_when_the_topic_of_leases_has_grown(monkeypatch):
    monkeypatch.setattr(log_trim, "SURVEY_BYTES_MIN", 2000)
    world = World()
    queue = queue_of(world.store)

    for _ in range(30):
        _work(queue, 50)
        save(world.store)
        queue.maintain()

    left = leases_of(world.store).statistics()
    assert left.payload_bytes < 40_000
    assert left.earliest_seq > 30
    digest = host_of(world.store).digest()
    assert rebuilt_digest(world.store) == digest


def test_a_survey_fits_the_records_that_the_store_allows():
    world = World(limits=LimitSettings(record_bytes_max=4096))
    queue = queue_of(world.store)
    queue.put_many([b"x"] * 400)
    queue.nack_many(queue.claim(400), delay=5)
    digest = host_of(world.store).digest()

    queue.compact()
    save(world.store)
    queue.maintain()

    assert leases_of(world.store).statistics().count > 3
    assert rebuilt_digest(world.store) == digest


def test_a_survey_that_was_not_finished_lets_nothing_go():
    world = World(limits=LimitSettings(record_bytes_max=4096))
    queue = queue_of(world.store)
    queue.put_many([b"x"] * 400)
    queue.nack_many(queue.claim(400), delay=5)
    digest = host_of(world.store).digest()
    moments = []
    world.disk.on_call = lambda *_: moments.append(world.disk.kill())
    queue.compact()
    world.disk.on_call = None

    for disk in moments:
        again = World()
        again.store.close()
        again.disk = disk
        again.store = again.open()
        queue = queue_of(again.store)
        save(again.store)
        queue.maintain()
        assert host_of(again.store).digest() == digest
        assert rebuilt_digest(again.store) == digest
        again.store.close()


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_crash_at_any_moment_of_the_upkeep_leaves_the_same_state(durability):
    world = World()
    queue = queue_of(world.store, durability=durability)
    _work(queue, 30)
    queue.claim(2, worker="w")
    digest = host_of(world.store).digest()
    world.store.sync()
    chance = random.Random(3)
    left = []

    def imagine(*_: str) -> None:
        world.disk.on_call = None
        left.extend((world.disk.kill(), world.disk.crash(chance)))
        world.disk.on_call = imagine

    world.disk.on_call = imagine
    for _ in range(2):
        queue.compact()
        save(world.store)
        queue.maintain()
    world.disk.on_call = None

    assert len(left) > 20
    for disk in left:
        again = World()
        again.store.close()
        again.disk = disk
        again.store = again.open()
        queue_of(again.store)
        assert host_of(again.store).digest() == digest
        assert rebuilt_digest(again.store) == digest
        again.store.close()


def test_memory_is_charged_and_given_back():
    world = World()
    queue = queue_of(world.store)
    share = host_of(world.store).world.share
    queue.put_many([b"x"] * 100_000)
    full = share.used

    while jobs := queue.claim(10_000):
        queue.ack_many(jobs)
    save(world.store)

    assert 100_000 * 4 <= full <= 100_000 * 64
    assert share.used < full / 2


def test_a_put_that_memory_does_not_allow_is_refused():
    from strandline.config.settings import ViewSettings
    from strandline.errors import TooLarge

    world = World(views=ViewSettings(memory_bytes=1 << 20))
    queue = queue_of(world.store)

    with pytest.raises(TooLarge):
        queue.put_many([b"x"] * 50_000)

    assert world.store.topic(NAME).head_seq == 0
