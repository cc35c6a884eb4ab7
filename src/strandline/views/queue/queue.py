"""The public interface of a queue.

    queue = store.queue("mails")
    queue.put(b"...", priority=10, key="invoice-7")
    for job in queue.claim(10, worker="w1", wait_s=5):
        job.ack()

A job is a record of the topic with the queue's name; a plain append to it is a job, too. A second
topic, ``:leases``, records claims, acks and nacks. Jobs that were delivered too often are in a
third, ``:dead``. Durations are numbers of seconds, times (``at``) are microseconds since 1970.
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
from strandline.views.queue.acks import LeaseOperations, lease_ms_of
from strandline.views.queue.claim import ClaimRequest, Claims
from strandline.views.queue.codec import NO_SEQS, PAUSE, PRIORITY, LeaseRecord, encode_lease_record
from strandline.views.queue.dead_letters import DeadLetters
from strandline.views.queue.fold import JOBS, LEASES, QueueFold
from strandline.views.queue.job import (
    AckResult,
    Job,
    LeaseReference,
    LeaseTicket,
    PeekedJob,
    PutResult,
    QueueStatistics,
)
from strandline.views.queue.job_options import Key
from strandline.views.queue.log_trim import LogTrim
from strandline.views.queue.notifier import Notifier
from strandline.views.queue.purge import JobFilter
from strandline.views.queue.queue_bounds import QueueLimits
from strandline.views.queue.state.job_chunk import BLOCKED, DELAYED, DYING, HELD, LAPSED, READY
from strandline.views.queue.times import checked_wait
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

CLAIM_MAX = 10_000
"""Jobs of one claim."""


class Queue:
    """A work queue. Safe to use from many threads."""

    def __init__(self, host: ViewRunner[QueueFold], *, dead: Callable[[], Topic]) -> None:
        self._host = host
        self._clock = host.world.clock
        self._notifier = Notifier()
        self._acks = LeaseOperations(host, self._notifier)
        self.dead = DeadLetters(host, dead, self._notifier)
        """The dead letters of the queue."""
        self._claims = Claims(host, self._notifier, self._acks, self.dead)
        self._log_trim = LogTrim(host)
        self._bounds = QueueLimits(host)

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def lease_ms(self) -> int:
        """The length of a lease, unless a claim sets another."""
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
    ) -> PutResult:
        """Put a job. It can be claimed after ``delay`` or the time ``at``, until its ``ttl`` ends.

        If a job with the same ``key`` is waiting or in flight, that job is returned and nothing is
        put. Jobs of a ``group`` are claimed one after the other, in the order of their puts.
        """
        keys = None if key is None else (key,)
        groups = None if group is None else (group,)
        (result,) = self.put_many(
            (data,),
            priority=priority,
            delay=delay,
            at=at,
            ttl=ttl,
            keys=keys,
            groups=groups,
            tag=tag,
        )
        return result

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
    ) -> list[PutResult]:
        """Put jobs, all or none. For a key that is in use, the result is the job that has it."""
        job = job_options.job_of(
            self._clock.now_us(), priority=priority, delay=delay, at=at, ttl=ttl
        )
        plain = job_options.plain_keys(keys, len(data))
        metas = job_options.metas_of(
            job, len(data), keys=plain, groups=groups, priorities=priorities
        )
        self._bounds.admit(len(data))
        results = queue_put.put(self._host, queue_put.JobBatch(data, plain, metas, tag))
        self._bounds.enforce_caps()
        self._notifier.notify()
        return results

    def purge(
        self,
        *,
        tag: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting jobs; return how many. By default all; ``tag`` selects a tag (``"eu*"``
        matches a prefix), the seqs a range with both ends. Jobs in flight stay with their workers.
        """
        filter = JobFilter(tag=tag, from_seq=from_seq, to_seq=to_seq).checked()
        purged = queue_purge.purge(self._host, filter, dry_run=dry_run)
        self._notifier.notify()
        return purged

    def claim(
        self, max: int = 1, *, worker: str = "", lease: float | None = None, wait_s: float = 0.0
    ) -> list[Job]:
        """Claim the next jobs, at most ``max``, for ``lease`` seconds.

        If there is none, this waits for one, at most ``wait_s`` seconds.
        """
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"claim 1 to {CLAIM_MAX} jobs, not {max}")
        lease_ms = None if lease is None else lease_ms_of(lease)
        request = ClaimRequest(job_options.plain_worker(worker), max, lease_ms)
        return self._claims.claim(request, checked_wait(wait_s))

    def ack(self, job: LeaseReference) -> bool:
        """End a job that is done. False if it is no longer under this lease."""
        return self._acks.ack((job,)).done == 1

    def ack_many(self, jobs: Sequence[LeaseReference]) -> AckResult:
        """End jobs that are done."""
        return self._acks.ack(jobs)

    def nack(self, job: LeaseReference, *, delay: float = 0.0) -> bool:
        """Return a job, to be claimed again after ``delay`` seconds. False if it is not under this
        lease."""
        return self._acks.nack((job,), delay).done == 1

    def nack_many(self, jobs: Sequence[LeaseReference], *, delay: float = 0.0) -> AckResult:
        """Return jobs."""
        return self._acks.nack(jobs, delay)

    def extend(self, job: LeaseReference, *, lease: float | None = None) -> bool:
        """Extend a lease to ``lease`` seconds from now. False if the job is no longer under it."""
        return self._acks.extend((job,), lease).done == 1

    def extend_many(
        self, jobs: Sequence[LeaseReference], *, lease: float | None = None
    ) -> AckResult:
        """Extend leases."""
        return self._acks.extend(jobs, lease)

    def held(self, worker: str, seqs: Sequence[int]) -> list[LeaseTicket]:
        """Tickets for those of these jobs that a worker holds, for callers that have only seqs."""
        return self._acks.tickets(job_options.plain_worker(worker), seqs)

    def still_leased(self, jobs: Sequence[LeaseReference]) -> list[bool]:
        """Which of these are still under their lease, which has not expired."""
        return self._acks.still_leased(jobs) if jobs else []

    def release(self, worker: str) -> int:
        """Return all jobs that a worker holds, such as after a lost connection; return how many."""
        plain = job_options.plain_worker(worker)
        if not plain:
            raise Invalid("name the worker whose jobs are to be returned")
        return self._acks.release(plain)

    def subscribe(self, callback: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """Call a function whenever there may be a job to claim: ``with queue.calling(wake):``.

        The thread that made the change calls it, so it must be fast. There is no call for a plain
        append to the topic, nor for the passing of time: see ``due_s``.
        """
        return self._notifier.subscribe(callback)

    def due_s(self) -> float | None:
        """Seconds until time alone makes a job ready; None if it never does."""
        with self._host.reading() as fold:
            now, wall_us = self._clock.monotonic(), self._clock.now_us()
            fold.advance_time(now, wall_us)
            return None if fold.paused else fold.wait_s(now, wall_us)

    def peek(self, max: int = 1) -> list[PeekedJob]:
        """The jobs that would be claimed next, at most ``max``. They are not claimed."""
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"peek at 1 to {CLAIM_MAX} jobs, not {max}")
        with self._host.reading() as fold:
            fold.advance_time(self._clock.monotonic(), self._clock.now_us())
            seqs = fold.jobs.table.select(max)
            expires = fold.jobs.column("expires", seqs)
            now_us = self._clock.now_us()
            seqs = seqs[(expires == 0) | (expires > now_us)]
            seqs = seqs[~np.isin(seqs, expiry.too_old(self._host, fold, now_us))]
            priorities = fold.jobs.column("priority", seqs).tolist()
            deliveries = fold.jobs.column("deliveries", seqs).tolist()
        columns = dict(zip(seqs.tolist(), zip(priorities, deliveries, strict=True), strict=True))
        return [
            PeekedJob(
                seq=record.seq,
                ts=record.ts,
                data=record.data,
                key=record.key,
                tag=record.tag,
                priority=columns[record.seq][0],
                deliveries=columns[record.seq][1],
            )
            for record in self._host.records(JOBS, seqs.tolist())
        ]

    def pause(self) -> None:
        """Deliver no jobs until ``resume``, also after a restart. Puts are accepted."""
        self._pause(paused=True)

    def resume(self) -> None:
        """Deliver jobs again."""
        self._pause(paused=False)

    @property
    def paused(self) -> bool:
        with self._host.reading() as fold:
            return fold.paused

    def statistics(self) -> QueueStatistics:
        """The current numbers of jobs."""
        with self._host.reading() as fold:
            fold.advance_time(self._clock.monotonic(), self._clock.now_us())
            tally = fold.jobs.table.tally.tolist()
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
        """Append a snapshot of the state of all leases, so that older records can be deleted."""
        self._log_trim.survey()

    def maintain(self) -> None:
        """Delete records that are not needed any more. Runs after every save of the views."""
        self._log_trim.run_once()

    def _pause(self, *, paused: bool) -> None:
        def decision(fold: QueueFold) -> ViewAppend | None:
            if fold.paused == paused:
                return None
            return ViewAppend(
                LEASES, [encode_lease_record(LeaseRecord(PAUSE, NO_SEQS, int(paused)))]
            )

        self._host.decide(decision)
        self._notifier.notify()
