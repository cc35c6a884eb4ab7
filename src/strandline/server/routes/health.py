"""Health and readiness of the server, and the state of its store.

``health`` is for supervisors that restart processes: it is 200 while the loop runs, with the status
``degraded`` while the store accepts no appends, or its disk is slow. ``ready`` is for load
balancers: it is 503 while the server shuts down, and while the store accepts no appends. Both need
no token and return nothing secret: the code of the error that appends get, without its text, and
how slow the disk is.
"""

from __future__ import annotations

import importlib.metadata

import msgspec
from msgspec import UNSET

from strandline.api.errors import Refused
from strandline.api.health import AliveResponse, ReadyResponse, StoreHealth
from strandline.errors import StrandlineError
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route, RoutePermission
from strandline.store import Store

_VERSION = importlib.metadata.version("strandline")


async def health(call: RequestContext) -> JsonResponse:
    """Return the status of the server."""
    parts = call.parts
    is_authenticated = call.who.kind != "anonymous"
    refusal = _refusal(parts.store)
    slow_disks = [slow for each in parts.store.committers if (slow := each.slow_syncs) is not None]
    reason = "slow_disk" if slow_disks else None
    if refusal is not None:
        reason = refusal.code
    return JsonResponse(
        AliveResponse(
            status="ok" if reason is None else "degraded",
            reason=UNSET if reason is None else reason,
            slow_syncs=sum(each.count for each in slow_disks) if slow_disks else UNSET,
            slowest_sync_ms=max(each.longest_ms for each in slow_disks) if slow_disks else UNSET,
            version=_VERSION,
            uptime_ms=round((parts.clock.monotonic() - parts.started_s) * 1000),
            store_id=parts.store.id if is_authenticated else UNSET,
        )
    )


async def ready(call: RequestContext) -> JsonResponse:
    """Return 200 when the server accepts requests, else 503."""
    parts = call.parts
    if parts.draining:
        raise Refused(503, "shutting_down", "the server is shutting down", retry_after_s=1.0)
    refusal = _refusal(parts.store)
    state = await parts.bridge.run(parts.store.health)
    if refusal is not None or state.status == "red":
        raise Refused(
            503,
            "unavailable",
            "the store accepts no appends: see /v0/store and the log",
            detail={} if refusal is None else {"reason": refusal.code},
        )
    return JsonResponse(
        ReadyResponse(status="ready", wal_replay_complete=True, topics=parts.store.topic_count())
    )


async def store(call: RequestContext) -> JsonResponse:
    """Return the health of the store."""
    parts = call.parts
    state = await parts.bridge.run(parts.store.health)
    fields = msgspec.to_builtins(state)
    return JsonResponse(
        msgspec.convert(
            {**fields, "store_id": parts.store.id, "readonly": parts.store.readonly}, StoreHealth
        )
    )


def _refusal(store: Store) -> StrandlineError | None:
    """The error that appends are rejected with, read without waiting; None when accepted."""
    for committer in store.committers:
        refusal = committer.writer.failure or committer.writer.rejection
        if refusal is not None:
            return refusal
    return None


def _open(path: str, *, alive: bool) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=health if alive else ready,
        needs=OPEN,
        is_public=True,
        summary="Check that the server runs." if alive else "Check that requests are accepted.",
        answers={200: AliveResponse if alive else ReadyResponse},
        errors=() if alive else ("not_ready", "shutting_down", "unavailable"),
    )


ROUTES: tuple[Route, ...] = (
    _open("/v0/health", alive=True),
    _open("/healthz", alive=True),
    _open("/v0/ready", alive=False),
    _open("/readyz", alive=False),
    Route(
        method="GET",
        path="/v0/store",
        handler=store,
        needs=(RoutePermission("metrics"),),
        summary="Get the health of the store.",
        answers={200: StoreHealth},
    ),
)
