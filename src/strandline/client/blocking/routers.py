# Made from asynchronous/routers.py by tests/house/blocking.py: change that one.
"""The routers of a server: put, get, list, delete."""

from __future__ import annotations

import builtins

import msgspec
from msgspec import UNSET

from strandline.api import routers as wire
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.errors import Invalid, NotFound, UnknownRouter
from strandline.routers.definition import Router, check_router_name, define
from strandline.routers.filters import parse
from strandline.routers.routers import Put, RouterStatistics

_PAGE_SIZE = 1000


class RemoteRouters:
    """The routers of one store. Safe from many threads."""

    def __init__(self, at: RemoteRoute) -> None:
        self._at = at.below("routers")

    def put(self, name: str, **options: object) -> Put:
        """Make a router, or change one: source and dest are needed, see ``Router`` for the rest."""
        define(name, options)
        told = self._at.below(name).put("", options, wire.RouterPut)
        return Put(_router(told), told.created)

    def get(self, name: str) -> RouterStatistics:
        """A router's definition and numbers."""
        if not _can_be(name):
            raise UnknownRouter(name)
        try:
            told = self._at.below(name).get("", wire.RouterState)
        except NotFound:
            raise UnknownRouter(name) from None
        return RouterStatistics(
            router=_router(told),
            cursor=told.cursor,
            lag=told.lag,
            forwarded_total=told.forwarded_total,
            held=told.held or "",
        )

    def list(
        self,
        prefix: str = "",
        *,
        source: str | None = None,
        dest: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> builtins.list[RouterStatistics]:
        """Routers in order of their names, of these topics, behind a name."""
        names = [name for name in self._names(prefix, source, dest) if name > after]
        return [self.get(name) for name in names[:limit]]

    def delete(self, name: str) -> bool:
        """Stop forwarding; what was forwarded stays. False when there is no such router."""
        if not _can_be(name):
            return False
        return (self._at.below(name).drop("", wire.RouterDeleted)).deleted

    def of_topic(self, topic: str) -> builtins.list[str]:
        """The names of the routers that a topic is the source or dest of."""
        from_it = self._names("", topic, None)
        return sorted({*from_it, *self._names("", None, topic)})

    def _names(self, prefix: str, source: str | None, dest: str | None) -> builtins.list[str]:
        query = {"prefix": prefix, "page_size": str(_PAGE_SIZE)}
        query |= {} if source is None else {"source": source}
        query |= {} if dest is None else {"dest": dest}
        names: builtins.list[str] = []
        while True:
            page = self._at.get("", wire.RouterList, query)
            names += [line.router for line in page.routers]
            if page.next_cursor is UNSET:
                return names
            query["cursor"] = page.next_cursor


def _can_be(name: str) -> bool:
    try:
        check_router_name(name)
    except Invalid:
        return False
    return True


def _router(told: wire.RouterPut | wire.RouterState) -> Router:
    fields = {name: getattr(told, name) for name in Router.__struct_fields__ if name != "name"}
    fields["filter"] = parse(msgspec.to_builtins(told.filter))
    return Router(name=told.router, **fields)
