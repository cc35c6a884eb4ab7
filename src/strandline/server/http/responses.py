"""Responses: values as JSON with timings, compressed when they are long, and errors in one format.

Every JSON object of a successful response gets a ``performance`` block at its end.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Send

from strandline.api.errors import WireError
from strandline.server.http.route import JsonResponse

COMPRESS_SIZE_MIN = 1400
"""Shorter bodies fit into one packet and are not compressed."""

HeaderList = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_COMMON = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_encode = msgspec.json.Encoder().encode


class TimedBody(bytes):
    """A body that has its ``performance`` block already."""


class CompressedBody(bytes):
    """A body that is compressed already."""


def body_with_performance(body: object, performance: Mapping[str, float]) -> bytes:
    """A value as JSON; an object gets a ``performance`` block."""
    if isinstance(body, TimedBody):
        return body
    encoded = body if isinstance(body, bytes) else _encode(body)
    if encoded[:1] != b"{" or not performance:
        return encoded
    members = b",".join(b'"%b":%b' % (name.encode(), _number(v)) for name, v in performance.items())
    comma = b"" if encoded == b"{}" else b","
    return b'%b%b"performance":{%b}}' % (encoded[:-1], comma, members)


async def send_json(
    send: Send, answer: JsonResponse, body: bytes, more: HeaderList, *, packs: bool
) -> None:
    """Send a JSON response, with additional headers."""
    headers = [_JSON, *_COMMON, *more]
    headers += [(name.lower().encode(), text.encode()) for name, text in answer.headers.items()]
    if len(body) >= COMPRESS_SIZE_MIN or isinstance(body, CompressedBody):
        headers.append((b"vary", b"accept-encoding"))
        if packs:
            body = body if isinstance(body, CompressedBody) else compress(body)
            headers.append((b"content-encoding", b"gzip"))
    await send_plain(send, answer.status, headers, body)


async def send_problem(send: Send, problem: WireError, more: HeaderList) -> None:
    """Send an error."""
    headers = [_JSON, *_COMMON, *more]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(problem.retry_after_s))))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.status == 413 or problem.code == "overloaded":
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if problem.status == 405:
        allowed = ", ".join(problem.detail.get("allowed", ()))
        headers.append((b"allow", allowed.encode()))
    await send_plain(send, problem.status, headers, problem.body())


async def send_plain(send: Send, status: int, headers: HeaderList, body: bytes) -> None:
    """Send a response without changes."""
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def complete_response(response: Response, more: HeaderList, *, packs: bool) -> None:
    """Complete a ``Response`` of a handler; streams are not changed."""
    response.raw_headers += more
    for name, text in _COMMON:
        response.headers.setdefault(name.decode(), text.decode())
    if type(response) is not Response or "content-encoding" in response.headers:
        return
    if packs and len(response.body) >= COMPRESS_SIZE_MIN:
        response.body = compress(bytes(response.body))
        response.headers["content-length"] = str(len(response.body))
        response.headers["content-encoding"] = "gzip"
        response.headers.add_vary_header("accept-encoding")


def accepts_gzip(headers: Headers) -> bool:
    """Whether the client accepts gzip."""
    for offer in headers.get("accept-encoding", "").split(","):
        name, _, weight = offer.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


def _number(value: float) -> bytes:
    return b"%d" % value if isinstance(value, int) else b"%.3f" % value
