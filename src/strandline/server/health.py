"""Whether the server lives, whether it takes requests, and how its store is doing.

``health`` is for who restarts processes: it says ok as long as the loop turns. ``ready`` is for who
sends requests: it says no while the server goes down, and when the store does not work any more.
Both are open to all, and tell nothing worth hiding.
"""

from __future__ import annotations

import importlib.metadata

import msgspec
from msgspec import UNSET

from strandline.server.call import Call
from strandline.server.routing import OPEN, Answer, Need, Route
from strandline.wire.health import Alive, Ready, StoreHealth
from strandline.wire.problems import Refused

_VERSION = importlib.metadata.version("strandline")


async def health(call: Call) -> Answer:
    """Tell that the server lives."""
    parts = call.parts
    known = call.who.kind != "nobody"
    return Answer(
        Alive(
            status="ok",
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
    found = await parts.bridge.run(parts.store.health)
    if found.status == "red":
        raise Refused(503, "unavailable", "the store does not work: see /v0/store and the log")
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


def _open(path: str, *, alive: bool) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=health if alive else ready,
        needs=OPEN,
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
