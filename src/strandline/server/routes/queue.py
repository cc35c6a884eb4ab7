"""Routes of queues: put jobs, claim them under leases, end them.

A claim that waits holds no thread. Of the claims that wait for one queue the first is notified; the
others wait for its lock in order, so that a job wakes one of them and not all.

A claimed job is leased in the log. So a claim whose client disconnected is not served, and ``work``
(``queue_stream.py``) returns the jobs that its connection still holds when that is closed.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from strandline.api import queues as wire
from strandline.api.bytes_fields import optional_key, required_value
from strandline.api.errors import Refused
from strandline.errors import Invalid
from strandline.server.async_wait import RequestWait
from strandline.server.handlers.view_lookup import (
    find_queue,
    find_view,
    run_on_view,
    run_slow_on_view,
    write_to_view,
)
from strandline.server.http.event_stream import EVENTS
from strandline.server.http.request import RequestContext
from strandline.server.http.route import Handler, JsonResponse, Route, RoutePermission
from strandline.server.routes import queue_stream
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import AckResult, Job, LeaseTicket
from strandline.views.queue.queue import Queue

WAIT_MS_MAX = 30_000

_CLAIM_LOCKS: weakref.WeakKeyDictionary[Queue, asyncio.Lock] = weakref.WeakKeyDictionary()
"""The lock of the claims that wait for a job: its holder is notified."""
_READ = (RoutePermission("read", "topic"),)
_WRITE = (RoutePermission("write", "topic"),)
_CONFIG = (RoutePermission("config", "topic"),)
_CONSUME = (RoutePermission("consume", "topic"),)
_ERRORS = ("topic_not_found", "not_a_queue", "batch_too_large", "throttled")


async def claim(call: RequestContext) -> JsonResponse:
    body: wire.ClaimJobsRequest = call.body
    queue = await find_view(call, find_queue)
    terms = queue_stream.ClaimTerms.of(call, body.node, body.max, body.lease_ms)
    jobs = await call.parts.bridge.run_view(queue.name, terms.claim, queue)
    if not jobs and body.wait_ms > 0:
        jobs = await _wait_to_claim(call, queue, terms, min(body.wait_ms, WAIT_MS_MAX) / 1000)
    ready = (await call.parts.bridge.run_view(queue.name, queue.statistics)).ready
    claimed = [serializers_queue.claimed_job(job, micros=body.include_micros) for job in jobs]
    response = wire.ClaimJobsResponse(
        topic=queue.name, claimed=claimed, count=len(claimed), ready=ready
    )
    return JsonResponse(response)


async def ack(call: RequestContext) -> JsonResponse:
    body: wire.AckJobsRequest = call.body

    def work(queue: Queue) -> wire.AckJobsResponse:
        done, skipped = _apply(queue, body, queue.ack_many)
        state = queue.statistics()
        return wire.AckJobsResponse(
            topic=queue.name,
            acked=len(done),
            skipped=skipped,
            ready=state.ready,
            in_flight=state.in_flight,
        )

    _check_seqs(call, body.seqs)
    return JsonResponse(await run_on_view(call, find_queue, work))


async def nack(call: RequestContext) -> JsonResponse:
    body: wire.NackJobsRequest = call.body

    def work(queue: Queue) -> wire.NackJobsResponse:
        delay = body.delay_ms / 1000
        done, skipped = _apply(queue, body, lambda held: queue.nack_many(held, delay=delay))
        state = queue.statistics()
        return wire.NackJobsResponse(
            topic=queue.name,
            nacked=len(done),
            skipped=skipped,
            ready=state.ready,
            in_flight=state.in_flight,
        )

    _check_seqs(call, body.seqs)
    if not 0 <= body.delay_ms <= wire.LEASE_MS_MAX:
        raise Invalid(f"delay_ms is 0 to {wire.LEASE_MS_MAX}, not {body.delay_ms}")
    return JsonResponse(await run_on_view(call, find_queue, work))


async def extend(call: RequestContext) -> JsonResponse:
    body: wire.ExtendJobsRequest = call.body
    lease_ms = queue_stream.lease_ms_of(body.lease_ms)

    def work(queue: Queue) -> wire.ExtendJobsResponse:
        lasts_ms = queue.lease_ms if lease_ms is None else lease_ms
        lease = lasts_ms / 1000
        done, skipped = _apply(queue, body, lambda held: queue.extend_many(held, lease=lease))
        deadline = call.parts.clock.now_us() // 1000 + lasts_ms
        return wire.ExtendJobsResponse(
            topic=queue.name,
            extended=len(done),
            skipped=skipped,
            deadlines={str(seq): deadline for seq in done},
        )

    _check_seqs(call, body.seqs)
    return JsonResponse(await run_on_view(call, find_queue, work))


async def release(call: RequestContext) -> JsonResponse:
    body: wire.ReleaseJobsRequest = call.body

    def work(queue: Queue) -> wire.ReleaseJobsResponse:
        return wire.ReleaseJobsResponse(topic=queue.name, released=queue.release(body.node))

    return JsonResponse(await run_on_view(call, find_queue, work))


async def put(call: RequestContext) -> JsonResponse:
    body: wire.PutJobs = call.body
    jobs_max = call.parts.settings.limits.batch_records_max
    if not 1 <= len(body.jobs) <= jobs_max:
        raise _too_large("jobs", len(body.jobs), jobs_max)
    default = PRIORITY if body.priority is None else body.priority
    data = [required_value("data", job.data, job.data_base64) for job in body.jobs]
    keys = [optional_key("key", job.key, job.key_base64) for job in body.jobs]
    groups = [optional_key("group", job.group, job.group_base64) for job in body.jobs]
    priorities = [default if job.priority is None else job.priority for job in body.jobs]

    def work(queue: Queue) -> wire.PutJobsResponse:
        results = queue.put_many(
            data,
            priority=default,
            delay=body.delay_ms / 1000,
            at=body.at_us,
            ttl=None if body.ttl_ms is None else body.ttl_ms / 1000,
            keys=keys if any(key is not None for key in keys) else None,
            groups=groups if any(group is not None for group in groups) else None,
            priorities=priorities if any(each != default for each in priorities) else None,
            tag=body.tag,
        )
        jobs_done = [wire.PutJob(seq=each.seq, existed=each.existed) for each in results]
        return wire.PutJobsResponse(topic=queue.name, jobs=jobs_done)

    return JsonResponse(await write_to_view(call, find_queue, work))


async def purge(call: RequestContext) -> JsonResponse:
    body: wire.PurgeJobs = call.body

    def work(queue: Queue) -> wire.PurgeResponse:
        purged = queue.purge(
            tag=body.tag, from_seq=body.from_seq, to_seq=body.to_seq, dry_run=body.dry_run
        )
        return wire.PurgeResponse(topic=queue.name, purged=purged, dry_run=body.dry_run)

    return JsonResponse(await run_slow_on_view(call, find_queue, work))


async def peek(call: RequestContext) -> JsonResponse:
    query: wire.PeekQuery = call.query
    count = max(1, min(query.max, call.parts.settings.limits.claim_max))

    def work(queue: Queue) -> wire.PeekResponse:
        jobs = [
            serializers_queue.waiting_job(j, micros=query.include_micros) for j in queue.peek(count)
        ]
        return wire.PeekResponse(topic=queue.name, jobs=jobs)

    return JsonResponse(await run_on_view(call, find_queue, work))


async def state(call: RequestContext) -> JsonResponse:
    def work(queue: Queue) -> wire.QueueState:
        state = queue.statistics()
        return wire.QueueState(
            topic=queue.name,
            ready=state.ready,
            delayed=state.delayed,
            blocked=state.blocked,
            in_flight=state.in_flight,
            dying=state.dying,
            dead=state.dead,
            paused=state.paused,
        )

    return JsonResponse(await run_on_view(call, find_queue, work))


def _pausing(*, paused: bool) -> Handler:
    async def handler(call: RequestContext) -> JsonResponse:
        def work(queue: Queue) -> wire.PauseResponse:
            queue.pause() if paused else queue.resume()
            return wire.PauseResponse(topic=queue.name, paused=queue.paused)

        return JsonResponse(await run_on_view(call, find_queue, work))

    return handler


async def compact(call: RequestContext) -> JsonResponse:
    def work(queue: Queue) -> wire.CompactQueueResponse:
        queue.compact()
        return wire.CompactQueueResponse(topic=queue.name)

    return JsonResponse(await run_on_view(call, find_queue, work))


async def _wait_to_claim(
    call: RequestContext, queue: Queue, terms: queue_stream.ClaimTerms, wait_s: float
) -> list[Job]:
    """Wait for the first jobs, after claims that have waited longer."""
    lock = _CLAIM_LOCKS.setdefault(queue, asyncio.Lock())
    with RequestWait(call, wait_s) as request_wait, queue.subscribe(request_wait.notify):
        if not await request_wait.acquire(lock):
            return []
        try:
            return await _first_jobs(call, queue, terms, request_wait)
        finally:
            lock.release()


async def _first_jobs(
    call: RequestContext, queue: Queue, terms: queue_stream.ClaimTerms, request_wait: RequestWait
) -> list[Job]:
    bridge, topic = call.parts.bridge, call.parts.store.existing_topic(queue.name)
    while request_wait.left_s:
        request_wait.clear()
        head = topic.head_seq
        jobs = await bridge.run_view(queue.name, terms.claim, queue)
        if jobs:
            return jobs
        due_s = await bridge.run_view(queue.name, queue.due_s)
        nap_s_max = None if due_s is None else max(queue_stream.NAP_S_MIN, due_s)
        await request_wait.wait_for_record(topic, head, nap_s_max)
    return []


def _apply(
    queue: Queue,
    body: wire.AckJobsRequest | wire.NackJobsRequest | wire.ExtendJobsRequest,
    act: Callable[[Sequence[LeaseTicket]], AckResult],
) -> tuple[list[int], list[int]]:
    """The seqs that ``act`` was applied to, and those that this worker no longer holds."""
    if body.lease_ids is None:
        held = queue.held(body.node, serializers_queue.plain_seqs(body.seqs))
    else:
        held = serializers_queue.tickets(body.seqs, body.lease_ids)
    skipped = set(act(held).skipped)
    done = {ticket.seq for ticket in held} - skipped
    seqs = list(dict.fromkeys(body.seqs))
    return [seq for seq in seqs if seq in done], [seq for seq in seqs if seq not in done]


def _check_seqs(call: RequestContext, seqs: Sequence[int]) -> None:
    seqs_max = call.parts.settings.limits.claim_max
    if not 1 <= len(seqs) <= seqs_max:
        raise _too_large("seqs", len(seqs), seqs_max)


def _too_large(what: str, count: int, count_max: int) -> Refused:
    code = "batch_too_large" if count else "invalid_request"
    return Refused(
        400, code, f"send 1 to {count_max} {what}, not {count}", detail={"max": count_max}
    )


_get = partial(Route, method="GET", errors=_ERRORS)
_post = partial(Route, method="POST", errors=_ERRORS)

ROUTES: tuple[Route, ...] = (
    _post(
        path="/v0/topics/{topic}/claim",
        handler=claim,
        needs=_CONSUME,
        summary="Claim the next jobs of a queue under a lease; can wait for one.",
        body=wire.ClaimJobsRequest,
        answers={200: wire.ClaimJobsResponse},
    ),
    _post(
        path="/v0/topics/{topic}/ack",
        handler=ack,
        needs=_CONSUME,
        summary="Acknowledge jobs: they leave the queue.",
        body=wire.AckJobsRequest,
        answers={200: wire.AckJobsResponse},
    ),
    _post(
        path="/v0/topics/{topic}/nack",
        handler=nack,
        needs=_CONSUME,
        summary="Return jobs, to be claimed again at once or after a delay.",
        body=wire.NackJobsRequest,
        answers={200: wire.NackJobsResponse},
    ),
    _post(
        path="/v0/topics/{topic}/extend",
        handler=extend,
        needs=_CONSUME,
        summary="Extend the leases of jobs.",
        body=wire.ExtendJobsRequest,
        answers={200: wire.ExtendJobsResponse},
    ),
    _get(
        path="/v0/topics/{topic}/work",
        handler=queue_stream.work,
        needs=_CONSUME,
        summary="Receive jobs over an SSE stream; closing it returns jobs that are not acked.",
        query=wire.WorkQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
    _post(
        path="/v0/queues/{topic}/jobs",
        handler=put,
        needs=_WRITE,
        summary="Put jobs, all or none, with delay, priority, unique key, group, ttl.",
        body=wire.PutJobs,
        answers={200: wire.PutJobsResponse},
        errors=(*_ERRORS, "topic_full"),
    ),
    _post(
        path="/v0/queues/{topic}/release",
        handler=release,
        needs=_CONSUME,
        summary="Return all jobs that a worker holds.",
        body=wire.ReleaseJobsRequest,
        answers={200: wire.ReleaseJobsResponse},
    ),
    _get(
        path="/v0/queues/{topic}/peek",
        handler=peek,
        needs=_READ,
        summary="List the jobs that would be claimed next, without claiming them.",
        query=wire.PeekQuery,
        answers={200: wire.PeekResponse},
    ),
    _get(
        path="/v0/queues/{topic}",
        handler=state,
        needs=_READ,
        summary="Get a queue's statistics.",
        answers={200: wire.QueueState},
    ),
    _post(
        path="/v0/queues/{topic}/purge",
        handler=purge,
        needs=(RoutePermission("delete", "topic"),),
        summary="Delete waiting jobs: all, or those of a tag or a range of seqs.",
        body=wire.PurgeJobs,
        answers={200: wire.PurgeResponse},
    ),
    _post(
        path="/v0/queues/{topic}/pause",
        handler=_pausing(paused=True),
        needs=_CONFIG,
        summary="Pause a queue: claims return no jobs until it is resumed.",
        answers={200: wire.PauseResponse},
    ),
    _post(
        path="/v0/queues/{topic}/resume",
        handler=_pausing(paused=False),
        needs=_CONFIG,
        summary="Resume a paused queue.",
        answers={200: wire.PauseResponse},
    ),
    _post(
        path="/v0/queues/{topic}/compact",
        handler=compact,
        needs=_CONFIG,
        summary="Write a snapshot of all leases, so that older records can be trimmed.",
        answers={200: wire.CompactQueueResponse},
    ),
)
