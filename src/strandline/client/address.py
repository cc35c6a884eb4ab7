"""Where a server is: a URL, read. Pure.

    http://127.0.0.1:4000            https://logs.example.org            https://example.org/strandline
    http+unix:/run/strandline.sock   a socket of this machine

A token never is part of it: URLs end in logs and in the history of shells.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from strandline.errors import Invalid

_UNIX = "http+unix"


class Address(NamedTuple):
    """Where requests go."""

    url: str
    """What paths are put behind; of a socket with a host that only fills the header."""
    socket: str = ""
    """The path of a socket of this machine, "" for the network."""
    is_near: bool = False
    """Whether no other machine is between: then nothing is packed on the way."""

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https:")

    @property
    def shown(self) -> str:
        """As it is told to people."""
        return f"{_UNIX}:{self.socket}" if self.socket else self.url


def address_of(url: str) -> Address:
    """The address that a URL names."""
    if not isinstance(url, str):
        raise Invalid(f"name the server by its URL, not by {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme == _UNIX:
        path = unquote(parts.path)
        if parts.netloc or not path.startswith("/"):
            raise Invalid("name a socket with its whole path: http+unix:/run/strandline.sock")
        return Address("http://localhost", path, is_near=True)
    if parts.username is not None or parts.password is not None:
        raise Invalid("a token does not belong into the URL: give it as token=…")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{url!r} names no server: use http://HOST:PORT or https://HOST")
    if parts.query or parts.fragment:
        raise Invalid("the URL of a server ends with its path: leave out what is behind ? or #")
    _check_port(url)
    host = parts.netloc.rpartition("@")[2]
    base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return Address(base, is_near=_is_loopback(parts.hostname))


def _check_port(url: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise Invalid(f"{url!r} has no port that can be: {error}") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
