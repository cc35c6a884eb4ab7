"""One request, as handlers get it: its principal, its content, and the parts of the server."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection

from strandline.security.principal import Principal
from strandline.security.scopes import Action
from strandline.server.app_state import AppState


class RequestContext:
    """A request that was authenticated and decoded. Owned by the loop's thread."""

    __slots__ = ("body", "connection", "parts", "path", "performance", "query", "raw", "who")

    def __init__(
        self,
        connection: HTTPConnection,
        parts: AppState,
        who: Principal,
        *,
        query: Any = None,
        body: Any = None,
        raw: bytes = b"",
    ) -> None:
        self.connection = connection
        self.parts = parts
        self.who = who
        self.path: dict[str, str] = connection.path_params
        self.query = query
        """The query, decoded to the route's ``query`` type."""
        self.body = body
        """The body, decoded to the route's ``body`` type; None for other media types."""
        self.raw = raw
        """The body's bytes, decompressed."""
        self.performance: dict[str, float] = {}
        """Costs of the work, returned in the response beside the total time."""

    def allow(self, action: Action, topic: str = "") -> None:
        """Forbidden, unless the principal may do this with the topic."""
        self.parts.auth.authorise(self.who, action, topic)

    @property
    def media_type(self) -> str:
        """The media type of the body, in lower case, without parameters."""
        return self.connection.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def accept(self) -> str:
        return self.connection.headers.get("accept", "")
