"""Promise: whatever is done to a queue, in any order, it does what a plain list of jobs would do;
with both clocks moving, saves, reopenings, kills, rebuilds, surveys and releases in between; and
whatever bounds it has: caps of jobs and bytes that discard or reject, and a ttl.

After every step the fold is what the model says, and whenever it is asked, one that is folded anew
from what the log has left has the same digest.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.config.settings import TopicConfig
from strandline.errors import TooLarge, TopicFull
from strandline.views.queue.job import LeaseTicket, PutResult
from strandline.views.queue.state.job_chunk import BLOCKED, DYING, HELD, LAPSED
from strandline.views.queue.state.key_index import hash_of
from tests.property.queue_model import Job, Model
from tests.unit.views.queue.world import NAME, World, host_of, queue_of, rebuilt_digest, save

LEASE_S = 30
DELIVERIES_MAX = 3
KEYS = st.sampled_from([None, None, b"k", b"l"])
GROUPS = st.sampled_from([None, None, b"g", b"h"])
PRIORITIES = st.sampled_from([0, 100, 100, 255])
DELAYS = st.sampled_from([0, 0, 3, 50])
TTLS = st.sampled_from([None, None, 8, 100])
LEASES = st.sampled_from([None, 5, 200])
WORKERS = st.sampled_from(["w", "v"])
TAGS = st.sampled_from([None, "a", "ab", "b"])
BOUNDS = st.sampled_from(
    [
        {},
        {"cap_records": 4},
        {"cap_records": 4, "discard": "reject"},
        {"cap_bytes": 30},
        {"cap_bytes": 30, "discard": "reject"},
        {"ttl_ms": 20_000},
        {"ttl_ms": 20_000, "cap_records": 5, "cap_bytes": 60},
        {"ttl_ms": 20_000, "cap_records": 5, "cap_bytes": 60, "discard": "reject"},
    ]
)


class QueueMachine(RuleBasedStateMachine):
    """A queue on a simulated machine beside a model."""

    @initialize(bounds=BOUNDS)
    def begin(self, bounds):
        self.world = World()
        self.bounds = bounds
        self._open()
        self.model = Model(TopicConfig(**bounds))
        self.tickets: list[LeaseTicket] = []
        self.leases: set[int] = set()

    def _open(self):
        self.queue = queue_of(
            self.world.store,
            lease_ms=LEASE_S * 1000,
            deliveries_max=DELIVERIES_MAX,
            **self.bounds,
        )

    def _take(self, jobs: list[Job], put: Callable[[], object]) -> bool:
        """Put jobs that the model may have to refuse; whether they were taken."""
        model = self.model
        rejects = model.bounds.discard == "reject"
        if rejects and model.is_over(*jobs):
            model.sweep(self.now, self.now_us)
        if rejects and model.is_over(*jobs):
            head = self.next_seq
            with pytest.raises(TooLarge if model.is_over(*jobs, alone=True) else TopicFull):
                put()
            assert self.next_seq == head
            return False
        put()
        for job in jobs:
            model.jobs[job.seq] = job
            model.sizes[job.seq] = job.size
            job.ts = (
                self.world.store.topic(NAME).read_stored(job.seq - 1, 1, size_max=1).records[0].ts
            )
        return True

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    @property
    def now_us(self) -> int:
        return self.world.clock.now_us()

    @property
    def next_seq(self) -> int:
        return self.world.store.topic(NAME).head_seq + 1

    @invariant()
    def every_job_is_as_the_model_has_it(self):
        if hasattr(self, "model"):
            with host_of(self.world.store).reading() as fold:
                assert _jobs_of(fold) == {seq: _told(job) for seq, job in self.model.jobs.items()}
                assert fold.paused == self.model.paused
            topic = self.world.store.topic(NAME)
            assert {record.seq for record in topic.read().records} == set(self.model.jobs)
            assert topic.statistics().count == len(self.model.jobs)

    @rule(
        priority=PRIORITIES,
        delay=DELAYS,
        ttl=TTLS,
        key=KEYS,
        group=GROUPS,
        tag=TAGS,
        data=st.binary(max_size=3),
    )
    def put(self, priority, delay, ttl, key, group, tag, data):
        if key is not None:
            self.model.sweep(self.now, self.now_us)
        existing = None if key is None else self.model.by_key(key)
        seq = self.next_seq
        said = {"priority": priority, "delay": delay, "ttl": ttl}
        said |= {"key": key, "group": group, "tag": tag}
        if existing is not None:
            assert self.queue.put(data, **said) == PutResult(existing.seq, True)
            self._swept_by_a_put()
            return
        job = Job(
            seq,
            data,
            priority=priority,
            not_before=self.now_us + delay * 1_000_000 if delay else 0,
            expires=self.now_us + ttl * 1_000_000 if ttl else 0,
            key=key,
            unique=key is not None,
            group=group,
            tag=tag,
        )

        def put():
            assert self.queue.put(data, **said) == PutResult(seq, False)

        if self._take([job], put):
            self._swept_by_a_put()

    def _swept_by_a_put(self):
        config = self.model.bounds
        if config.discard == "old" and (config.cap_records or config.cap_bytes):
            self.model.sweep(self.now, self.now_us)

    @rule(count=st.integers(1, 5), groups=st.booleans())
    def put_many(self, count, groups):
        seq = self.next_seq
        chosen = [b"g", None, b"h", b"g", b"h"][:count] if groups else None

        def put():
            found = self.queue.put_many([b"%d" % place for place in range(count)], groups=chosen)
            assert [put.seq for put in found] == list(range(seq, seq + count))

        jobs = [
            Job(seq + place, b"%d" % place, group=None if chosen is None else chosen[place])
            for place in range(count)
        ]
        if self._take(jobs, put):
            self._swept_by_a_put()

    def append_to_the_topic(self, key, tag):
        topic = self.world.store.topic(NAME)
        job = Job(self.next_seq, b"plain", key=key, tag=tag)
        if self._take([job], lambda: topic.append(b"plain", key=key, tag=tag)):
            self._turn()

    def _turn(self):
        """What the job of the views does once a second."""
        host_of(self.world.store).periodic_work()
        config = self.model.bounds
        if config.ttl_ms or (config.discard == "old" and (config.cap_records or config.cap_bytes)):
            self.model.sweep(self.now, self.now_us)

    @rule(tag=st.sampled_from(["a", "a*", "b", None]), half=st.booleans())
    def purge(self, tag, half):
        from_seq = self.next_seq // 2 + 1 if half or tag is None else 1
        matches = [
            job
            for job in self.model.waiting()
            if job.seq >= from_seq
            and (tag is None or job.tag == tag or (tag == "a*" and job.tag in ("a", "ab")))
        ]

        said = {"tag": tag, "from_seq": from_seq}
        assert self.queue.purge(**said, dry_run=True) == len(matches)
        assert self.queue.purge(**said) == len(matches)

        for job in matches:
            del self.model.jobs[job.seq]

    @rule(count=st.integers(1, 4), worker=WORKERS, lease=LEASES)
    def claim(self, count, worker, lease):
        expected = self._expect_claim(count)

        found = self.queue.claim(count, worker=worker, lease=lease)

        assert [(job.seq, job.data, job.key) for job in found] == [
            (job.seq, job.data, job.key) for job in expected
        ]
        assert [job.deliveries for job in found] == [job.deliveries + 1 for job in expected]
        assert not self.leases & {job.lease for job in found}
        for got, job in zip(found, expected, strict=True):
            self.leases.add(got.lease)
            self.tickets.append(LeaseTicket(got.seq, got.lease))
            job.lease, job.worker = got.lease, worker
            job.deliveries += 1
            job.not_before = 0
            job.lease_s = lease or LEASE_S
            job.deadline = self.now + job.lease_s

    def _expect_claim(self, count: int) -> list[Job]:
        model = self.model
        if model.paused:
            return []
        while True:
            model.sweep(self.now, self.now_us)
            available = model.available(self.now, self.now_us)
            if all(job.deliveries < DELIVERIES_MAX for job in available[:count]):
                return available[:count]
            worn = [job for job in available[:count] if job.deliveries >= DELIVERIES_MAX]
            for job in sorted(worn, key=lambda job: job.seq):
                model.dead.append(model.jobs.pop(job.seq))

    def _held(self, places: list[int]) -> tuple[list[LeaseTicket], list[Job], list[int]]:
        """Some tickets, the jobs for which they are good, and the seqs of the others."""
        chosen = {}
        for place in places:
            ticket = self.tickets[-1 - place % len(self.tickets)]
            chosen[ticket.seq] = ticket
        held = [
            self.model.jobs[ticket.seq]
            for ticket in chosen.values()
            if ticket.seq in self.model.jobs and self.model.jobs[ticket.seq].lease == ticket.lease
        ]
        good = {job.seq for job in held}
        return list(chosen.values()), held, [seq for seq in chosen if seq not in good]

    @precondition(lambda self: self.tickets)
    @rule(
        how=st.sampled_from(["ack", "nack", "nack", "extend"]),
        places=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        delay=DELAYS,
        lease=LEASES,
    )
    def settle(self, how, places, delay, lease):
        tickets, held, others = self._held(places)

        if how == "ack":
            settled = self.queue.ack_many(tickets)
        elif how == "nack":
            settled = self.queue.nack_many(tickets, delay=delay)
        else:
            settled = self.queue.extend_many(tickets, lease=lease)

        assert (settled.done, list(settled.skipped)) == (len(held), others)
        for job in held:
            if how == "ack":
                del self.model.jobs[job.seq]
            elif how == "nack":
                job.lease = 0
                job.not_before = self.now_us + delay * 1_000_000 if delay else 0
            else:
                job.lease_s = lease or LEASE_S
                job.deadline = self.now + job.lease_s

    @rule(
        what=st.sampled_from(
            [
                "release",
                "pause",
                "resume",
                "resume",
                "redrive",
                "survey",
                "append",
                "append",
                "turn",
            ]
        ),
        worker=WORKERS,
        key=KEYS,
        tag=TAGS,
    )
    def seldom(self, what, worker, key, tag):
        if what == "release":
            self.release(worker)
        elif what == "append":
            self.append_to_the_topic(key, tag)
        elif what == "turn":
            self._turn()
        elif what == "survey":
            self.queue.compact()
        elif what in ("pause", "resume"):
            self.pause_or_resume(what == "pause")
        elif what == "redrive":
            self.redrive()
        self.look()

    @rule(what=st.sampled_from(["save", "let_go", "let_go", "close", "kill", "rebuild"]))
    def keep(self, what):
        if what == "save":
            save(self.world.store)
        elif what == "let_go":
            self.save_and_let_go()
        elif what == "rebuild":
            self.rebuild()
        else:
            self.open_again(what == "kill")

    def release(self, worker):
        held = [job for job in self.model.jobs.values() if job.lease and job.worker == worker]

        assert self.queue.release(worker) == len(held)

        for job in held:
            job.lease = job.not_before = 0

    def pause_or_resume(self, paused):
        if paused:
            self.queue.pause()
        else:
            self.queue.resume()
        self.model.paused = paused

    def redrive(self):
        if self.model.bounds.discard == "reject" or self.model.bounds.cap_bytes:
            return  # a full queue takes none: tests/unit/views/queue/test_queue_bounds.py
        kept, taken = [], set()
        seq = self.next_seq
        for job in self.model.dead:
            if job.unique and (self.model.by_key(job.key) is not None or job.key in taken):
                kept.append(job)
                continue
            if job.unique:
                taken.add(job.key)
            again = Job(
                seq, job.data, job.priority, key=job.key, unique=job.unique, group=job.group
            )
            self.model.jobs[seq] = again
            again.tag = job.tag
            seq += 1

        expected = self.queue.dead.redrive(dry_run=True)
        found = self.queue.dead.redrive()

        assert found == expected
        assert found.redriven == len(self.model.dead) - len(kept)
        for job in self.model.jobs.values():
            (record,) = self.world.store.topic(NAME).get_many([job.seq]).records
            job.ts = record.ts
        self.model.dead = kept
        self._turn()

    def look(self):
        available = self.model.available(self.now, self.now_us)
        available = [
            job
            for job in available
            if not 0 < job.expires <= self.now_us and not self.model.is_too_old(job, self.now_us)
        ]

        peeked = self.queue.peek(3)
        numbers = self.queue.statistics()

        assert [job.seq for job in peeked] == [job.seq for job in available[: len(peeked)]]
        jobs = self.model.jobs.values()
        in_flight = [job for job in jobs if job.lease and not self.model.lapsed(job, self.now)]
        assert numbers.in_flight == len(in_flight)
        assert numbers.ready == len(self.model.available(self.now, self.now_us))
        assert numbers.waiting + numbers.in_flight == len(jobs)
        assert numbers.dead == len(self.model.dead)
        assert [(dead.data, dead.deliveries) for dead in self.queue.dead.letters()] == [
            (job.data, job.deliveries) for job in self.model.dead
        ]

    @rule(
        seconds=st.sampled_from([1, 4, 6, 18, 29, 31, 300]),
        set_by=st.sampled_from([0, 0, 0, -60, 60]),
    )
    def let_time_pass(self, seconds, set_by):
        self.world.clock.advance(seconds)
        self.world.clock.jump_wall(set_by)

    def save_and_let_go(self):
        save(self.world.store)
        self.queue.maintain()
        self.model.sweep(self.now, self.now_us)

    def open_again(self, kill):
        digest = host_of(self.world.store).digest()
        if kill:
            self.world.kill()
        else:
            self.world.reopen()
        self._open()

        assert host_of(self.world.store).digest() == digest
        self._begin_leases_again()

    def rebuild(self):
        digest = host_of(self.world.store).digest()

        assert rebuilt_digest(self.world.store) == digest
        self._begin_leases_again()

    def _begin_leases_again(self):
        """Leases that are found in the log count from the first look."""
        self.queue.statistics()
        for job in self.model.jobs.values():
            job.deadline = self.now + job.lease_s

    def teardown(self):
        if hasattr(self, "world"):
            self.rebuild()
            self.world.store.close()


def _told(job: Job) -> tuple[object, ...]:
    unique = hash_of(job.key) if job.unique else 0
    group = 0 if job.group is None else hash_of(job.group)
    waits = 0 if job.lease else 1
    times = job.not_before, job.expires
    lease = job.lease & ((1 << 64) - 1)  # without the life of the queue
    return (waits, job.priority, job.deliveries, lease, *times, unique, group)


def _jobs_of(fold) -> dict[int, tuple[object, ...]]:
    found = {}
    for chunk in fold.jobs.table.chunks.values():
        rows = (chunk.state >= BLOCKED).nonzero()[0]
        for row, seq in zip(rows.tolist(), chunk.seqs(rows).tolist(), strict=True):
            state = int(chunk.state[row])
            assert state != DYING, "who begins a burial ends it"
            found[seq] = (
                0 if state in (HELD, LAPSED) else 1,
                int(chunk.priority[row]),
                int(chunk.deliveries[row]),
                *(chunk.value(name, row) for name in ("lease", "not_before", "expires")),
                *(chunk.value(name, row) for name in ("unique", "group")),
            )
    return found


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
