"""Rejects invalid heads of requests before they are processed. Pure.

The parser (llhttp, without leniencies) rejects bare LF, folded lines, spaces before the colon, bad
characters, Content-Length twice or beside Transfer-Encoding, and methods and versions that do not
exist. The rules here cover what it accepts and what proxies may interpret differently:

    protocol         HTTP/1.0 and 1.1 only; nothing of RTSP, ICE or CONNECT
    Host             exactly one, except in HTTP/1.0; equal to the host of an absolute target
    target           a path or ``*``, without a fragment
    codings          chunked and nothing else, not in HTTP/1.0
    ONCE             names that must not occur twice, because the choice would matter
    counts, sizes    at most ``headers_max``, together ``header_bytes_max``
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from strandline.api.errors import Refused
from strandline.server.settings import RequestLimits

ONCE = frozenset(
    {b"host", b"authorization", b"content-type", b"content-encoding", b"content-length"}
    | {b"transfer-encoding", b"idempotency-key", b"origin"}
)
# Methods of other protocols than HTTP that the parser accepts, and the one that opens a tunnel.
_FOREIGN = frozenset(
    {b"CONNECT", b"SOURCE", b"DESCRIBE", b"ANNOUNCE", b"SETUP", b"PLAY", b"PAUSE", b"TEARDOWN"}
    | {b"GET_PARAMETER", b"SET_PARAMETER", b"REDIRECT", b"RECORD", b"FLUSH", b"PRI"}
)

WAITING_MAX = 256
"""Requests for the application that may wait on one connection for earlier responses."""

Headers = Sequence[tuple[bytes, bytes]]


def malformed(message: str) -> Refused:
    """The error for a request that is not valid HTTP."""
    return Refused(400, "invalid_request", message)


def check_waiting(count: int) -> None:
    """Reject a request when ``count`` requests of its connection wait already."""
    if count >= WAITING_MAX:
        raise Refused(
            429,
            "throttled",
            f"{WAITING_MAX} requests of this connection wait: read their responses first",
            detail={"max": WAITING_MAX},
            retry_after_s=1.0,
        )


def headers_too_large(limits: RequestLimits) -> Refused:
    """The error for a head that exceeds a limit."""
    return Refused(
        431,
        "headers_too_large",
        f"the head of a request is at most {limits.header_bytes_max} bytes "
        f"with {limits.headers_max} headers",
        detail={"header_bytes_max": limits.header_bytes_max, "headers_max": limits.headers_max},
    )


def check(
    version: str,
    method: bytes,
    url: bytes,
    headers: Headers,
    by_name: Mapping[bytes, bytes],
) -> None:
    """Reject a head that breaks a rule; ``by_name`` is the same headers as a dict."""
    if version not in ("1.1", "1.0") or method in _FOREIGN:
        raise malformed("only HTTP/1.1 and HTTP/1.0 are supported")
    if len(by_name) != len(headers):
        _check_once(headers)
    host = by_name.get(b"host")
    if host is None and version == "1.1":
        raise malformed("the Host header is missing")
    if not url.startswith(b"/") or b"#" in url:
        _check_target(method, url, host)
    coding = by_name.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.strip().lower() != b"chunked"):
        raise malformed("Transfer-Encoding may only be chunked, in HTTP/1.1")


def _check_once(headers: Headers) -> None:
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen and name in ONCE:
            raise malformed(f"the header {name.decode('latin-1')} occurs twice")
        seen.add(name)


def _check_target(method: bytes, url: bytes, host: bytes | None) -> None:
    if b"#" in url:
        raise malformed("the target of a request must not have a fragment")
    if url == b"*" and method == b"OPTIONS":
        return
    scheme, _, rest = url.partition(b"://")
    authority = rest.partition(b"/")[0].partition(b"?")[0]
    if scheme.lower() not in (b"http", b"https") or authority != (host or authority):
        raise malformed("the target of a request must be a path, or have the same host as Host")


def check_size(url: bytes, headers: Headers, limits: RequestLimits) -> None:
    """Reject a head that exceeds a limit."""
    size = len(url) + 4 * len(headers) + sum(map(len, itertools.chain.from_iterable(headers)))
    if size > limits.header_bytes_max or len(headers) > limits.headers_max:
        raise headers_too_large(limits)
