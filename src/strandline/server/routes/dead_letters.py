"""Routes of dead letters: list, redrive by a filter, purge by a filter."""

from __future__ import annotations

from functools import partial

from strandline.api import queues as wire
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_queue
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.queue import Queue


async def letters(call: Call) -> Answer:
    query: wire.LettersQuery = call.query
    limit = max(1, min(query.limit, call.parts.settings.limits.page_records_max))

    def work(queue: Queue) -> wire.Letters:
        page = queue.dead.letters(after=max(0, query.after), limit=limit)
        listed = [serializers_queue.letter(each, queue.name) for each in page]
        following = page[-1].seq if len(page) == limit else 0
        return wire.Letters(topic=queue.name, letters=listed, next_after=following)

    return Answer(await ask(call, find_queue, work))


async def redrive(call: Call) -> Answer:
    body: wire.Redrive = call.body
    condition = serializers_queue.meant(body.where).where()

    def work(queue: Queue) -> wire.Redriven:
        done = queue.dead.redrive(condition, limit=body.limit, dry_run=body.dry_run)
        return wire.Redriven(
            topic=queue.name,
            matched=done.matched,
            redriven=done.redriven,
            kept=list(done.kept),
            dry_run=body.dry_run,
        )

    return Answer(await ask_slowly(call, find_queue, work))


async def purge(call: Call) -> Answer:
    body: wire.Purge = call.body
    condition = serializers_queue.meant(body.where).where()

    def work(queue: Queue) -> wire.Purged:
        purged = queue.dead.purge(condition, dry_run=body.dry_run)
        return wire.Purged(topic=queue.name, purged=purged, dry_run=body.dry_run)

    return Answer(await ask_slowly(call, find_queue, work))


_route = partial(Route, errors=("topic_not_found", "not_a_queue"))

ROUTES: tuple[Route, ...] = (
    _route(
        method="GET",
        path="/v0/queues/{topic}/dead",
        handler=letters,
        needs=(Need("read", "topic"),),
        summary="List dead letters, oldest first.",
        query=wire.LettersQuery,
        answers={200: wire.Letters},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/redrive",
        handler=redrive,
        needs=(Need("write", "topic"),),
        summary="Redrive dead letters, all or those of a filter; a dry run counts them.",
        body=wire.Redrive,
        answers={200: wire.Redriven},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/purge",
        handler=purge,
        needs=(Need("delete", "topic"),),
        summary="Delete dead letters, all or those of a filter; a dry run counts them.",
        body=wire.Purge,
        answers={200: wire.Purged},
    ),
)
