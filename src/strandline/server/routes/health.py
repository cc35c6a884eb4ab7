"""Whether the server lives, whether it takes requests, and how its store is doing.

``health`` is for what restarts processes: it is 200 as long as the loop runs, with the status
``degraded`` while the store accepts no appends, or its disk is slow. ``ready`` is for what sends
requests: it is 503 while the server goes down, and while the store accepts no appends. Both are
open to all and return nothing worth hiding: the code of the error that appends get, without its
text, and how slow the disk is.
"""

from __future__ import annotations

import importlib.metadata

import msgspec
from msgspec import UNSET

from strandline.api.errors import Refused
from strandline.api.health import Alive, Ready, StoreHealth
from strandline.errors import StrandlineError
from strandline.server.http.request import Call
from strandline.server.http.route import OPEN, Answer, Need, Route
from strandline.store import Store

_VERSION = importlib.metadata.version("strandline")


async def health(call: Call) -> Answer:
    """Tell that the server lives."""
    parts = call.parts
    known = call.who.kind != "nobody"
    refusal = _refusal(parts.store)
    slow = [found for each in parts.store.committers if (found := each.slow_syncs) is not None]
    reason = "slow_disk" if slow else None
    if refusal is not None:
        reason = refusal.code
    return Answer(
        Alive(
            status="ok" if reason is None else "degraded",
            reason=UNSET if reason is None else reason,
            slow_syncs=sum(each.count for each in slow) if slow else UNSET,
            slowest_sync_ms=max(each.longest_ms for each in slow) if slow else UNSET,
            version=_VERSION,
            uptime_ms=round((parts.clock.monotonic() - parts.began_s) * 1000),
            store_id=parts.store.id if known else UNSET,
        )
    )


async def ready(call: Call) -> Answer:
    """Tell whether the server takes requests."""
    parts = call.parts
    if parts.draining:
        raise Refused(503, "shutting_down", "the server is going down", retry_after_s=1.0)
    refusal = _refusal(parts.store)
    found = await parts.bridge.run(parts.store.health)
    if refusal is not None or found.status == "red":
        raise Refused(
            503,
            "unavailable",
            "the store accepts no appends: see /v0/store and the log",
            detail={} if refusal is None else {"reason": refusal.code},
        )
    return Answer(Ready(status="ready", wal_replay_complete=True, topics=parts.store.topic_count()))


async def store(call: Call) -> Answer:
    """Tell how the store is doing."""
    parts = call.parts
    found = await parts.bridge.run(parts.store.health)
    told = msgspec.to_builtins(found)
    return Answer(
        msgspec.convert(
            {**told, "store_id": parts.store.id, "readonly": parts.store.readonly}, StoreHealth
        )
    )


def _refusal(store: Store) -> StrandlineError | None:
    """Why appends are refused, without waiting for anything."""
    for committer in store.committers:
        found = committer.writer.failure or committer.writer.refusal
        if found is not None:
            return found
    return None


def _open(path: str, *, alive: bool) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=health if alive else ready,
        needs=OPEN,
        is_public=True,
        summary="Whether the server lives" if alive else "Whether the server takes requests",
        answers={200: Alive if alive else Ready},
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
        needs=(Need("metrics"),),
        summary="How the store is doing",
        answers={200: StoreHealth},
    ),
)
