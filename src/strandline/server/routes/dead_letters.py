"""Routes of dead letters: list, redrive by a filter, purge by a filter."""

from __future__ import annotations

from functools import partial

from strandline.api import queues as wire
from strandline.server.handlers.view_lookup import find_queue, run_on_view, run_slow_on_view
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.serializers import queue as serializers_queue
from strandline.views.queue.queue import Queue


async def letters(call: RequestContext) -> JsonResponse:
    query: wire.DeadLettersQuery = call.query
    limit = max(1, min(query.limit, call.parts.settings.limits.page_records_max))

    def work(queue: Queue) -> wire.DeadLettersResponse:
        page = queue.dead.letters(after=max(0, query.after), limit=limit)
        listed = [serializers_queue.letter(each, queue.name) for each in page]
        following = page[-1].seq if len(page) == limit else 0
        return wire.DeadLettersResponse(topic=queue.name, letters=listed, next_after=following)

    return JsonResponse(await run_on_view(call, find_queue, work))


async def redrive(call: RequestContext) -> JsonResponse:
    body: wire.RedriveRequest = call.body
    condition = serializers_queue.dead_letter_filter(body.where).predicate()

    def work(queue: Queue) -> wire.RedriveResponse:
        done = queue.dead.redrive(condition, limit=body.limit, dry_run=body.dry_run)
        return wire.RedriveResponse(
            topic=queue.name,
            matched=done.matched,
            redriven=done.redriven,
            kept=list(done.kept),
            dry_run=body.dry_run,
        )

    return JsonResponse(await run_slow_on_view(call, find_queue, work))


async def purge(call: RequestContext) -> JsonResponse:
    body: wire.PurgeDeadLettersRequest = call.body
    condition = serializers_queue.dead_letter_filter(body.where).predicate()

    def work(queue: Queue) -> wire.PurgeResponse:
        purged = queue.dead.purge(condition, dry_run=body.dry_run)
        return wire.PurgeResponse(topic=queue.name, purged=purged, dry_run=body.dry_run)

    return JsonResponse(await run_slow_on_view(call, find_queue, work))


_route = partial(Route, errors=("topic_not_found", "not_a_queue"))

ROUTES: tuple[Route, ...] = (
    _route(
        method="GET",
        path="/v0/queues/{topic}/dead",
        handler=letters,
        needs=(RoutePermission("read", "topic"),),
        summary="List dead letters, oldest first.",
        query=wire.DeadLettersQuery,
        answers={200: wire.DeadLettersResponse},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/redrive",
        handler=redrive,
        needs=(RoutePermission("write", "topic"),),
        summary="Redrive dead letters, all or those of a filter; a dry run counts them.",
        body=wire.RedriveRequest,
        answers={200: wire.RedriveResponse},
    ),
    _route(
        method="POST",
        path="/v0/queues/{topic}/dead/purge",
        handler=purge,
        needs=(RoutePermission("delete", "topic"),),
        summary="Delete dead letters, all or those of a filter; a dry run counts them.",
        body=wire.PurgeDeadLettersRequest,
        answers={200: wire.PurgeResponse},
    ),
)
