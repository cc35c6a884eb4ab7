# Made from asynchronous/endpoint.py by tests/house/blocking.py: change that one.
"""A place of the server, and what is said there: structs out, structs or columns in."""

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
        """``names`` are the parts of the path behind the version."""
        self.connection = connection
        self.clock = connection.clock
        self.path = "/".join(["/v0", *(quote(name, safe="") for name in names)])

    def below(self, *names: str) -> RemoteRoute:
        """A path further down."""
        made = RemoteRoute(self.connection)
        made.path = "/".join([self.path, *(quote(name, safe="") for name in names)])
        return made

    def get(self, verb: str, kind: type[Kind], query: dict[str, str] | None = None) -> Kind:
        """Ask; it changes nothing."""
        return (self.ask(Ask("GET", self._to(verb), query or {}, safe=True))).told(kind)

    def find(self, verb: str, body: object, kind: type[Kind], *, wait_s: float = 0.0) -> Kind:
        """Ask with a body; it changes nothing. The server may wait so long before it answers."""
        ask = Ask("POST", self._to(verb), body=_json(body), safe=True, wait_s=wait_s)
        return (self.ask(ask)).told(kind)

    def poll(self, verb: str, body: object, kind: type[Kind], *, wait_s: float) -> Kind:
        """The same for a loop that outlives the server's absence."""
        path, content = self._to(verb), _json(body)
        ask = Ask("POST", path, body=content, safe=True, wait_s=wait_s, in_loop=True)
        return (self.ask(ask)).told(kind)

    def do(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """Have something done that must not be done twice."""
        return (self.ask(Ask("POST", self._to(verb), body=_json(body)))).told(kind)

    def put(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """Have something be so; saying it again changes nothing."""
        ask = Ask("PUT", self._to(verb), body=_json(body), safe=True)
        return (self.ask(ask)).told(kind)

    def patch(self, verb: str, body: object, kind: type[Kind]) -> Kind:
        """Have something be otherwise; saying it again changes nothing."""
        ask = Ask("PATCH", self._to(verb), body=_json(body), safe=True)
        return (self.ask(ask)).told(kind)

    def drop(self, verb: str, kind: type[Kind], query: dict[str, str] | None = None) -> Kind:
        """Have something be gone."""
        return (self.ask(Ask("DELETE", self._to(verb), query or {}))).told(kind)

    def table(self, verb: str, body: object) -> pa.Table:
        """Ask for columns; it changes nothing."""
        ask = Ask("POST", self._to(verb), body=_json(body), accept=ARROW, safe=True)
        return table_of(self.ask(ask))

    def send(self, verb: str, table: pa.Table, kind: type[Kind], query: dict[str, str]) -> Kind:
        """Hand columns over, once."""
        ask = Ask("POST", self._to(verb), query, ipc(table), ARROW)
        return (self.ask(ask)).told(kind)

    def ask(self, ask: Ask) -> Reply:
        return self.connection.ask(ask)

    def _to(self, verb: str) -> str:
        return f"{self.path}/{verb}" if verb else self.path


def _json(body: object) -> bytes:
    return b"{}" if body is None else msgspec.json.encode(body)
