"""Creates, reads, lists and deletes the routers of a server."""

from __future__ import annotations

import builtins

import msgspec
from msgspec import UNSET

from strandline.api import routers as wire
from strandline.client.asynchronous.endpoint import AsyncEndpoint
from strandline.errors import Invalid, NotFound, UnknownRouter
from strandline.routers.definition import Router, check_router_name, define_router
from strandline.routers.filters import parse_filter
from strandline.routers.routers import PutRouter, RouterStatistics

_PAGE_SIZE = 1000


class AsyncRouters:
    """The routers of one store. Safe from many tasks of one loop."""

    def __init__(self, endpoint: AsyncEndpoint) -> None:
        self._endpoint = endpoint.below("routers")

    async def put(self, name: str, **options: object) -> PutRouter:
        """Create or change a router: source and dest are required, see ``Router`` for the rest."""
        define_router(name, options)
        response = await self._endpoint.below(name).put("", options, wire.RouterPut)
        return PutRouter(_router(response), response.created)

    async def get(self, name: str) -> RouterStatistics:
        """The definition and the statistics of a router."""
        if not _can_be(name):
            raise UnknownRouter(name)
        try:
            state = await self._endpoint.below(name).get("", wire.RouterState)
        except NotFound:
            raise UnknownRouter(name) from None
        return RouterStatistics(
            router=_router(state),
            cursor=state.cursor,
            lag=state.lag,
            forwarded_total=state.forwarded_total,
            held=state.held or "",
        )

    async def list(
        self,
        prefix: str = "",
        *,
        source: str | None = None,
        dest: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> builtins.list[RouterStatistics]:
        """Routers in order of their names, of these topics, after a name."""
        names = [name for name in await self._names(prefix, source, dest) if name > after]
        return [await self.get(name) for name in names[:limit]]

    async def delete(self, name: str) -> bool:
        """Delete a router; forwarded records stay. False if there is no such router."""
        if not _can_be(name):
            return False
        return (await self._endpoint.below(name).delete("", wire.RouterDeleted)).deleted

    async def of_topic(self, topic: str) -> builtins.list[str]:
        """The names of the routers of which a topic is the source or dest."""
        as_source = await self._names("", topic, None)
        return sorted({*as_source, *await self._names("", None, topic)})

    async def _names(self, prefix: str, source: str | None, dest: str | None) -> builtins.list[str]:
        query = {"prefix": prefix, "page_size": str(_PAGE_SIZE)}
        query |= {} if source is None else {"source": source}
        query |= {} if dest is None else {"dest": dest}
        names: builtins.list[str] = []
        while True:
            page = await self._endpoint.get("", wire.RouterList, query)
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


def _router(definition: wire.RouterPut | wire.RouterState) -> Router:
    fields = {
        name: getattr(definition, name) for name in Router.__struct_fields__ if name != "name"
    }
    fields["filter"] = parse_filter(msgspec.to_builtins(definition.filter))
    return Router(name=definition.router, **fields)
