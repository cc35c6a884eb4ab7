"""``work``: jobs pushed over one SSE stream, up to the number that the worker may hold.

The next job is sent as soon as one was acked, over any connection, or its lease expired. When the
connection closes, the jobs sent over it that are not acked are returned at once, by the leases that
they had: jobs of other streams stay leased, also those of the same worker.
A claim that is in progress at that moment is waited for, and its jobs are returned, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import NamedTuple

from strandline.api import queues as wire
from strandline.server.async_wait import RequestWait
from strandline.server.handlers.view_lookup import find_queue, find_view
from strandline.server.http.event_stream import RECHECK_S, EventStream, frame
from strandline.server.http.request import RequestContext
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.job import Job
from strandline.views.queue.queue import Queue

NAP_S_MIN = 0.001
LEASE_MS_MIN = 100


class ClaimTerms(NamedTuple):
    """The claim of one worker: how many jobs, and for how long."""

    node: str
    jobs_max: int
    lease_s: float | None

    @staticmethod
    def of(call: RequestContext, node: str, count: int, lease_ms: int | None) -> ClaimTerms:
        """The request, within the limits."""
        lease_ms = lease_ms_of(lease_ms)
        lease_s = None if lease_ms is None else lease_ms / 1000
        return ClaimTerms(node, max(1, min(count, call.parts.settings.limits.claim_max)), lease_s)

    def claim(self, queue: Queue) -> list[Job]:
        return queue.claim(self.jobs_max, worker=self.node, lease=self.lease_s)


def lease_ms_of(requested_ms: int | None) -> int | None:
    """The requested lease, within the bounds."""
    return None if requested_ms is None else max(LEASE_MS_MIN, min(requested_ms, wire.LEASE_MS_MAX))


async def work(call: RequestContext) -> EventStream:
    query: wire.WorkQuery = call.query
    queue = await find_view(call, find_queue)
    terms = ClaimTerms.of(call, query.node, query.max, query.lease_ms)
    worker = _JobStream(call, queue, terms, micros=query.include_micros)
    return EventStream(call, worker.frames(), closing=worker.return_jobs)


class _JobStream:
    """One stream of jobs. Owned by the loop's thread."""

    def __init__(
        self, call: RequestContext, queue: Queue, terms: ClaimTerms, *, micros: bool
    ) -> None:
        self._call = call
        self._queue = queue
        self._terms = terms
        self._micros = micros
        self._held: list[Job] = []
        self._claiming: asyncio.Future[list[Job]] | None = None

    async def frames(self) -> AsyncIterator[bytes | None]:
        """Jobs as events; None when there was no job for a while."""
        topic = self._call.parts.store.existing_topic(self._queue.name)
        request_wait = RequestWait(self._call, math.inf)
        with self._queue.subscribe(request_wait.notify):
            while True:
                request_wait.clear()
                head = topic.head_seq
                await self._forget_ended()
                jobs = await self._claim()
                for job in jobs:
                    wire_job = serializers_queue.claimed_job(job, micros=self._micros)
                    yield frame("job", wire_job, str(job.seq))
                if not jobs:
                    yield None
                    await request_wait.wait_for_record(topic, head, await self._nap_s())

    async def return_jobs(self) -> None:
        """The stream has ended: return the jobs that are not acked."""
        if self._claiming is not None:
            await asyncio.wait((self._claiming,))
            if self._claiming.exception() is None:
                self._held += self._claiming.result()
        if self._held:
            await self._call.parts.bridge.run_view(
                self._queue.name, self._queue.nack_many, self._held
            )

    async def _forget_ended(self) -> None:
        if self._held:
            is_held = await self._call.parts.bridge.run_view(
                self._queue.name, self._queue.still_leased, self._held
            )
            self._held = [job for job, held in zip(self._held, is_held, strict=True) if held]

    async def _claim(self) -> list[Job]:
        free_count = self._terms.jobs_max - len(self._held)
        if free_count <= 0:
            return []
        terms = self._terms._replace(jobs_max=free_count)
        bridge = self._call.parts.bridge
        self._claiming = asyncio.ensure_future(
            bridge.run_view(self._queue.name, terms.claim, self._queue)
        )
        jobs = await asyncio.shield(self._claiming)
        self._claiming = None
        self._held += jobs
        return jobs

    async def _nap_s(self) -> float:
        due_s = await self._call.parts.bridge.run_view(self._queue.name, self._queue.due_s)
        return RECHECK_S if due_s is None else max(NAP_S_MIN, min(RECHECK_S, due_s))
