"""Routes of dead letters: listed, put back in bulk by a filter, thrown away."""

from __future__ import annotations

from functools import partial

from strandline.api import queues as wire
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_queue
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.queue import Queue


async def letters(call: Call) -> Answer:
    asked: wire.LettersQuery = call.query
    limit = max(1, min(asked.limit, call.parts.settings.limits.page_records_max))

    def work(queue: Queue) -> wire.Letters:
        found = queue.dead.letters(after=max(0, asked.after), limit=limit)
        told = [serializers_queue.letter(each, queue.name) for each in found]
        following = found[-1].seq if len(found) == limit else 0
        return wire.Letters(topic=queue.name, letters=told, next_after=following)

    return Answer(await ask(call, find_queue, work))


async def redrive(call: Call) -> Answer:
    asked: wire.Redrive = call.body
    where = serializers_queue.meant(asked.where).where()

    def work(queue: Queue) -> wire.Redriven:
        done = queue.dead.redrive(where, limit=asked.limit, dry_run=asked.dry_run)
        return wire.Redriven(
            topic=queue.name,
            matched=done.matched,
            redriven=done.redriven,
            kept=list(done.kept),
            dry_run=asked.dry_run,
        )

    return Answer(await ask_slowly(call, find_queue, work))


async def purge(call: Call) -> Answer:
    asked: wire.Purge = call.body
    where = serializers_queue.meant(asked.where).where()

    def work(queue: Queue) -> wire.Purged:
        purged = queue.dead.purge(where, dry_run=asked.dry_run)
        return wire.Purged(topic=queue.name, purged=purged, dry_run=asked.dry_run)

    return Answer(await ask_slowly(call, find_queue, work))


_route = partial(Route, errors=("topic_not_found", "not_a_queue"))

ROUTES: tuple[Route, ...] = (
    _route(
        method="GET",
        path="/v0/queues/{topic}/dead",
        handler=letters,
        needs=(Need("read", "topic"),),
        summary="Jobs that were given out too often, oldest first.",
        query=wire.LettersQuery,
        answers={200: wire.Letters},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/redrive",
        handler=redrive,
        needs=(Need("write", "topic"),),
        summary="Make jobs of dead letters again: all, or those of a filter; or say how many.",
        body=wire.Redrive,
        answers={200: wire.Redriven},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/purge",
        handler=purge,
        needs=(Need("delete", "topic"),),
        summary="Throw dead letters away: all, or those of a filter; or say how many.",
        body=wire.Purge,
        answers={200: wire.Purged},
    ),
)
