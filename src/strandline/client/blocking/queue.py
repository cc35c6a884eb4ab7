# Made from asynchronous/queue.py by tests/house/blocking.py: change that one.
"""A work queue of a server.

What is said of a claimed job names its lease, so it may be said again when an answer is lost. When
it then turns out that the job is no longer under that lease, nobody can tell whether the first time
did it or the lease was over: that is told as Unreachable, and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from strandline.api import queues as wire
from strandline.api.topics import TopicState
from strandline.client import queue_codec as told_jobs
from strandline.client.append_codec import UNLIMITED
from strandline.client.blocking.dead_letters import RemoteDeadLetters
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.request import Ask
from strandline.errors import Invalid, Unreachable
from strandline.log.append.batch import of_many
from strandline.log.topic.validation import check_whole
from strandline.records import Record
from strandline.views.queue import job_options
from strandline.views.queue.acks import lease_ms_of
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import Held, Put, QueueStatistics, Settled, Waiting
from strandline.views.queue.job_options import Key
from strandline.views.queue.purge import JobFilter
from strandline.views.queue.queue import CLAIM_MAX
from strandline.views.queue.times import checked_wait, moment_after

_AT_ONCE = 1000
_WAIT_S_MAX = 25.0

Told = TypeVar("Told", wire.Acked, wire.Nacked, wire.Extended)


class RemoteJob:
    """A claimed job: yours until its lease runs out, or you say what became of it."""

    __slots__ = (
        *("_queue", "data", "deadline", "deliveries", "key", "lease", "meta", "seq", "tag", "ts"),
    )

    def __init__(
        self, queue: RemoteQueue, record: Record, lease: int, deliveries: int, deadline: int
    ) -> None:
        self._queue = queue
        self.seq = record.seq
        self.lease = lease
        """Never given twice, nor by another queue that has this name later."""
        self.deliveries = deliveries
        """How often it was given out, this time included."""
        self.deadline = deadline
        """When the lease as claimed runs out: microseconds, by the server's clock at the claim."""
        self.ts = record.ts
        self.data = record.data
        self.key = record.key
        self.tag = record.tag
        self.meta = record.meta

    def __repr__(self) -> str:
        return f"RemoteJob(seq={self.seq}, lease={self.lease}, deliveries={self.deliveries})"

    def ack(self) -> bool:
        """It is done; False when it is no longer yours."""
        return self._queue.ack(self)

    def nack(self, delay: float = 0.0) -> bool:
        """Give it back, to be claimed again in so many seconds; False when it is not yours."""
        return self._queue.nack(self, delay=delay)

    def extend(self, lease: float | None = None) -> bool:
        """Keep it for so many seconds from now; False when it is no longer yours."""
        return self._queue.extend(self, lease=lease)


class RemoteQueue:
    """A work queue. Safe from many threads."""

    def __init__(self, at: RemoteRoute, leases: RemoteRoute, name: str) -> None:
        self.name = name
        self._at = at
        self._leases = leases
        self.dead = RemoteDeadLetters(at)
        """Jobs that were given up."""

    def __repr__(self) -> str:
        return f"RemoteQueue({self.name!r})"

    @property
    def lease_ms(self) -> int:
        """How long a claimed job is its worker's, unless the claim says otherwise."""
        return (self._leases.get("", TopicState)).config.lease_ms

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
        (found,) = self.put_many(
            (data,),
            priority=priority,
            delay=delay,
            at=at,
            ttl=ttl,
            keys=None if key is None else (key,),
            groups=None if group is None else (group,),
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
        now_us = self._at.clock.now_us()
        job = job_options.job_of(now_us, priority=priority, delay=delay, at=at, ttl=ttl)
        plain = job_options.plain_keys(keys, len(data))
        job_options.metas_of(job, len(data), keys=plain, groups=groups, priorities=priorities)
        of_many(data, {"key": plain, "tag": tag}, None, UNLIMITED)
        plain_groups = (
            None if groups is None else [job_options.plain_group(each) for each in groups]
        )
        asked = wire.PutJobs(
            jobs=told_jobs.new_jobs(data, plain, plain_groups, priorities),
            priority=priority,
            delay_ms=delay * 1000,
            at_us=at,
            ttl_ms=None if ttl is None else ttl * 1000,
            tag=tag,
        )
        done = self._at.do("jobs", asked, wire.PutJobsDone)
        return [Put(each.seq, each.existed) for each in done.jobs]

    def claim(
        self, max: int = 1, *, worker: str = "", lease: float | None = None, wait_s: float = 0.0
    ) -> list[RemoteJob]:
        """Take the next jobs, at most so many: yours for ``lease`` seconds.

        When there is none, waits for one at most ``wait_s`` seconds.
        """
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"claim 1 to {CLAIM_MAX} jobs, not {max}")
        lease_ms = None if lease is None else lease_ms_of(lease)
        job_options.plain_worker(worker)
        clock = self._at.clock
        until = clock.monotonic() + checked_wait(wait_s)
        found: list[RemoteJob] = []
        while True:
            left = until - clock.monotonic() if not found else 0.0
            now_s = min(_WAIT_S_MAX, left) if left > 0 else 0.0
            asked = wire.Claim(
                node=worker,
                max=min(_AT_ONCE, max - len(found)),
                lease_ms=lease_ms,
                wait_ms=round(now_s * 1000),
                include_micros=True,
            )
            told = self._leases.poll("claim", asked, wire.Claimed, wait_s=now_s)
            found += [self._job(each) for each in told.claimed]
            enough = len(found) >= max or (found and len(told.claimed) < asked.max)
            if enough or (not told.claimed and left <= now_s):
                return found

    def ack(self, job: Held) -> bool:
        """A job is done: it leaves the queue. False when it is no longer under this lease."""
        return (self.ack_many((job,))).done == 1

    def ack_many(self, jobs: Sequence[Held]) -> Settled:
        """Jobs are done."""

        def said(some: Sequence[Held]) -> wire.Settle:
            return wire.Settle(node="", **told_jobs.named(some))

        return self._settle("ack", jobs, said, wire.Acked)

    def nack(self, job: Held, *, delay: float = 0.0) -> bool:
        """Give a job back, to be claimed again in so many seconds; False when it is not held."""
        return (self.nack_many((job,), delay=delay)).done == 1

    def nack_many(self, jobs: Sequence[Held], *, delay: float = 0.0) -> Settled:
        """Give jobs back."""
        moment_after(0, delay, "delay")

        def said(some: Sequence[Held]) -> wire.Nack:
            return wire.Nack(node="", **told_jobs.named(some), delay_ms=delay * 1000)

        return self._settle("nack", jobs, said, wire.Nacked)

    def extend(self, job: Held, *, lease: float | None = None) -> bool:
        """Keep a job for so many seconds from now; False when it is no longer under this lease."""
        return (self.extend_many((job,), lease=lease)).done == 1

    def extend_many(self, jobs: Sequence[Held], *, lease: float | None = None) -> Settled:
        """Keep jobs."""
        lease_ms = None if lease is None else lease_ms_of(lease)

        def said(some: Sequence[Held]) -> wire.Extend:
            return wire.Extend(node="", **told_jobs.named(some), lease_ms=lease_ms)

        return self._settle("extend", jobs, said, wire.Extended)

    def release(self, worker: str) -> int:
        """Give back all that a worker holds, as when its connection is lost; how many jobs."""
        if not job_options.plain_worker(worker):
            raise Invalid("name the worker whose jobs are to be given back")
        asked = wire.Release(node=worker)
        return (self._at.do("release", asked, wire.Released)).released

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
        JobFilter(tag=tag, from_seq=from_seq, to_seq=to_seq).checked()
        asked = wire.PurgeJobs(tag=tag, from_seq=from_seq, to_seq=to_seq, dry_run=dry_run)
        return (self._at.do("purge", asked, wire.Purged)).purged

    def peek(self, max: int = 1) -> list[Waiting]:
        """The jobs that would be claimed next, at most so many; they stay where they are."""
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"peek at 1 to {CLAIM_MAX} jobs, not {max}")
        query = {"max": str(max), "include_micros": "true"}
        told = self._at.get("peek", wire.Peeked, query)
        return [told_jobs.waiting_of(each) for each in told.jobs]

    def pause(self) -> None:
        """Give out no jobs until ``resume``, also after a restart. Putting goes on."""
        self._at.find("pause", None, wire.Paused)

    def resume(self) -> None:
        """Give out jobs again."""
        self._at.find("resume", None, wire.Paused)

    @property
    def paused(self) -> bool:
        return (self.statistics()).paused

    def statistics(self) -> QueueStatistics:
        """The queue in numbers, at this moment."""
        told = msgspec.to_builtins(self._at.get("", wire.QueueState))
        return msgspec.convert(told, QueueStatistics)

    def compact(self) -> None:
        """Say the state of all leases once more, so that older records can leave the log."""
        self._at.find("compact", None, wire.Compacted)

    def _job(self, told: wire.ClaimedJob) -> RemoteJob:
        record = told_jobs.record_of(told)
        deadline = told_jobs.deadline_of(told)
        return RemoteJob(self, record, int(told.lease_id), told.deliveries, deadline)

    def _settle(
        self,
        verb: str,
        held: Sequence[Held],
        said: Callable[[Sequence[Held]], object],
        kind: type[Told],
    ) -> Settled:
        done, skipped = 0, []
        for place in range(0, len(held), _AT_ONCE):
            some = list({one.seq: one for one in held[place : place + _AT_ONCE]}.values())
            body = msgspec.json.encode(said(some))
            ask = Ask("POST", f"{self._leases.path}/{verb}", body=body, safe=True)
            reply = self._leases.ask(ask)
            told = reply.told(kind)
            if told.skipped and reply.repeated and verb != "extend":
                raise Unreachable(
                    f"an answer was lost: {verb} of jobs {told.skipped} was done then, or came too "
                    "late; which of them is not known"
                )
            done += len(some) - len(told.skipped)
            skipped += told.skipped
        return Settled(done, tuple(skipped))
