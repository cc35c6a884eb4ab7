"""Promise: a queue of a server takes, gives and refuses what one of an open store does."""

from __future__ import annotations

import pytest

from strandline import Invalid, StrandlineError, TooLarge, TopicFull
from strandline.views.queue.dead_letter_codec import DeadLetter
from strandline.views.queue.dead_letter_filter import DeadLetterFilter
from strandline.views.queue.dead_letters import RedriveResult
from strandline.views.queue.job import AckResult, LeaseTicket, PeekedJob, PutResult, QueueStatistics


@pytest.fixture
def queue(store, name):
    return store.queue(name)


def test_a_job_is_put_claimed_and_done(queue):
    put = queue.put(b"\0\xff", key=b"\xff", tag="eu", priority=3)

    (job,) = queue.claim(worker="w1", lease=60)

    assert put == PutResult(1, False)
    assert (job.seq, job.data, job.key, job.tag) == (1, b"\0\xff", b"\xff", "eu")
    assert job.deliveries == 1
    assert job.deadline > job.ts
    assert job.ack() is True
    assert job.ack() is False
    assert queue.claim() == []


def test_a_unique_key_is_answered_with_the_job_that_has_it(queue):
    first = queue.put(b"1", key="k")
    second = queue.put(b"2", key="k")

    assert second == PutResult(first.seq, True)
    assert queue.put_many([b"1", b"2"], keys=["k", None]) == [
        PutResult(first.seq, True),
        PutResult(2, False),
    ]


def test_many_jobs_are_put_with_their_own_words(queue):
    puts = queue.put_many(
        [b"1", b"2", b"3"], priorities=[9, 1, 5], groups=[None, "g", b"g"], keys=["a", None, None]
    )

    assert puts == [PutResult(1), PutResult(2), PutResult(3)]
    assert [job.data for job in queue.claim(10)] == [b"2", b"1"]
    assert queue.statistics().blocked == 1


def test_jobs_wait_for_their_time(queue):
    queue.put(b"later", delay=1000)
    queue.put(b"at", at=2**52)
    queue.put(b"now", ttl=1000)

    told = queue.statistics()

    assert isinstance(told, QueueStatistics)
    assert (told.ready, told.delayed, told.in_flight, told.waiting) == (1, 2, 0, 3)
    assert [job.data for job in queue.claim(10)] == [b"now"]


def test_a_claim_gives_at_most_so_many_of_any_number(queue):
    queue.put_many([b"%d" % number for number in range(2500)])

    first = queue.claim(10)
    rest = queue.claim(10_000)

    assert [job.seq for job in first] == list(range(1, 11))
    assert [job.seq for job in rest] == list(range(11, 2501))


def test_many_are_done_and_skipped_at_once(queue):
    queue.put_many([b"x"] * 2100)
    jobs = queue.claim(2100)
    jobs[5].ack()

    done = queue.ack_many(jobs)

    assert done == AckResult(2099, (6,))
    assert queue.ack_many([]) == AckResult(0)
    assert queue.statistics().in_flight == 0


def test_a_job_is_given_back_and_comes_again(queue):
    queue.put(b"x")
    (job,) = queue.claim(worker="w1")

    assert job.nack() is True
    assert job.nack() is False
    (again,) = queue.claim()
    assert again.deliveries == 2
    assert again.lease != job.lease
    assert queue.nack(again, delay=1000) is True
    assert queue.statistics().delayed == 1


def test_a_job_is_kept_longer(queue):
    queue.put(b"x")
    (job,) = queue.claim(lease=5)

    assert job.extend(100) is True
    assert job.extend() is True
    assert queue.extend_many([job], lease=7) == AckResult(1)
    job.ack()
    assert job.extend() is False


def test_a_queue_tells_how_long_its_leases_are(store, name):
    assert store.queue(name, lease_ms=7000).lease_ms == 7000


def test_a_ticket_names_a_job(queue):
    queue.put_many([b"x"] * 3)
    one, two, three = (LeaseTicket(job.seq, job.lease) for job in queue.claim(3))

    assert queue.ack(one) is True
    assert queue.nack_many([two, LeaseTicket(three.seq, three.lease + 1)]) == AckResult(1, (3,))
    assert queue.ack(LeaseTicket(77, 1)) is False


def test_a_worker_gives_all_back(queue):
    queue.put_many([b"x"] * 3)
    queue.claim(2, worker="w1")

    assert queue.release("w1") == 2
    assert queue.release("w1") == 0
    assert queue.statistics().ready == 3


def test_peeking_takes_nothing(queue):
    queue.put(b"\0", key="k", tag="t", priority=7)

    (seen,) = queue.peek(5)

    assert isinstance(seen, PeekedJob)
    assert (seen.seq, seen.data, seen.key, seen.tag) == (1, b"\0", b"k", "t")
    assert (seen.priority, seen.deliveries) == (7, 0)
    assert seen.ts == queue.claim()[0].ts


def test_a_paused_queue_gives_nothing_out(queue):
    queue.put(b"x")

    queue.pause()

    assert queue.paused is True
    assert queue.claim() == []
    queue.resume()
    assert queue.paused is False
    assert len(queue.claim()) == 1


def test_a_claim_waits_for_a_job(store, name):
    import threading

    queue, other = store.queue(name), store.queue(name)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(queue.claim(wait_s=30)))
    thread.start()

    other.put(b"x")
    thread.join(30)

    assert [job.data for job in found] == [b"x"]


def test_a_claim_that_waits_in_vain_is_empty(queue):
    assert queue.claim(wait_s=0.05) == []


@pytest.fixture
def dead(store, name):
    """A queue with four dead letters."""
    queue = store.queue(name, deliveries_max=1)
    queue.put_many([b"a", b"b", b"c"], keys=["1", "2", None], tag="eu")
    queue.put(b"d", tag="us", group="g")
    for job in queue.claim(10):
        job.nack()
    assert queue.claim(10) == []
    return queue


def test_dead_letters_are_told(dead):
    letters = dead.dead.letters()

    assert dead.dead.count() == 4
    assert dead.statistics().dead == 4
    assert all(isinstance(letter, DeadLetter) for letter in letters)
    assert [letter.data for letter in letters] == [b"a", b"b", b"c", b"d"]
    assert [letter.key for letter in letters] == [b"1", b"2", None, None]
    assert [letter.job_seq for letter in letters] == [1, 2, 3, 4]
    assert {(letter.reason, letter.deliveries) for letter in letters} == {("deliveries", 1)}
    assert letters[3].group == b"g"
    assert letters[0].put_ts <= letters[0].ts
    assert [letter.seq for letter in dead.dead.letters(after=letters[1].seq, limit=1)] == [
        letters[2].seq
    ]


def test_dead_letters_are_put_back(dead):
    dead.put(b"other", key="2")

    would = dead.dead.redrive(dry_run=True)
    one = dead.dead.redrive(lambda letter: letter.data == b"c")
    rest = dead.dead.redrive(limit=10)

    kept = would.kept
    assert isinstance(would, RedriveResult)
    assert (would.matched, would.redriven, len(kept)) == (4, 3, 1)
    assert one == RedriveResult(matched=1, redriven=1, kept=())
    assert rest == RedriveResult(matched=3, redriven=2, kept=kept)
    assert [letter.key for letter in dead.dead.letters()] == [b"2"]


def test_dead_letters_are_meant_by_a_value(dead):
    where = DeadLetterFilter(tag="e*", contains=b"b").predicate()

    assert dead.dead.redrive(where, dry_run=True).matched == 1
    assert dead.dead.purge(where, dry_run=True) == 1
    assert dead.dead.purge(where) == 1
    assert dead.dead.purge(lambda letter: letter.tag == "us") == 1
    assert dead.dead.purge() == 2
    assert dead.dead.letters() == []


REFUSED = {
    "data is text": (Invalid, lambda queue: queue.put("x")),
    "priority 256": (Invalid, lambda queue: queue.put(b"x", priority=256)),
    "priority as text": (Invalid, lambda queue: queue.put(b"x", priority="1")),
    "delay below 0": (Invalid, lambda queue: queue.put(b"x", delay=-1)),
    "delay and at": (Invalid, lambda queue: queue.put(b"x", delay=1, at=5)),
    "ttl 0": (Invalid, lambda queue: queue.put(b"x", ttl=0)),
    "empty key": (Invalid, lambda queue: queue.put(b"x", key="")),
    "empty group": (TooLarge, lambda queue: queue.put(b"x", group="")),
    "too few keys": (Invalid, lambda queue: queue.put_many([b"x", b"y"], keys=["k"])),
    "large job": (TooLarge, lambda queue: queue.put(b"x" * (2**20 + 1))),
    "claim 0": (Invalid, lambda queue: queue.claim(0)),
    "claim as text": (Invalid, lambda queue: queue.claim("1")),
    "lease 0": (Invalid, lambda queue: queue.claim(lease=0)),
    "lease of ages": (Invalid, lambda queue: queue.claim(lease=1e9)),
    "wait below 0": (Invalid, lambda queue: queue.claim(wait_s=-1)),
    "worker is bytes": (Invalid, lambda queue: queue.claim(worker=b"w")),
    "long worker": (TooLarge, lambda queue: queue.claim(worker="w" * 1000)),
    "nobody's release": (Invalid, lambda queue: queue.release("")),
    "peek 0": (Invalid, lambda queue: queue.peek(0)),
    "letters 0": (Invalid, lambda queue: queue.dead.letters(limit=0)),
    "redrive 0": (Invalid, lambda queue: queue.dead.redrive(limit=0)),
    "nack as text": (Invalid, lambda queue: queue.nack(LeaseTicket(1, 1), delay="1")),
    "extend as text": (Invalid, lambda queue: queue.extend(LeaseTicket(1, 1), lease="1")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_alike(queue, what):
    kind, verb = REFUSED[what]

    with pytest.raises(StrandlineError) as refused:
        verb(queue)

    assert refused.type is kind


def test_the_log_may_be_tidied(queue):
    queue.put(b"x")
    queue.claim()

    queue.compact()

    assert queue.statistics().in_flight == 1


def test_waiting_jobs_are_purged_by_tag_by_seqs_or_all(queue):
    for tag in ("eu-1", "eu-2", "us", None):
        queue.put(b"job", tag=tag)
    queue.claim()

    assert queue.purge(tag="eu*", dry_run=True) == 1
    assert queue.purge(tag="eu*") == 1
    assert queue.purge(from_seq=3, to_seq=3) == 1
    assert queue.purge() == 1
    assert queue.statistics().in_flight == 1
    with pytest.raises(Invalid):
        queue.purge(tag="a*b")
    with pytest.raises(Invalid):
        queue.purge(from_seq=0)


def test_a_queue_that_rejects_says_that_it_is_full(store, name):
    queue = store.queue(name, cap_records=2, discard="reject")
    queue.put_many([b"1", b"2"])

    with pytest.raises(TopicFull):
        queue.put(b"3")
    with pytest.raises(TopicFull):
        store.topic(name).append(b"3")
    (job,) = queue.claim()
    job.ack()
    store.topic(name).append(b"3")
    assert [job.data for job in queue.claim(9)] == [b"2", b"3"]
