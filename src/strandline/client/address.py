"""Parses the URL of a server into an address. Pure.

    http://127.0.0.1:4000            https://logs.example.org            https://example.org/strandline
    http+unix:/run/strandline.sock   a Unix socket of this machine

A URL never contains a token: URLs end up in logs and in the history of shells.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from strandline.errors import Invalid

_UNIX = "http+unix"


class Address(NamedTuple):
    """The address of a server: the URL and the Unix socket that requests go to."""

    url: str
    """The URL that paths are appended to. For a socket its host only fills the Host header."""
    socket: str = ""
    """The path of a Unix socket of this machine, "" for the network."""
    is_local: bool = False
    """Whether the server is on this machine: then bodies are not compressed."""

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https:")

    @property
    def shown(self) -> str:
        """The address as messages show it."""
        return f"{_UNIX}:{self.socket}" if self.socket else self.url


def address_of(url: str) -> Address:
    """Parse a URL into an address."""
    if not isinstance(url, str):
        raise Invalid(f"the URL of a server is text, not {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme == _UNIX:
        path = unquote(parts.path)
        if parts.netloc or not path.startswith("/"):
            raise Invalid("name a socket by its absolute path: http+unix:/run/strandline.sock")
        return Address("http://localhost", path, is_local=True)
    if parts.username is not None or parts.password is not None:
        raise Invalid("the URL must not contain a token: pass it as token=…")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{url!r} is not the URL of a server: use http://HOST:PORT or https://HOST")
    if parts.query or parts.fragment:
        raise Invalid("the URL of a server ends with its path: remove the part after ? or #")
    _check_port(url)
    host = parts.netloc.rpartition("@")[2]
    base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return Address(base, is_local=_is_loopback(parts.hostname))


def _check_port(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise Invalid(f"{url!r} has an invalid port: {error}") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
