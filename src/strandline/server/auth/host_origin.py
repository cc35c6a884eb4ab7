"""Who may knock: the name under which the server is asked, and the web page that asks.

A page of anybody can make a browser ask ``127.0.0.1``. Three things stop it, on loopback, too:

- Host: a name that is not ours is 421. A name that its owner lets point to 127.0.0.1 (DNS
  rebinding) is such a name; an address in figures is none, and cannot be made to point elsewhere.
- Origin: a page that is not of this server, and not in ``origins``, is 403.
- The type of a body is one that a plain form cannot send: JSON, NDJSON, Arrow; else 415.

What was found good is remembered, so that a request pays for one look into a set.
"""

from __future__ import annotations

import ipaddress

from strandline.api.errors import Refused
from strandline.server.settings import ServerSettings

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
_REMEMBERED_MAX = 1000
_METHODS = "GET, PUT, POST, DELETE, PATCH, HEAD"
_HEADERS = "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID"


class Gate:
    """Names and origins that may ask. Owned by the loop's thread."""

    def __init__(self, settings: ServerSettings) -> None:
        bound, _ = split_host(settings.bind) or ("", "")
        self._any_address = bound in _ANY_ADDRESS and not settings.bind.startswith("unix:")
        self._names = _LOCAL_NAMES | {bound} - _ANY_ADDRESS
        self._hosts = frozenset(host.lower() for host in settings.hosts)
        self._origins = frozenset(_origin(origin) for origin in settings.origins)
        self._schemes = ("https",) if settings.tls.certificate else ("http", "https")
        self._good: set[tuple[str | None, str | None]] = set()

    def check(self, host: str | None, origin: str | None) -> None:
        """Refused, unless the server may be asked under this name, by this page."""
        pair = (host, origin)
        if pair in self._good:
            return
        self._check_host(host)
        self._check_origin(host or "", origin)
        if len(self._good) < _REMEMBERED_MAX:
            self._good.add(pair)

    def cors(self, origin: str | None) -> dict[str, str]:
        """What an answer tells the browser of a page that may ask; nothing for our own pages."""
        if origin is None or _origin(origin) not in self._origins:
            return {}
        return {"access-control-allow-origin": origin, "vary": "origin"}

    def preflight(self, origin: str | None) -> dict[str, str]:
        """What is told to a browser that asks whether a page may ask (OPTIONS)."""
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
        found = None if host is None else split_host(host)
        if found is None or not self._is_ours(*found):
            raise Refused(
                421,
                "misdirected_request",
                "this server does not have the name under which it was asked: add it to `hosts`",
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
            403, "forbidden", "pages of this origin may not ask this server: add it to `origins`"
        )


def check_media(takes: tuple[str, ...], media_type: str, *, has_body: bool) -> None:
    """415, unless a body is of a type that the route takes. The type is without parameters."""
    if media_type in takes or (not has_body and not media_type):
        return
    told = " or ".join(takes) if takes else "no body at all"
    raise Refused(
        415, "unsupported_media_type", f"the type of the body is {media_type!r}: send {told}"
    )


def split_host(host: str) -> tuple[str, str] | None:
    """Name and port of a Host header or a bind; None when it is neither."""
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
    """Whether nobody but this machine can reach a server that is bound so."""
    if bind.startswith("unix:"):
        return True
    found = split_host(bind)
    if found is None:
        return False
    return found[0] == "localhost" or (
        _is_address(found[0]) and ipaddress.ip_address(found[0]).is_loopback
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _origin(origin: str) -> str:
    return origin.strip().lower().rstrip("/")
