"""Bodies of requests: received, counted, unpacked. None is longer than it may be, packed or not."""

from __future__ import annotations

import zlib

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from strandline.api.errors import Refused
from strandline.server.limits.byte_budget import Hold

_GZIP = 16 + zlib.MAX_WBITS
_SMALL = 64 * 1024
"""A body of at most this is discarded after a refusal, so that the connection stays open."""


class Gone(Exception):
    """The client hung up before its request was whole."""


def is_large(headers: Headers) -> bool:
    """Whether a head announces a body that is too large, or of unknown size, to be discarded."""
    size = headers.get("content-length", "")
    if not size:
        return "transfer-encoding" in headers
    return not size.isdigit() or len(size) > 9 or int(size) > _SMALL


async def received(receive: Receive, told_size: str | None, size_max: int, hold: Hold) -> bytes:
    """The body as it came, counted while it comes."""
    if told_size is not None and told_size.isascii() and told_size.isdigit():
        if int(told_size[:20]) > size_max:
            raise too_large(size_max)
        if told_size == "0":
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


def unpacked_size(body: bytes, encoding: str, size_max: int) -> int:
    """At most so many bytes has a body without its ``Content-Encoding``, if it is whole.

    The last four bytes of gzip are the size, and ``unpacked`` refuses a body that has more.
    """
    if encoding in ("", "identity"):
        return len(body)
    if encoding not in ("gzip", "x-gzip"):
        raise Refused(
            415, "unsupported_media_type", f"bodies are plain or gzip, not {encoding[:40]!r}"
        )
    return min(int.from_bytes(body[-4:], "little"), size_max)


def unpacked(body: bytes, encoding: str, size_max: int) -> bytes:
    """The body without its ``Content-Encoding``."""
    if encoding in ("", "identity"):
        return body
    unpacking = zlib.decompressobj(_GZIP)
    try:
        plain = unpacking.decompress(body, unpacked_size(body, encoding, size_max) + 1)
    except zlib.error as error:
        raise Refused(400, "invalid_request", f"the body is not gzip: {error}") from error
    if len(plain) > size_max:
        raise too_large(size_max)
    if not unpacking.eof or unpacking.unused_data:
        raise Refused(400, "invalid_request", "the gzip body ends early, or goes on after its end")
    return plain


def too_large(size_max: int) -> Refused:
    return Refused(
        413,
        "payload_too_large",
        f"the body is over {size_max} bytes: send less at once",
        detail={"limit": "body_bytes_max", "max": size_max},
    )


def check_objects(body: bytes, objects_max: int) -> None:
    """Refused with 413 when decoded JSON could take many times the memory of its text.

    Brackets in texts count, too: to leave them out takes longer than to decode.
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
        raise Gone
    return message
