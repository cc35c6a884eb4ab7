"""Checks of the headers Host and Origin, CORS, and body types: protection against other web pages.

Any web page can make a browser send requests to ``127.0.0.1``. Three checks reject them:

- Host: a name that is not of this server is 421. That includes names that resolve to 127.0.0.1
  (DNS rebinding); a numeric address cannot be rebound.
- Origin: a page that is not of this server, and not in ``origins``, is 403.
- The type of a body has to be one that a plain form cannot send: JSON, NDJSON, Arrow; else 415.

Accepted pairs of Host and Origin are cached, so that a request costs one lookup in a set.
"""

from __future__ import annotations

import ipaddress

from strandline.api.errors import Refused
from strandline.server.settings import ServerSettings

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
_CACHE_MAX = 1000
_METHODS = "GET, PUT, POST, DELETE, PATCH, HEAD"
_HEADERS = "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID"


class HostPolicy:
    """The accepted hosts and origins. Owned by the loop's thread."""

    def __init__(self, settings: ServerSettings) -> None:
        bound, _ = split_host(settings.bind) or ("", "")
        self._any_address = bound in _ANY_ADDRESS and not settings.bind.startswith("unix:")
        self._names = _LOCAL_NAMES | {bound} - _ANY_ADDRESS
        self._hosts = frozenset(host.lower() for host in settings.hosts)
        self._origins = frozenset(_origin(origin) for origin in settings.origins)
        self._schemes = ("https",) if settings.tls.certificate else ("http", "https")
        self._accepted: set[tuple[str | None, str | None]] = set()

    def check(self, host: str | None, origin: str | None) -> None:
        """Refused, unless host and origin are accepted."""
        pair = (host, origin)
        if pair in self._accepted:
            return
        self._check_host(host)
        self._check_origin(host or "", origin)
        if len(self._accepted) < _CACHE_MAX:
            self._accepted.add(pair)

    def cors(self, origin: str | None) -> dict[str, str]:
        """CORS headers of a response for an accepted origin; none for the server's own pages."""
        if origin is None or _origin(origin) not in self._origins:
            return {}
        return {"access-control-allow-origin": origin, "vary": "origin"}

    def preflight(self, origin: str | None) -> dict[str, str]:
        """CORS headers of the response to a preflight request (OPTIONS)."""
        allowed = self.cors(origin)
        if not allowed:
            return {}
        return {
            **allowed,
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": _HEADERS,
            "access-control-max-age": "600",
        }

    def _check_host(self, host: str | None) -> None:
        name_and_port = None if host is None else split_host(host)
        if name_and_port is None or not self._is_ours(*name_and_port):
            raise Refused(
                421,
                "misdirected_request",
                "the Host header is not a name of this server: add it to `hosts`",
            )

    def _is_ours(self, name: str, port: str) -> bool:
        if name in self._names or name in self._hosts or f"{name}:{port}" in self._hosts:
            return True
        return self._any_address and _is_address(name)

    def _check_origin(self, host: str, origin: str | None) -> None:
        if origin is None:
            return
        plain = _origin(origin)
        own = [f"{scheme}://{host.lower()}" for scheme in self._schemes]
        if plain in self._origins or plain in own:
            return
        raise Refused(
            403, "forbidden", "requests from pages of this origin are rejected: add it to `origins`"
        )


def check_media(takes: tuple[str, ...], media_type: str, *, has_body: bool) -> None:
    """415, unless the route accepts the type of the body. The type is without parameters."""
    if media_type in takes or (not has_body and not media_type):
        return
    expected = " or ".join(takes) if takes else "no body"
    raise Refused(
        415, "unsupported_media_type", f"the type of the body is {media_type!r}: send {expected}"
    )


def split_host(host: str) -> tuple[str, str] | None:
    """Name and port of a Host header or a bind address; None when it is neither."""
    if any(character in host for character in "@/\\?#, \t") or not host.isascii():
        return None
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    else:
        name, _, port = host.partition(":")
    if port and not port.isdigit():
        return None
    return name.lower(), port


def is_local_bind(bind: str) -> bool:
    """Whether a server with this bind address can be reached from this machine only."""
    if bind.startswith("unix:"):
        return True
    address = split_host(bind)
    if address is None:
        return False
    return address[0] == "localhost" or (
        _is_address(address[0]) and ipaddress.ip_address(address[0]).is_loopback
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _origin(origin: str) -> str:
    return origin.strip().lower().rstrip("/")
