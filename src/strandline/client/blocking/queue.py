# Made from asynchronous/queue.py by tests/house/blocking.py: change that one.
"""A work queue of a server.

An ack, nack or extend names the lease of the job, so it is safe to repeat when a response is lost.
If the job is then no longer under that lease, it is not known whether the first attempt was
executed or the lease had ended: Unreachable is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from strandline.api import queues as wire
from strandline.api.topics import TopicInfo
from strandline.client import queue_codec
from strandline.client.append_codec import UNLIMITED
from strandline.client.blocking.dead_letters import RemoteDeadLetters
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.request import Request
from strandline.errors import Invalid, ObjectStoreUnreachable
from strandline.log.append.batch import of_many
from strandline.log.topic.validation import check_whole
from strandline.records import Record
from strandline.views.queue import job_options
from strandline.views.queue.acks import lease_ms_of
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import (
    AckResult,
    LeaseReference,
    PeekedJob,
    PutResult,
    QueueStatistics,
)
from strandline.views.queue.job_options import Key
from strandline.views.queue.purge import JobFilter
from strandline.views.queue.queue import CLAIM_MAX
from strandline.views.queue.times import checked_wait, time_after

_BATCH_SIZE = 1000
_WAIT_S_MAX = 25.0

Response = TypeVar("Response", wire.AckJobsResponse, wire.NackJobsResponse, wire.ExtendJobsResponse)


class RemoteJob:
    """A claimed job: it belongs to the worker until its lease ends, or until an ack or nack."""

    __slots__ = (
        *("_queue", "data", "deadline", "deliveries", "key", "lease", "meta", "seq", "tag", "ts"),
    )

    def __init__(
        self, queue: RemoteQueue, record: Record, lease: int, deliveries: int, deadline: int
    ) -> None:
        self._queue = queue
        self.seq = record.seq
        self.lease = lease
        """Never used twice, also not by a later queue of this name."""
        self.deliveries = deliveries
        """How often the job was claimed, including this time."""
        self.deadline = deadline
        """When the claimed lease ends: microseconds, by the server's clock at the claim."""
        self.ts = record.ts
        self.data = record.data
        self.key = record.key
        self.tag = record.tag
        self.meta = record.meta

    def __repr__(self) -> str:
        return f"RemoteJob(seq={self.seq}, lease={self.lease}, deliveries={self.deliveries})"

    def ack(self) -> bool:
        """Report the job as done; False if it is no longer under this lease."""
        return self._queue.ack(self)

    def nack(self, delay: float = 0.0) -> bool:
        """Return the job, to be claimed again after ``delay`` seconds; False as above."""
        return self._queue.nack(self, delay=delay)

    def extend(self, lease: float | None = None) -> bool:
        """Renew the lease for so many seconds from now; False as above."""
        return self._queue.extend(self, lease=lease)


class RemoteQueue:
    """A work queue. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint, leases: RemoteEndpoint, name: str) -> None:
        self.name = name
        self._endpoint = endpoint
        self._leases = leases
        self.dead = RemoteDeadLetters(endpoint)
        """The dead letters of the queue."""

    def __repr__(self) -> str:
        return f"RemoteQueue({self.name!r})"

    @property
    def lease_ms(self) -> int:
        """The default lease of a claim."""
        return (self._leases.get("", TopicInfo)).config.lease_ms

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
        """Put a job, claimable after a delay or a time, and until its ttl.

        If a waiting or claimed job has the same ``key``, that job is returned and none is put. Jobs
        of a ``group`` are claimed one after the other, in the order in which they were put.
        """
        (job,) = self.put_many(
            (data,),
            priority=priority,
            delay=delay,
            at=at,
            ttl=ttl,
            keys=None if key is None else (key,),
            groups=None if group is None else (group,),
            tag=tag,
        )
        return job

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
        """Put jobs, all or none; for a key that is in use the job that has it is returned."""
        now_us = self._endpoint.clock.now_us()
        job = job_options.job_of(now_us, priority=priority, delay=delay, at=at, ttl=ttl)
        plain = job_options.plain_keys(keys, len(data))
        job_options.metas_of(job, len(data), keys=plain, groups=groups, priorities=priorities)
        of_many(data, {"key": plain, "tag": tag}, None, UNLIMITED)
        plain_groups = (
            None if groups is None else [job_options.plain_group(each) for each in groups]
        )
        body = wire.PutJobs(
            jobs=queue_codec.new_jobs(data, plain, plain_groups, priorities),
            priority=priority,
            delay_ms=delay * 1000,
            at_us=at,
            ttl_ms=None if ttl is None else ttl * 1000,
            tag=tag,
        )
        response = self._endpoint.post("jobs", body, wire.PutJobsResponse)
        return [PutResult(each.seq, each.existed) for each in response.jobs]

    def claim(
        self, max: int = 1, *, worker: str = "", lease: float | None = None, wait_s: float = 0.0
    ) -> list[RemoteJob]:
        """Claim the next jobs, at most ``max``, for ``lease`` seconds.

        If there are none, wait for one at most ``wait_s`` seconds.
        """
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"claim 1 to {CLAIM_MAX} jobs, not {max}")
        lease_ms = None if lease is None else lease_ms_of(lease)
        job_options.plain_worker(worker)
        clock = self._endpoint.clock
        until = clock.monotonic() + checked_wait(wait_s)
        jobs: list[RemoteJob] = []
        while True:
            left = until - clock.monotonic() if not jobs else 0.0
            request_wait_s = min(_WAIT_S_MAX, left) if left > 0 else 0.0
            body = wire.ClaimJobsRequest(
                node=worker,
                max=min(_BATCH_SIZE, max - len(jobs)),
                lease_ms=lease_ms,
                wait_ms=round(request_wait_s * 1000),
                include_micros=True,
            )
            response = self._leases.poll(
                "claim", body, wire.ClaimJobsResponse, wait_s=request_wait_s
            )
            jobs += [self._job(each) for each in response.claimed]
            is_complete = len(jobs) >= max or (jobs and len(response.claimed) < body.max)
            if is_complete or (not response.claimed and left <= request_wait_s):
                return jobs

    def ack(self, job: LeaseReference) -> bool:
        """Report a job as done: it leaves the queue. False if it is not under this lease."""
        return (self.ack_many((job,))).done == 1

    def ack_many(self, jobs: Sequence[LeaseReference]) -> AckResult:
        """Report jobs as done."""

        def body_of(batch: Sequence[LeaseReference]) -> wire.AckJobsRequest:
            return wire.AckJobsRequest(node="", **queue_codec.lease_fields(batch))

        return self._finish("ack", jobs, body_of, wire.AckJobsResponse)

    def nack(self, job: LeaseReference, *, delay: float = 0.0) -> bool:
        """Return a job, to be claimed again after ``delay`` seconds; False if it is not held."""
        return (self.nack_many((job,), delay=delay)).done == 1

    def nack_many(self, jobs: Sequence[LeaseReference], *, delay: float = 0.0) -> AckResult:
        """Return jobs."""
        time_after(0, delay, "delay")

        def body_of(batch: Sequence[LeaseReference]) -> wire.NackJobsRequest:
            return wire.NackJobsRequest(
                node="", **queue_codec.lease_fields(batch), delay_ms=delay * 1000
            )

        return self._finish("nack", jobs, body_of, wire.NackJobsResponse)

    def extend(self, job: LeaseReference, *, lease: float | None = None) -> bool:
        """Renew the lease of a job for so many seconds; False if it is not under this lease."""
        return (self.extend_many((job,), lease=lease)).done == 1

    def extend_many(
        self, jobs: Sequence[LeaseReference], *, lease: float | None = None
    ) -> AckResult:
        """Renew the leases of jobs."""
        lease_ms = None if lease is None else lease_ms_of(lease)

        def body_of(batch: Sequence[LeaseReference]) -> wire.ExtendJobsRequest:
            return wire.ExtendJobsRequest(
                node="", **queue_codec.lease_fields(batch), lease_ms=lease_ms
            )

        return self._finish("extend", jobs, body_of, wire.ExtendJobsResponse)

    def release(self, worker: str) -> int:
        """Return all jobs of a worker, as when its connection is lost; return their number."""
        if not job_options.plain_worker(worker):
            raise Invalid("name the worker whose jobs are to be returned")
        body = wire.ReleaseJobsRequest(node=worker)
        return (self._endpoint.post("release", body, wire.ReleaseJobsResponse)).released

    def purge(
        self,
        *,
        tag: str | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete waiting jobs: all, or those with a tag (``"eu*"`` for a prefix), of a range of
        seqs (both ends included), or both; return their number. Claimed jobs stay.
        """
        JobFilter(tag=tag, from_seq=from_seq, to_seq=to_seq).checked()
        body = wire.PurgeJobs(tag=tag, from_seq=from_seq, to_seq=to_seq, dry_run=dry_run)
        return (self._endpoint.post("purge", body, wire.PurgeResponse)).purged

    def peek(self, max: int = 1) -> list[PeekedJob]:
        """The jobs that would be claimed next, at most ``max``; they are not claimed."""
        check_whole(max=max)
        if not 1 <= max <= CLAIM_MAX:
            raise Invalid(f"peek at 1 to {CLAIM_MAX} jobs, not {max}")
        query = {"max": str(max), "include_micros": "true"}
        response = self._endpoint.get("peek", wire.PeekResponse, query)
        return [queue_codec.waiting_of(each) for each in response.jobs]

    def pause(self) -> None:
        """Stop claims until ``resume``, also after a restart. Puts continue."""
        self._endpoint.post_safe("pause", None, wire.PauseResponse)

    def resume(self) -> None:
        """Allow claims again."""
        self._endpoint.post_safe("resume", None, wire.PauseResponse)

    @property
    def paused(self) -> bool:
        return (self.statistics()).paused

    def statistics(self) -> QueueStatistics:
        """The current statistics of the queue."""
        fields = msgspec.to_builtins(self._endpoint.get("", wire.QueueState))
        return msgspec.convert(fields, QueueStatistics)

    def compact(self) -> None:
        """Write a snapshot of the lease state, so that older lease records can leave the log."""
        self._endpoint.post_safe("compact", None, wire.CompactQueueResponse)

    def _job(self, claimed: wire.ClaimedJob) -> RemoteJob:
        record = queue_codec.record_of(claimed)
        deadline = queue_codec.deadline_of(claimed)
        return RemoteJob(self, record, int(claimed.lease_id), claimed.deliveries, deadline)

    def _finish(
        self,
        verb: str,
        held: Sequence[LeaseReference],
        body_of: Callable[[Sequence[LeaseReference]], object],
        kind: type[Response],
    ) -> AckResult:
        done, skipped = 0, []
        for first in range(0, len(held), _BATCH_SIZE):
            batch = list({job.seq: job for job in held[first : first + _BATCH_SIZE]}.values())
            body = msgspec.json.encode(body_of(batch))
            request = Request("POST", f"{self._leases.path}/{verb}", body=body, safe=True)
            response = self._leases.request(request)
            result = response.decode(kind)
            if result.skipped and response.repeated and verb != "extend":
                raise ObjectStoreUnreachable(
                    f"a response was lost: {verb} of jobs {result.skipped} was executed then, or "
                    "came too late; which of the two is not known"
                )
            done += len(batch) - len(result.skipped)
            skipped += result.skipped
        return AckResult(done, tuple(skipped))
