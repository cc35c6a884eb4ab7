"""Audits requests: every change of options, every delete, every new topic.

The table of routes decides what is audited, so that handlers need not. Reads have no entries, and
neither do writes of records and keys: those are in their own topics. Tokens have their own entries.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from strandline.server.http.request import RequestContext
from strandline.server.http.route import Route

_ACTIONS = frozenset({"create", "config", "delete", "admin"})
_READS = frozenset({"GET", "HEAD", "WEBSOCKET"})
_CHANGES = frozenset({"PUT", "PATCH", "DELETE"})
_NOT_AUDITED = ("/v0/kv/", "/v0/tokens", "/v0/watch/")
"""Not audited: a delete of a key is a write like others, and as frequent; tokens have their own
entries; a watch session changes only what its owner receives."""


def is_audited(route: Route) -> bool:
    """Whether requests of this route are audited."""
    if route.method in _READS or route.path.startswith(_NOT_AUDITED):
        return False
    return route.method in _CHANGES or any(need.action in _ACTIONS for need in route.needs)


async def audit_request(call: RequestContext, route: Route, status: int) -> None:
    """Audit a successful request, durably; does nothing for routes that are not audited."""
    if status < 400 and is_audited(route):
        path = call.connection.scope["path"]
        await write_entry(call, "request", method=route.method, path=path, status=status)


async def write_entry(call: RequestContext, kind: str, **what: object) -> None:
    """Write an audit entry of this kind for a request; durable when it returns."""
    audit = call.parts.auth.audit
    pending = audit.note(kind, what, who=call.who.id, address=address_of(call.connection))
    await pending.durable()


def address_of(connection: HTTPConnection) -> str:
    """The address of the peer; empty for a Unix socket."""
    return connection.client.host if connection.client else ""
