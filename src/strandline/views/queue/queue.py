"""The public face of a queue.

    queue = store.queue("mails")
    queue.put(b"...", priority=10, key="invoice-7")
    for job in queue.claim(10, worker="w1", wait_s=5):
        job.ack()

A job is a record of the topic of the queue's name; a plain append to it is a job, too. What becomes
of jobs is told in a second topic, ``:leases``. Jobs that were given out too often are in a third,
``:dead``. Seconds are given as numbers, moments (``at``) as microseconds since 1970.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.log.topic.validation import check_whole
from strandline.views.queue import expiry, job_options
from strandline.views.queue import purge as queue_purge
from strandline.views.queue import put as queue_put
from strandline.views.queue.acks import Settling, lease_ms_of
from strandline.views.queue.claim import Asker, Claiming
from strandline.views.queue.codec import NO_SEQS, PAUSE, PRIORITY, Word, encode_word
from strandline.views.queue.dead_letters import DeadLetters
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.job import Held, Job, Put, QueueStatistics, Settled, Ticket, Waiting
from strandline.views.queue.job_options import Key
from strandline.views.queue.log_trim import Upkeep
from strandline.views.queue.notifier import Bell
from strandline.views.queue.purge import JobFilter
from strandline.views.queue.queue_bounds import Bounds
from strandline.views.queue.state.job_chunk import BLOCKED, DELAYED, DYING, HELD, LAPSED, READY
from strandline.views.queue.times import checked_wait
from strandline.views.view import Draft
from strandline.views.view_runner import Host

CLAIM_MAX = 10_000
"""Jobs of one claim."""


class Queue:
    """A work queue. Safe from many threads."""

    def __init__(self, host: Host[QueueFold], *, dead: Callable[[], Topic]) -> None:
        self._host = host
        self._clock = host.world.clock
        self._bell = Bell()
        self._settling = Settling(host, self._bell)
        self.dead = DeadLetters(host, dead, self._bell)
        """Jobs that were given up."""
        self._claiming = Claiming(host, self._bell, self._settling, self.dead)
        self._upkeep = Upkeep(host)
        self._bounds = Bounds(host)

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def lease_ms(self) -> int:
        """How long a lease is, unless a claim says otherwise."""
        return self._host.fold.config.lease_ms

    def put(
        self,
        data: bytes,
        *,
        priority: int = PRIORITY,
        delay: float = 0.0,
        at: int | None = None,
        ttl: float | None = None,
        key: Key | None = None,
        group: Key | None = None,
        tag: str | None = None,
    ) -> Put:
        """Put a job: not before a delay or a time, and no later than its ttl.

        With a ``key`` that a job which waits or is in flight has, that one is answered and nothing
        is put. Jobs of a ``group`` go out one after the other, in the order in which they were put.
        """
        keys = None if key is None else (key,)
        groups = None if group is None else (group,)
        (found,) = self.put_many(
            (data,),
            priority=priority,
            delay=delay,
            at=at,
            ttl=ttl,
            keys=keys,
            groups=groups,
            tag=tag,
        )
        return found

    def put_many(
        self,
        data: Sequence[bytes],
        *,
        priority: int = PRIORITY,
        delay: float = 0.0,
        at: int | None = None,
        ttl: float | None = None,
        keys: Sequence[Key | None] | None = None,
        groups: Sequence[Key | None] | None = None,
        priorities: Sequence[int] | None = None,
        tag: str | None = None,
    ) -> list[Put]:
        """Put jobs, all or none; those whose key is taken are answered with the job that has it."""
        job = job_options.job_of(
            self._clock.now_us(), priority=priority, delay=delay, at=at, ttl=ttl
        )
        plain = job_options.plain_keys(keys, len(data))
        metas = job_options.metas_of(
            job, len(data), keys=plain, groups=groups, priorities=priorities
        )
        self._bounds.admit(len(data))
        found = queue_put.put(self._host, queue_put.Batch(data, plain, metas, tag))
        self._bounds.enforce_caps()
        self._bell.ring()
        return found

    def purge(
        self,
        *,
        tag: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """Throw waiting jobs away: all, or those with a tag (``"eu*"`` for a beginning), of a range
        of seqs (both ends included), or both; how many. Jobs in flight are left to their workers.
        """
        chosen = JobFilter(tag=tag, from_seq=from_seq, to_seq=to_seq).checked()
        purged = queue_purge.purge(self._host, chosen, dry_run=dry_run)
        self._bell.ring()
        return purged

    def claim(
        self, max: int = 1, *, worker: str = "", lease: float | None = None, wait_s: float = 0.0
    ) -> list[Job]:
        """Take the next jobs, at most so many: yours for ``lease`` seconds.

        When there is none, waits for one at most ``wait_s`` seconds.
        """
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"claim 1 to {CLAIM_MAX} jobs, not {max}")
        lease_ms = None if lease is None else lease_ms_of(lease)
        asker = Asker(job_options.plain_worker(worker), max, lease_ms)
        return self._claiming.claim(asker, checked_wait(wait_s))

    def ack(self, job: Held) -> bool:
        """A job is done: it leaves the queue. False when it is no longer under this lease."""
        return self._settling.ack((job,)).done == 1

    def ack_many(self, jobs: Sequence[Held]) -> Settled:
        """Jobs are done."""
        return self._settling.ack(jobs)

    def nack(self, job: Held, *, delay: float = 0.0) -> bool:
        """Give a job back, to be claimed again in so many seconds; False when it is not held."""
        return self._settling.nack((job,), delay).done == 1

    def nack_many(self, jobs: Sequence[Held], *, delay: float = 0.0) -> Settled:
        """Give jobs back."""
        return self._settling.nack(jobs, delay)

    def extend(self, job: Held, *, lease: float | None = None) -> bool:
        """Keep a job for so many seconds from now; False when it is no longer under this lease."""
        return self._settling.extend((job,), lease).done == 1

    def extend_many(self, jobs: Sequence[Held], *, lease: float | None = None) -> Settled:
        """Keep jobs."""
        return self._settling.extend(jobs, lease)

    def held(self, worker: str, seqs: Sequence[int]) -> list[Ticket]:
        """Those of these jobs that a worker holds: for whoever knows no more than their seqs."""
        return self._settling.tickets(job_options.plain_worker(worker), seqs)

    def in_hand(self, jobs: Sequence[Held]) -> list[bool]:
        """Which of these are still under their lease, and it has not run out."""
        return self._settling.in_hand(jobs) if jobs else []

    def release(self, worker: str) -> int:
        """Give back all that a worker holds, as when its connection is lost; how many jobs."""
        plain = job_options.plain_worker(worker)
        if not plain:
            raise Invalid("name the worker whose jobs are to be given back")
        return self._settling.release(plain)

    def calling(self, callback: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """``with queue.calling(tell):`` it is called whenever a job may be there to be claimed.

        By whoever did it, so it must be quick; a plain append to the topic is not told, nor that
        time has passed: ``due_s``.
        """
        return self._bell.calling(callback)

    def due_s(self) -> float | None:
        """How long until time alone makes a job ready; None when it never does."""
        with self._host.reading() as fold:
            now, wall_us = self._clock.monotonic(), self._clock.now_us()
            fold.look(now, wall_us)
            return None if fold.paused else fold.wait_s(now, wall_us)

    def peek(self, max: int = 1) -> list[Waiting]:
        """The jobs that would be claimed next, at most so many; they stay where they are."""
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"peek at 1 to {CLAIM_MAX} jobs, not {max}")
        with self._host.reading() as fold:
            fold.look(self._clock.monotonic(), self._clock.now_us())
            seqs = fold.jobs.board.select(max)
            expires = fold.jobs.column("expires", seqs)
            now_us = self._clock.now_us()
            seqs = seqs[(expires == 0) | (expires > now_us)]
            seqs = seqs[~np.isin(seqs, expiry.too_old(self._host, fold, now_us))]
            priorities = fold.jobs.column("priority", seqs).tolist()
            deliveries = fold.jobs.column("deliveries", seqs).tolist()
        said = dict(zip(seqs.tolist(), zip(priorities, deliveries, strict=True), strict=True))
        return [
            Waiting(
                seq=record.seq,
                ts=record.ts,
                data=record.data,
                key=record.key,
                tag=record.tag,
                priority=said[record.seq][0],
                deliveries=said[record.seq][1],
            )
            for record in self._host.records(JOBS, seqs.tolist())
        ]

    def pause(self) -> None:
        """Give out no jobs until ``resume``, also after a restart. Putting goes on."""
        self._pause(paused=True)

    def resume(self) -> None:
        """Give out jobs again."""
        self._pause(paused=False)

    @property
    def paused(self) -> bool:
        with self._host.reading() as fold:
            return fold.paused

    def statistics(self) -> QueueStatistics:
        """The queue in numbers, at this moment."""
        with self._host.reading() as fold:
            fold.look(self._clock.monotonic(), self._clock.now_us())
            tally = fold.jobs.board.tally.tolist()
            paused = fold.paused
        return QueueStatistics(
            ready=tally[READY] + tally[LAPSED],
            delayed=tally[DELAYED],
            blocked=tally[BLOCKED],
            in_flight=tally[HELD],
            dying=tally[DYING],
            dead=self.dead.count(),
            paused=paused,
        )

    def compact(self) -> None:
        """Say the state of all leases once more, so that older records can leave the log."""
        self._upkeep.survey()

    def maintain(self) -> None:
        """Let go of what the log no longer needs; after every save of the views."""
        self._upkeep.run_once()

    def _pause(self, *, paused: bool) -> None:
        def decision(fold: QueueFold) -> Draft | None:
            if fold.paused == paused:
                return None
            return Draft(LEASES, [encode_word(Word(PAUSE, NO_SEQS, int(paused)))])

        self._host.decide(decision)
        self._bell.ring()
