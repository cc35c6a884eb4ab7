"""The console: static files that use the public API.

The files have no secrets, so they need no token; the console sends its requests with the token that
its user enters. The content security policy allows requests to this server only, and no scripts
other than these files, because the data of a topic may be markup.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from starlette.responses import Response

from strandline.api.errors import Refused
from strandline.server.http.request import RequestContext
from strandline.server.http.route import OPEN, JsonResponse, Route

_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


@functools.cache
def files() -> dict[str, bytes]:
    """All files of the console, by name."""
    folder = resources.files("strandline").joinpath("console")
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


async def page(call: RequestContext) -> JsonResponse | Response:
    """Return the page."""
    return _file("index.html")


async def file(call: RequestContext) -> JsonResponse | Response:
    """Return a file of the page."""
    return _file(call.path["file"])


def _file(name: str) -> Response:
    content = files().get(name)
    kind = _TYPES.get(name.rpartition(".")[2])
    if content is None or kind is None:
        raise Refused(404, "not_found", "the console has no such file")
    return Response(content, media_type=kind, headers=_HEADERS)


_PLAIN: dict[str, Any] = {
    "method": "GET",
    "needs": OPEN,
    "is_public": True,
    "answers": {200: None},
}

ROUTES = (
    Route(
        path="/",
        handler=page,
        summary="Get the page of the console.",
        gives=("text/html",),
        **_PLAIN,
    ),
    Route(
        path="/console/{file}",
        handler=file,
        summary="Get a file of the console.",
        gives=tuple(_TYPES.values()),
        errors=("not_found",),
        **_PLAIN,
    ),
)
