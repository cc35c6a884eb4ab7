"""Routes of queues: jobs in, jobs out under leases, what became of them.

A claim that waits holds no thread. Of those who wait for one queue the first listens, the others
stand in line behind it, so that a job wakes one of them and not all.

A job that is handed out is leased on the log. So a claim whose client has gone is not served, and
``work`` (``queue_stream.py``) gives back what its connection still holds when that is closed.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from strandline.api import queues as wire
from strandline.api.bytes_fields import found_key, given_value
from strandline.api.errors import Refused
from strandline.errors import Invalid
from strandline.server.async_wait import Patience
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_queue, find_view, write
from strandline.server.http.event_stream import EVENTS
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Handler, Need, Route
from strandline.server.routes import queue_stream
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import Job, Settled, Ticket
from strandline.views.queue.queue import Queue

WAIT_MS_MAX = 30_000

_LINES: weakref.WeakKeyDictionary[Queue, asyncio.Lock] = weakref.WeakKeyDictionary()
"""Where those stand who wait for a job: who has the lock listens."""
_READ = (Need("read", "topic"),)
_WRITE = (Need("write", "topic"),)
_CONFIG = (Need("config", "topic"),)
_CONSUME = (Need("consume", "topic"),)
_ERRORS = ("topic_not_found", "not_a_queue", "batch_too_large", "throttled")


async def claim(call: Call) -> Answer:
    asked: wire.Claim = call.body
    queue = await find_view(call, find_queue)
    wanted = queue_stream.Wanted.of(call, asked.node, asked.max, asked.lease_ms)
    jobs = await call.parts.bridge.run_view(queue.name, wanted.claim, queue)
    if not jobs and asked.wait_ms > 0:
        jobs = await _claim_in_line(call, queue, wanted, min(asked.wait_ms, WAIT_MS_MAX) / 1000)
    ready = (await call.parts.bridge.run_view(queue.name, queue.statistics)).ready
    told = [serializers_queue.claimed_job(job, micros=asked.include_micros) for job in jobs]
    done = wire.Claimed(topic=queue.name, claimed=told, count=len(told), ready=ready)
    return Answer(done)


async def ack(call: Call) -> Answer:
    asked: wire.Settle = call.body

    def work(queue: Queue) -> wire.Acked:
        done, skipped = _settle(queue, asked, queue.ack_many)
        now = queue.statistics()
        return wire.Acked(
            topic=queue.name,
            acked=len(done),
            skipped=skipped,
            ready=now.ready,
            in_flight=now.in_flight,
        )

    _check_seqs(call, asked.seqs)
    return Answer(await ask(call, find_queue, work))


async def nack(call: Call) -> Answer:
    asked: wire.Nack = call.body

    def work(queue: Queue) -> wire.Nacked:
        delay = asked.delay_ms / 1000
        done, skipped = _settle(queue, asked, lambda held: queue.nack_many(held, delay=delay))
        now = queue.statistics()
        return wire.Nacked(
            topic=queue.name,
            nacked=len(done),
            skipped=skipped,
            ready=now.ready,
            in_flight=now.in_flight,
        )

    _check_seqs(call, asked.seqs)
    if not 0 <= asked.delay_ms <= wire.LEASE_MS_MAX:
        raise Invalid(f"delay_ms is 0 to {wire.LEASE_MS_MAX}, not {asked.delay_ms}")
    return Answer(await ask(call, find_queue, work))


async def extend(call: Call) -> Answer:
    asked: wire.Extend = call.body
    lease_ms = queue_stream.lease_ms_of(asked.lease_ms)

    def work(queue: Queue) -> wire.Extended:
        lasts_ms = queue.lease_ms if lease_ms is None else lease_ms
        lease = lasts_ms / 1000
        done, skipped = _settle(queue, asked, lambda held: queue.extend_many(held, lease=lease))
        deadline = call.parts.clock.now_us() // 1000 + lasts_ms
        return wire.Extended(
            topic=queue.name,
            extended=len(done),
            skipped=skipped,
            deadlines={str(seq): deadline for seq in done},
        )

    _check_seqs(call, asked.seqs)
    return Answer(await ask(call, find_queue, work))


async def release(call: Call) -> Answer:
    asked: wire.Release = call.body

    def work(queue: Queue) -> wire.Released:
        return wire.Released(topic=queue.name, released=queue.release(asked.node))

    return Answer(await ask(call, find_queue, work))


async def put(call: Call) -> Answer:
    asked: wire.PutJobs = call.body
    jobs_max = call.parts.settings.limits.batch_records_max
    if not 1 <= len(asked.jobs) <= jobs_max:
        raise _too_large("jobs", len(asked.jobs), jobs_max)
    default = PRIORITY if asked.priority is None else asked.priority
    data = [given_value("data", job.data, job.data_base64) for job in asked.jobs]
    keys = [found_key("key", job.key, job.key_base64) for job in asked.jobs]
    groups = [found_key("group", job.group, job.group_base64) for job in asked.jobs]
    priorities = [default if job.priority is None else job.priority for job in asked.jobs]

    def work(queue: Queue) -> wire.PutJobsDone:
        done = queue.put_many(
            data,
            priority=default,
            delay=asked.delay_ms / 1000,
            at=asked.at_us,
            ttl=None if asked.ttl_ms is None else asked.ttl_ms / 1000,
            keys=keys if any(key is not None for key in keys) else None,
            groups=groups if any(group is not None for group in groups) else None,
            priorities=priorities if any(each != default for each in priorities) else None,
            tag=asked.tag,
        )
        told = [wire.PutJob(seq=each.seq, existed=each.existed) for each in done]
        return wire.PutJobsDone(topic=queue.name, jobs=told)

    return Answer(await write(call, find_queue, work))


async def purge(call: Call) -> Answer:
    asked: wire.PurgeJobs = call.body

    def work(queue: Queue) -> wire.Purged:
        purged = queue.purge(
            tag=asked.tag, from_seq=asked.from_seq, to_seq=asked.to_seq, dry_run=asked.dry_run
        )
        return wire.Purged(topic=queue.name, purged=purged, dry_run=asked.dry_run)

    return Answer(await ask_slowly(call, find_queue, work))


async def peek(call: Call) -> Answer:
    asked: wire.PeekQuery = call.query
    count = max(1, min(asked.max, call.parts.settings.limits.claim_max))

    def work(queue: Queue) -> wire.Peeked:
        jobs = [
            serializers_queue.waiting_job(j, micros=asked.include_micros) for j in queue.peek(count)
        ]
        return wire.Peeked(topic=queue.name, jobs=jobs)

    return Answer(await ask(call, find_queue, work))


async def state(call: Call) -> Answer:
    def work(queue: Queue) -> wire.QueueState:
        now = queue.statistics()
        return wire.QueueState(
            topic=queue.name,
            ready=now.ready,
            delayed=now.delayed,
            blocked=now.blocked,
            in_flight=now.in_flight,
            dying=now.dying,
            dead=now.dead,
            paused=now.paused,
        )

    return Answer(await ask(call, find_queue, work))


def _pausing(*, paused: bool) -> Handler:
    async def handler(call: Call) -> Answer:
        def work(queue: Queue) -> wire.Paused:
            queue.pause() if paused else queue.resume()
            return wire.Paused(topic=queue.name, paused=queue.paused)

        return Answer(await ask(call, find_queue, work))

    return handler


async def compact(call: Call) -> Answer:
    def work(queue: Queue) -> wire.Compacted:
        queue.compact()
        return wire.Compacted(topic=queue.name)

    return Answer(await ask(call, find_queue, work))


async def _claim_in_line(
    call: Call, queue: Queue, wanted: queue_stream.Wanted, wait_s: float
) -> list[Job]:
    """Wait for the first job, behind those who have waited longer."""
    line = _LINES.setdefault(queue, asyncio.Lock())
    with Patience(call, wait_s) as patience, queue.calling(patience.ring):
        if not await patience.acquired(line):
            return []
        try:
            return await _first_jobs(call, queue, wanted, patience)
        finally:
            line.release()


async def _first_jobs(
    call: Call, queue: Queue, wanted: queue_stream.Wanted, patience: Patience
) -> list[Job]:
    bridge, topic = call.parts.bridge, call.parts.store.existing_topic(queue.name)
    while patience.left_s:
        patience.clear()
        head = topic.head_seq
        jobs = await bridge.run_view(queue.name, wanted.claim, queue)
        if jobs:
            return jobs
        due_s = await bridge.run_view(queue.name, queue.due_s)
        most_s = None if due_s is None else max(queue_stream.NAP_S_MIN, due_s)
        await patience.something_new(topic, head, most_s)
    return []


def _settle(
    queue: Queue,
    asked: wire.Settle | wire.Nack | wire.Extend,
    act: Callable[[Sequence[Ticket]], Settled],
) -> tuple[list[int], list[int]]:
    """Seqs with which it was done, and those that are not this worker's any more."""
    if asked.lease_ids is None:
        held = queue.held(asked.node, serializers_queue.plain_seqs(asked.seqs))
    else:
        held = serializers_queue.tickets(asked.seqs, asked.lease_ids)
    skipped = set(act(held).skipped)
    done = {ticket.seq for ticket in held} - skipped
    given = list(dict.fromkeys(asked.seqs))
    return [seq for seq in given if seq in done], [seq for seq in given if seq not in done]


def _check_seqs(call: Call, seqs: Sequence[int]) -> None:
    seqs_max = call.parts.settings.limits.claim_max
    if not 1 <= len(seqs) <= seqs_max:
        raise _too_large("seqs", len(seqs), seqs_max)


def _too_large(what: str, count: int, count_max: int) -> Refused:
    code = "batch_too_large" if count else "invalid_request"
    return Refused(
        400, code, f"give 1 to {count_max} {what}, not {count}", detail={"max": count_max}
    )


_get = partial(Route, method="GET", errors=_ERRORS)
_post = partial(Route, method="POST", errors=_ERRORS)

ROUTES: tuple[Route, ...] = (
    _post(
        path="/v0/topics/{topic}/claim",
        handler=claim,
        needs=_CONSUME,
        summary="Take the next jobs of a queue under a lease; waits for one if asked to.",
        body=wire.Claim,
        answers={200: wire.Claimed},
    ),
    _post(
        path="/v0/topics/{topic}/ack",
        handler=ack,
        needs=_CONSUME,
        summary="Jobs are done: they leave the queue.",
        body=wire.Settle,
        answers={200: wire.Acked},
    ),
    _post(
        path="/v0/topics/{topic}/nack",
        handler=nack,
        needs=_CONSUME,
        summary="Give jobs back, to be claimed again at once or after a delay.",
        body=wire.Nack,
        answers={200: wire.Nacked},
    ),
    _post(
        path="/v0/topics/{topic}/extend",
        handler=extend,
        needs=_CONSUME,
        summary="Keep jobs for longer.",
        body=wire.Extend,
        answers={200: wire.Extended},
    ),
    _get(
        path="/v0/topics/{topic}/work",
        handler=queue_stream.work,
        needs=_CONSUME,
        summary="Be given jobs over an SSE stream; closing it gives back what is not done.",
        query=wire.WorkQuery,
        answers={200: None},
        gives=(EVENTS,),
    ),
    _post(
        path="/v0/queues/{topic}/jobs",
        handler=put,
        needs=_WRITE,
        summary="Put jobs, all or none: with delay, priority, unique key, group, ttl.",
        body=wire.PutJobs,
        answers={200: wire.PutJobsDone},
        errors=(*_ERRORS, "topic_full"),
    ),
    _post(
        path="/v0/queues/{topic}/release",
        handler=release,
        needs=_CONSUME,
        summary="Give back all that a worker holds.",
        body=wire.Release,
        answers={200: wire.Released},
    ),
    _get(
        path="/v0/queues/{topic}/peek",
        handler=peek,
        needs=_READ,
        summary="The jobs that would be claimed next; they stay where they are.",
        query=wire.PeekQuery,
        answers={200: wire.Peeked},
    ),
    _get(
        path="/v0/queues/{topic}",
        handler=state,
        needs=_READ,
        summary="A queue in numbers.",
        answers={200: wire.QueueState},
    ),
    _post(
        path="/v0/queues/{topic}/purge",
        handler=purge,
        needs=(Need("delete", "topic"),),
        summary="Throw waiting jobs away: all, or those of a tag or a range of seqs.",
        body=wire.PurgeJobs,
        answers={200: wire.Purged},
    ),
    _post(
        path="/v0/queues/{topic}/pause",
        handler=_pausing(paused=True),
        needs=_CONFIG,
        summary="Give out no jobs until it is resumed.",
        answers={200: wire.Paused},
    ),
    _post(
        path="/v0/queues/{topic}/resume",
        handler=_pausing(paused=False),
        needs=_CONFIG,
        summary="Give out jobs again.",
        answers={200: wire.Paused},
    ),
    _post(
        path="/v0/queues/{topic}/compact",
        handler=compact,
        needs=_CONFIG,
        summary="Say the state of all leases once more, so that older records can go.",
        answers={200: wire.Compacted},
    ),
)
