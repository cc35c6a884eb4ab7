"""A route: its path, the rights it needs, its request and response types, and its handler.

Every module of routes exports ``ROUTES``. The application (``app.py``), the OpenAPI document
(``openapi.py``) and the matrix of the authorisation tests are built from that table: other paths
are not served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response

from strandline.security.scopes import Action
from strandline.server.http.request import RequestContext


class RoutePermission(NamedTuple):
    """An action on the topic in a parameter of the path; without a parameter, on the server."""

    action: Action
    parameter: str = ""


OPEN: tuple[RoutePermission, ...] = ()
"""No needs in the table: the handler checks rights on the topics that the request names."""


class JsonResponse(NamedTuple):
    """A response body that is a struct or any JSON value, sent as JSON."""

    body: object
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Handler: TypeAlias = Callable[[RequestContext], Awaitable[JsonResponse | Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: Literal["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "WEBSOCKET"]
    path: str
    """With names in braces: ``/v0/topics/{topic}/diff``."""
    handler: Handler
    needs: tuple[RoutePermission, ...]
    """All are checked before the handler is called. The handler checks names in the body, with
    ``call.allow``."""
    summary: str
    """One line, for the OpenAPI document."""
    is_public: bool = False
    """Whether requests without a token reach the handler; otherwise they are rejected."""
    query: type[msgspec.Struct] | None = None
    """The query parameters, by name; others are rejected."""
    body: Any = None
    """The type of a JSON body, None for a route without one."""
    takes: tuple[str, ...] = ("application/json",)
    """Media types of the body. The handler decodes others than JSON (``call.raw``)."""
    decodes: bool = False
    """Whether the handler decodes JSON bodies itself (``call.raw``); ``body`` is their type."""
    answers: dict[int, Any] = {}
    """Type of the response by status; None where it is not JSON."""
    gives: tuple[str, ...] = ("application/json",)
    """Media types of the response."""
    errors: tuple[str, ...] = ()
    """Codes of ``api/errors.py`` of this route, besides those of every route."""
    body_bytes_max: int | None = None
    """A limit below the server's own, if that is too large for this route."""
