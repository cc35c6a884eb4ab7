"""``work``: jobs pushed over one SSE stream, as many as the worker may have in its hands.

The next job comes as soon as one is done, by an ack over any connection, or its lease is over. When
the connection closes, what went over it and is not done is given back at once, under the very
leases that it had: nothing of another is touched, also not of the same worker on another stream.
A claim that is under way at that moment is waited for, and given back, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import NamedTuple

from strandline.api import queues as wire
from strandline.server.async_wait import Patience
from strandline.server.handlers.view_lookup import find_queue, find_view
from strandline.server.http.event_stream import RECHECK_S, EventStream, frame
from strandline.server.http.request import Call
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.job import Job
from strandline.views.queue.queue import Queue

NAP_S_MIN = 0.001
LEASE_MS_MIN = 100


class Wanted(NamedTuple):
    """What one worker asks for."""

    node: str
    jobs_max: int
    lease_s: float | None

    @staticmethod
    def of(call: Call, node: str, count: int, lease_ms: int | None) -> Wanted:
        """As it was asked, within the limits."""
        lease_ms = lease_ms_of(lease_ms)
        lease_s = None if lease_ms is None else lease_ms / 1000
        return Wanted(node, max(1, min(count, call.parts.settings.limits.claim_max)), lease_s)

    def claim(self, queue: Queue) -> list[Job]:
        return queue.claim(self.jobs_max, worker=self.node, lease=self.lease_s)


def lease_ms_of(given: int | None) -> int | None:
    """A lease within the bounds."""
    return None if given is None else max(LEASE_MS_MIN, min(given, wire.LEASE_MS_MAX))


async def work(call: Call) -> EventStream:
    asked: wire.WorkQuery = call.query
    queue = await find_view(call, find_queue)
    wanted = Wanted.of(call, asked.node, asked.max, asked.lease_ms)
    worker = Worker(call, queue, wanted, micros=asked.include_micros)
    return EventStream(call, worker.frames(), closing=worker.give_back)


class Worker:
    """One stream of jobs. Owned by the loop's thread."""

    def __init__(self, call: Call, queue: Queue, wanted: Wanted, *, micros: bool) -> None:
        self._call = call
        self._queue = queue
        self._wanted = wanted
        self._micros = micros
        self._held: list[Job] = []
        self._claiming: asyncio.Future[list[Job]] | None = None

    async def frames(self) -> AsyncIterator[bytes | None]:
        """Jobs as events; None when there was none for a while."""
        topic = self._call.parts.store.existing_topic(self._queue.name)
        patience = Patience(self._call, math.inf)
        with self._queue.calling(patience.ring):
            while True:
                patience.clear()
                head = topic.head_seq
                await self._forget_done()
                jobs = await self._claim()
                for job in jobs:
                    told = serializers_queue.claimed_job(job, micros=self._micros)
                    yield frame("job", told, str(job.seq))
                if not jobs:
                    yield None
                    await patience.something_new(topic, head, await self._nap_s())

    async def give_back(self) -> None:
        """The stream is over: what is not done is nobody's from now on."""
        if self._claiming is not None:
            await asyncio.wait((self._claiming,))
            if self._claiming.exception() is None:
                self._held += self._claiming.result()
        if self._held:
            await self._call.parts.bridge.run_view(
                self._queue.name, self._queue.nack_many, self._held
            )

    async def _forget_done(self) -> None:
        if self._held:
            still = await self._call.parts.bridge.run_view(
                self._queue.name, self._queue.in_hand, self._held
            )
            self._held = [job for job, held in zip(self._held, still, strict=True) if held]

    async def _claim(self) -> list[Job]:
        room = self._wanted.jobs_max - len(self._held)
        if room <= 0:
            return []
        wanted = self._wanted._replace(jobs_max=room)
        bridge = self._call.parts.bridge
        self._claiming = asyncio.ensure_future(
            bridge.run_view(self._queue.name, wanted.claim, self._queue)
        )
        jobs = await asyncio.shield(self._claiming)
        self._claiming = None
        self._held += jobs
        return jobs

    async def _nap_s(self) -> float:
        due_s = await self._call.parts.bridge.run_view(self._queue.name, self._queue.due_s)
        return RECHECK_S if due_s is None else max(NAP_S_MIN, min(RECHECK_S, due_s))
