"""What requests leave in the audit log: every change of options, every delete, every new topic.

From the table of routes, so that no handler has to remember it. Reads leave nothing, and neither do
records and keys that are written: those are in their own topics. Tokens have entries of their own.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from strandline.server.http.request import Call
from strandline.server.http.route import Route

_ACTIONS = frozenset({"create", "config", "delete", "admin"})
_READS = frozenset({"GET", "HEAD", "WEBSOCKET"})
_CHANGES = frozenset({"PUT", "PATCH", "DELETE"})
_ELSEWHERE = ("/v0/kv/", "/v0/tokens", "/v0/watch/")
"""Of keys a delete is a write like others, and comes as often; tokens have their own entries; a
watch session is nothing but what its owner is told."""


def is_noted(route: Route) -> bool:
    """Whether requests of this route leave an entry."""
    if route.method in _READS or route.path.startswith(_ELSEWHERE):
        return False
    return route.method in _CHANGES or any(need.action in _ACTIONS for need in route.needs)


async def note(call: Call, route: Route, status: int) -> None:
    """Put a request that was answered so on record, durably; nothing for routes that only read."""
    if status < 400 and is_noted(route):
        path = call.connection.scope["path"]
        await tell(call, "request", method=route.method, path=path, status=status)


async def tell(call: Call, kind: str, **what: object) -> None:
    """Put on record what a request did, in words of its own; durable when it returns."""
    audit = call.parts.auth.audit
    pending = audit.note(kind, what, who=call.who.id, address=address_of(call.connection))
    await pending.durable()


def address_of(connection: HTTPConnection) -> str:
    """Of the peer; empty for a Unix socket."""
    return connection.client.host if connection.client else ""
