# Made from asynchronous/endpoint.py by tests/house/blocking.py: change that one.
"""An endpoint of the server: sends structs or columns, and decodes responses to structs."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

import msgspec
import pyarrow as pa

from strandline.client.append_codec import ipc
from strandline.client.blocking.connection import RemoteConnection
from strandline.client.page_codec import table_of
from strandline.client.request import ARROW, Ask, Reply

Kind = TypeVar("Kind")


class RemoteRoute:
    """Requests below one path. Safe from many threads."""

    def __init__(self, connection: RemoteConnection, *names: str) -> None:
        """``names`` are the parts of the path after the version."""
        self.connection = connection
        self.clock = connection.clock
        self.path = "/".join(["/v0", *(quote(name, safe="") for name in names)])

    def below(self, *names: str) -> RemoteRoute:
        """The endpoint of a subpath."""
        endpoint = RemoteRoute(self.connection)
        endpoint.path = "/".join([self.path, *(quote(name, safe="") for name in names)])
        return endpoint

    def get(self, verb: str, kind: type[Kind], query: dict[str, str] | None = None) -> Kind:
        """GET a resource."""
        return (self.ask(Ask("GET", self._to(verb), query or {}, safe=True))).told(kind)

    def find(self, verb: str, body: object, kind: type[Kind], *, wait_s: float = 0.0) -> Kind:
        """POST a request that is safe to repeat; the server may wait ``wait_s`` to respond."""
        request = Ask("POST", self._to(verb), body=_json(body), safe=True, wait_s=wait_s)
        return (self.ask(request)).told(kind)

    def poll(self, verb: str, body: object, kind: type[Kind], *, wait_s: float) -> Kind:
        """The same for a loop that continues after the server was unavailable."""
        path, content = self._to(verb), _json(body)
        request = Ask("POST", path, body=content, safe=True, wait_s=wait_s, in_loop=True)
        return (self.ask(request)).told(kind)

    def do(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """POST a request that must not be executed twice."""
        return (self.ask(Ask("POST", self._to(verb), body=_json(body)))).told(kind)

    def put(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """PUT a resource (idempotent)."""
        request = Ask("PUT", self._to(verb), body=_json(body), safe=True)
        return (self.ask(request)).told(kind)

    def patch(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """PATCH a resource (idempotent)."""
        request = Ask("PATCH", self._to(verb), body=_json(body), safe=True)
        return (self.ask(request)).told(kind)

    def drop(self, verb: str, kind: type[Kind], query: dict[str, str] | None = None) -> Kind:
        """DELETE a resource. Not repeated: a second attempt would report that it is absent."""
        return (self.ask(Ask("DELETE", self._to(verb), query or {}))).told(kind)

    def table(self, verb: str, body: object) -> pa.Table:
        """POST a read whose response is columns."""
        request = Ask("POST", self._to(verb), body=_json(body), accept=ARROW, safe=True)
        return table_of(self.ask(request))

    def send(self, verb: str, table: pa.Table, kind: type[Kind], query: dict[str, str]) -> Kind:
        """POST columns; must not be executed twice."""
        request = Ask("POST", self._to(verb), query, ipc(table), ARROW)
        return (self.ask(request)).told(kind)

    def ask(self, request: Ask) -> Reply:
        return self.connection.ask(request)

    def _to(self, verb: str) -> str:
        return f"{self.path}/{verb}" if verb else self.path


def _json(body: object) -> bytes:
    return b"{}" if body is None else msgspec.json.encode(body)
