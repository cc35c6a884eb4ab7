"""What a route is: a path, what it needs to be allowed, what it takes and gives, and who answers.

Every module of routes exports ``ROUTES``. From the table come the application (``app.py``), the
OpenAPI document (``openapi.py``) and the matrix of the authorisation tests: what is not declared
here is not served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from starlette.responses import Response

from strandline.security.scopes import Action
from strandline.server.http.request import Call


class Need(NamedTuple):
    """An action, on the topic that a parameter of the path names; without one, on the server."""

    action: Action
    parameter: str = ""


OPEN: tuple[Need, ...] = ()
"""Needs no action of the table: the handler checks rights on what the body or the path names."""


class Answer(NamedTuple):
    """A plain answer: a struct or any JSON value, told as JSON."""

    body: object
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Handler: TypeAlias = Callable[[Call], Awaitable[Answer | Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: Literal["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "WEBSOCKET"]
    path: str
    """With names in braces: ``/v0/topics/{topic}/diff``."""
    handler: Handler
    needs: tuple[Need, ...]
    """All of them, before the handler is called. Names that are in the body it checks itself, with
    ``call.allow``."""
    summary: str
    """One line, for the document."""
    is_public: bool = False
    """Whether requests without a token reach the handler; others are refused by their head."""
    query: type[msgspec.Struct] | None = None
    """The parameters behind the question mark, by name; others are refused."""
    body: Any = None
    """The type of a JSON body, None for a route without one."""
    takes: tuple[str, ...] = ("application/json",)
    """Media types of the body. Others than JSON are left to the handler (``call.raw``)."""
    decodes: bool = False
    """Whether the handler decodes JSON bodies itself (``call.raw``); ``body`` is their type."""
    answers: dict[int, Any] = {}
    """Type of the answer by status; None where it is not JSON."""
    gives: tuple[str, ...] = ("application/json",)
    """Media types of the answer."""
    errors: tuple[str, ...] = ()
    """Codes of ``api/errors.py`` that may come, besides those that any route may give."""
    body_bytes_max: int | None = None
    """Less than the server's own limit, when that is too much for this route."""
