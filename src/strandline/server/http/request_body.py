"""Request bodies: receive, count, decompress. The size limit holds compressed and decompressed."""

from __future__ import annotations

import zlib

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from strandline.api.errors import Refused
from strandline.server.limits.byte_budget import BudgetHold

_GZIP = 16 + zlib.MAX_WBITS
_SMALL = 64 * 1024
"""A rejected body of at most this size is discarded, so that the connection stays open."""


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


def is_large(headers: Headers) -> bool:
    """Whether a body is too large to be discarded, or of unknown size, by its headers."""
    size = headers.get("content-length", "")
    if not size:
        return "transfer-encoding" in headers
    return not size.isdigit() or len(size) > 9 or int(size) > _SMALL


async def receive_body(
    receive: Receive, length_header: str | None, size_max: int, hold: BudgetHold
) -> bytes:
    """The body as received, counted in ``hold`` while it arrives."""
    if length_header is not None and length_header.isascii() and length_header.isdigit():
        if int(length_header[:20]) > size_max:
            raise too_large(size_max)
        if length_header == "0":
            return b""
    message = await _next(receive)
    body: bytes = message.get("body", b"")
    hold.resize(len(body))
    if len(body) <= size_max and not message.get("more_body", False):
        return body
    whole = bytearray(body)
    while len(whole) <= size_max and message.get("more_body", False):
        message = await _next(receive)
        whole += message.get("body", b"")
        hold.resize(len(whole))
    if len(whole) > size_max:
        raise too_large(size_max)
    return bytes(whole)


def decompressed_size_max(body: bytes, encoding: str, size_max: int) -> int:
    """The maximum size of a complete body without its ``Content-Encoding``.

    The last four bytes of gzip are the size, and ``unpacked`` rejects a body that has more.
    """
    if encoding in ("", "identity"):
        return len(body)
    if encoding not in ("gzip", "x-gzip"):
        raise Refused(
            415, "unsupported_media_type", f"bodies are identity or gzip, not {encoding[:40]!r}"
        )
    return min(int.from_bytes(body[-4:], "little"), size_max)


def decompress(body: bytes, encoding: str, size_max: int) -> bytes:
    """The body without its ``Content-Encoding``."""
    if encoding in ("", "identity"):
        return body
    decompressor = zlib.decompressobj(_GZIP)
    try:
        plain = decompressor.decompress(body, decompressed_size_max(body, encoding, size_max) + 1)
    except zlib.error as error:
        raise Refused(400, "invalid_request", f"the body is not gzip: {error}") from error
    if len(plain) > size_max:
        raise too_large(size_max)
    if not decompressor.eof or decompressor.unused_data:
        raise Refused(400, "invalid_request", "the gzip body is truncated or has trailing bytes")
    return plain


def too_large(size_max: int) -> Refused:
    return Refused(
        413,
        "payload_too_large",
        f"the body exceeds {size_max} bytes: send less at once",
        detail={"limit": "body_bytes_max", "max": size_max},
    )


def check_objects(body: bytes, objects_max: int) -> None:
    """Refused with 413 when decoded JSON could take many times the memory of its text.

    Brackets in strings count, too: to exclude them takes longer than to decode.
    """
    if len(body) > objects_max and body.count(b"{") + body.count(b"[") > objects_max:
        raise Refused(
            413,
            "payload_too_large",
            f"the body has over {objects_max} objects and lists (json_objects_max): send less at "
            "once",
            detail={"limit": "json_objects_max", "max": objects_max},
        )


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message
