"""An endpoint of the server: sends structs or columns, and decodes responses to structs."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa

from strandline.client.append_codec import ipc
from strandline.client.asynchronous.connection import AsyncConnection
from strandline.client.page_codec import table_of
from strandline.client.request import ARROW, Request, Response

Kind = TypeVar("Kind")


class AsyncEndpoint:
    """Requests below one path. Safe from many tasks of one loop."""

    def __init__(self, connection: AsyncConnection, *names: str) -> None:
        """``names`` are the parts of the path after the version."""
        self.connection = connection
        self.clock = connection.clock
        self.path = "/".join(["/v0", *(quote(name, safe="") for name in names)])

    def below(self, *names: str) -> AsyncEndpoint:
        """The endpoint of a subpath."""
        endpoint = AsyncEndpoint(self.connection)
        endpoint.path = "/".join([self.path, *(quote(name, safe="") for name in names)])
        return endpoint

    async def get(self, verb: str, kind: type[Kind], query: dict[str, str] | None = None) -> Kind:
        """GET a resource."""
        return (await self.request(Request("GET", self._to(verb), query or {}, safe=True))).decode(
            kind
        )

    async def post_safe(
        self, verb: str, body: object, kind: type[Kind], *, wait_s: float = 0.0
    ) -> Kind:
        """POST a request that is safe to repeat; the server may wait ``wait_s`` to respond."""
        request = Request("POST", self._to(verb), body=_json(body), safe=True, wait_s=wait_s)
        return (await self.request(request)).decode(kind)

    async def poll(self, verb: str, body: object, kind: type[Kind], *, wait_s: float) -> Kind:
        """The same for a loop that continues after the server was unavailable."""
        path, content = self._to(verb), _json(body)
        request = Request("POST", path, body=content, safe=True, wait_s=wait_s, in_loop=True)
        return (await self.request(request)).decode(kind)

    async def post(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """POST a request that must not be executed twice."""
        return (await self.request(Request("POST", self._to(verb), body=_json(body)))).decode(kind)

    async def put(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """PUT a resource (idempotent)."""
        request = Request("PUT", self._to(verb), body=_json(body), safe=True)
        return (await self.request(request)).decode(kind)

    async def patch(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """PATCH a resource (idempotent)."""
        request = Request("PATCH", self._to(verb), body=_json(body), safe=True)
        return (await self.request(request)).decode(kind)

    async def delete(
        self, verb: str, kind: type[Kind], query: dict[str, str] | None = None
    ) -> Kind:
        """DELETE a resource. Not repeated: a second attempt would report that it is absent."""
        return (await self.request(Request("DELETE", self._to(verb), query or {}))).decode(kind)

    async def table(self, verb: str, body: object) -> pa.Table:
        """POST a read whose response is columns."""
        request = Request("POST", self._to(verb), body=_json(body), accept=ARROW, safe=True)
        return table_of(await self.request(request))

    async def send(
        self, verb: str, table: pa.Table, kind: type[Kind], query: dict[str, str]
    ) -> Kind:
        """POST columns; must not be executed twice."""
        request = Request("POST", self._to(verb), query, ipc(table), ARROW)
        return (await self.request(request)).decode(kind)

    async def request(self, request: Request) -> Response:
        return await self.connection.request(request)

    def _to(self, verb: str) -> str:
        return f"{self.path}/{verb}" if verb else self.path


def _json(body: object) -> bytes:
    return b"{}" if body is None else msgspec.json.encode(body)
