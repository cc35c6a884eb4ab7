"""Promise: a job goes to one claimer at a time, in order, under a lease that never comes again."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Invalid
from tests.unit.views.queue.world import NAME, World, host_of, queue_of

DEADLINE_S = 20


def _data(jobs) -> list[bytes]:
    return [job.data for job in jobs]


def test_lower_priorities_go_first_and_older_jobs_within_one():
    queue = queue_of(World().store)
    for data, priority in ((b"c", 9), (b"a", 0), (b"d", 255), (b"b", 0)):
        queue.put(data, priority=priority)

    claimed = queue.claim(10)

    assert _data(claimed) == [b"a", b"b", b"c", b"d"]


def test_a_claimed_job_tells_all_about_itself():
    world = World()
    queue = queue_of(world.store, lease_ms=5000)
    put = queue.put(b"work", key="k", tag="t")

    (job,) = queue.claim(worker="w")

    assert (job.seq, job.data, job.key, job.tag) == (put.seq, b"work", b"k", "t")
    assert job.deliveries == 1
    assert job.ts == world.clock.now_us()
    assert job.deadline == world.clock.now_us() + 5_000_000


def test_a_plain_record_is_a_job():
    world = World()
    queue = queue_of(world.store)

    world.store.topic(NAME).append(b"plain", key="k", meta=b"of somebody else")

    (job,) = queue.claim()
    assert (job.data, job.key) == (b"plain", b"k")


def test_what_comes_back_goes_before_what_nobody_has_had():
    queue = queue_of(World().store)
    queue.put_many([b"a", b"b", b"c"])
    first, second = queue.claim(2)
    second.nack()
    first.nack()

    assert _data(queue.claim(3)) == [b"a", b"b", b"c"]


def test_a_job_in_flight_is_given_to_nobody_else():
    queue = queue_of(World().store)
    queue.put_many([b"a", b"b"])

    assert _data(queue.claim(1)) == [b"a"]
    assert _data(queue.claim(5)) == [b"b"]
    assert queue.claim(5) == []


@pytest.mark.parametrize("killed", [False, True])
def test_no_lease_is_given_twice_also_after_a_restart(killed):
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b", b"c"])
    leases = [job.lease for job in queue.claim(2)]

    for _ in range(3):
        _ = world.kill() if killed else world.reopen()
        queue = queue_of(world.store)
        queue.statistics()
        world.clock.advance(31)
        leases += [job.lease for job in queue.claim(3)]

    assert len(set(leases)) == len(leases) == 2 + 3 * 3


def test_threads_that_claim_at_once_never_get_the_same_job():
    queue = queue_of(World().store)
    queue.put_many([b"%d" % n for n in range(300)])
    got: list[int] = []

    def work() -> None:
        while jobs := queue.claim(3):
            got.extend(job.seq for job in jobs)
            assert queue.ack_many(jobs).done == len(jobs)

    for thread in [_started(work) for _ in range(4)]:
        thread.join(DEADLINE_S)

    assert sorted(got) == list(range(1, 301))
    assert queue.statistics().waiting == 0


def test_a_delayed_job_comes_when_its_time_has_come():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"later", delay=10)
    queue.put(b"at", at=world.clock.now_us() + 20_000_000)
    queue.put(b"past", at=world.clock.now_us() - 1)

    assert _data(queue.claim(5)) == [b"past"]
    world.clock.advance(10)
    assert _data(queue.claim(5)) == [b"later"]
    world.clock.advance(10)
    assert _data(queue.claim(5)) == [b"at"]


def test_a_shorter_delay_that_was_put_later_is_over_first():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"long", delay=50)
    queue.put(b"short", delay=3)

    world.clock.advance(3)

    assert _data(queue.claim(5)) == [b"short"]


def test_a_delay_goes_by_the_clock_on_the_wall_in_both_directions():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"later", delay=10)
    world.clock.jump_wall(11)
    assert queue.statistics().ready == 1

    world.clock.jump_wall(-11)

    assert queue.claim() == []
    assert queue.statistics().delayed == 1


def test_a_delay_that_was_over_is_looked_at_again_after_a_restart():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"later", delay=10)
    world.clock.jump_wall(11)
    assert queue.statistics().ready == 1

    queue = queue_of(world.reopen())
    world.clock.jump_wall(-11)

    assert queue.claim() == []


def test_peek_shows_what_is_next_and_takes_nothing():
    queue = queue_of(World().store)
    queue.put(b"second")
    queue.put(b"first", priority=1, key="k", tag="t")

    peeked = queue.peek(5)

    assert [job.data for job in peeked] == [b"first", b"second"]
    assert (peeked[0].priority, peeked[0].deliveries) == (1, 0)
    assert (peeked[0].key, peeked[0].tag) == (b"k", "t")
    assert queue.statistics().ready == 2


def test_a_paused_queue_gives_out_nothing_until_it_is_resumed():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"a")
    queue.pause()
    queue.pause()
    assert queue.claim() == []

    queue = queue_of(world.kill())

    assert queue.paused
    assert queue.claim() == []
    queue.resume()
    assert _data(queue.claim()) == [b"a"]
    assert not queue_of(world.reopen()).paused


def test_who_waits_for_a_job_gets_the_one_that_is_put():
    world = World()
    queue = queue_of(world.store)
    got: list[bytes] = []
    thread = _started(lambda: got.extend(_data(queue.claim(wait_s=1000))))
    _until_somebody_waits(world)

    queue.put(b"here")

    thread.join(DEADLINE_S)
    assert got == [b"here"]


def test_who_waits_for_a_job_gets_one_that_is_given_back():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"again")
    (held,) = queue.claim(worker="w")
    got: list[bytes] = []
    thread = _started(lambda: got.extend(_data(queue.claim(wait_s=1000))))
    _until_somebody_waits(world)

    assert queue.release("w") == 1

    thread.join(DEADLINE_S)
    assert got == [b"again"]
    assert not held.ack()


def test_who_waits_for_a_job_gets_it_when_a_lease_runs_out():
    world = World()
    queue = queue_of(world.store)
    queue.put(b"again")
    queue.claim(lease=0.05)
    got: list[bytes] = []
    thread = _started(lambda: got.extend(_data(queue.claim(wait_s=1000))))
    _until_somebody_waits(world)

    world.clock.advance(0.06)

    thread.join(DEADLINE_S)
    assert got == [b"again"]


def test_who_waits_too_long_gets_nothing():
    world = World()
    queue = queue_of(world.store)
    got: list[list[object]] = []
    thread = _started(lambda: got.append(queue.claim(wait_s=0.05)))
    _until_somebody_waits(world)

    world.clock.advance(0.06)

    thread.join(DEADLINE_S)
    assert got == [[]]


def test_a_plain_append_is_noticed_by_who_waits():
    world = World()
    queue = queue_of(world.store)
    got: list[bytes] = []
    thread = _started(lambda: got.extend(_data(queue.claim(wait_s=1000))))
    _until_somebody_waits(world)
    world.store.topic(NAME).append(b"plain")

    world.clock.advance(0.2)

    thread.join(DEADLINE_S)
    assert got == [b"plain"]


def test_a_job_whose_record_was_given_up_ends():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    world.store.topic(NAME).trim(_bitmap(1))

    assert _data(queue.claim(5)) == [b"b"]
    assert queue.statistics().in_flight == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.claim(0),
        lambda queue: queue.claim(10_001),
        lambda queue: queue.claim(True),
        lambda queue: queue.claim(lease=0),
        lambda queue: queue.claim(lease=86_401),
        lambda queue: queue.claim(lease="5"),
        lambda queue: queue.claim(worker=7),
        lambda queue: queue.claim(worker="w" * 129),
        lambda queue: queue.claim(wait_s=-1),
        lambda queue: queue.claim(wait_s=float("nan")),
        lambda queue: queue.peek(0),
        lambda queue: queue.release(""),
        lambda queue: queue.dead.letters(limit=0),
        lambda queue: queue.dead.letters(after=-1),
    ],
)
def test_what_makes_no_sense_is_refused(call):
    queue = queue_of(World().store)
    queue.put(b"a")

    with pytest.raises(Invalid):
        call(queue)

    assert queue.statistics().ready == 1


@pytest.mark.parametrize(
    "options",
    [{"lease_ms": 0}, {"lease_ms": 86_400_001}, {"deliveries_max": -1}, {"claim_jitter_ms": 5001}],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(Invalid):
        queue_of(World().store, **options)


def test_the_fold_takes_a_claim_as_it_was_decided():
    world = World()
    queue = queue_of(world.store)
    queue.put_many([b"a", b"b"])
    queue.claim(2)

    before = host_of(world.store).digest()
    world.store.rebuild("queue", NAME)

    assert host_of(world.store).digest() == before


def _bitmap(seq: int):
    from pyroaring import BitMap64

    return BitMap64([seq])


def _started(work) -> threading.Thread:
    """A thread that does not keep a failed run from ending."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _until_somebody_waits(world: World) -> None:
    pause = threading.Event()
    for _ in range(DEADLINE_S * 1000):
        if world.clock.waiting:
            return
        pause.wait(0.001)
    raise AssertionError("nobody waits")
