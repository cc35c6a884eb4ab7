"""Listen addresses, and the protection that a public one needs. Pure.

    unix:PATH            a socket file of mode 0600      nothing needed
    127.0.0.1, [::1]     this machine                    nothing needed
    anything else        the network                     a token, and TLS or a proxy that encrypts

Names other than ``localhost`` count as the network: DNS decides what they resolve to.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from strandline.errors import Invalid
from strandline.server.settings import ServerSettings

PORT_MAX = 65535


class ListenAddress(NamedTuple):
    """Where to listen: a host and port, or the path of a socket file."""

    host: str
    port: int
    path: str = ""

    @property
    def is_private(self) -> bool:
        """Whether it can be reached from this machine only."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(bind: str) -> ListenAddress:
    """An address from text such as ``127.0.0.1:4000``, ``[::1]:4000`` or ``unix:PATH``."""
    if bind.startswith("unix:"):
        path = bind.removeprefix("unix:")
        if not path:
            raise Invalid("bind: unix: needs a path, as in unix:strandline.sock")
        return ListenAddress("", 0, path)
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise Invalid(f"bind is HOST:PORT, as in 127.0.0.1:4000, or unix:PATH, not {bind!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Invalid(f"bind: write an IPv6 address in brackets, as in [::1]:4000, not {bind!r}")
    if not host:
        raise Invalid(f"bind: {bind!r} names no host: 127.0.0.1 for this machine, 0.0.0.0 for all")
    return ListenAddress(host, int(port))


def check_exposure(settings: ServerSettings) -> ListenAddress:
    """The address to bind; Invalid when it is public and unencrypted."""
    address = parse(settings.bind)
    tls = settings.tls
    if bool(tls.certificate) != bool(tls.key):
        raise Invalid("tls needs both files: set tls.certificate and tls.key, or neither")
    if tls.client_authority and not tls.certificate:
        raise Invalid("tls.client_authority needs tls.certificate and tls.key")
    for proxy in settings.trusted_proxies:
        _check_network(proxy)
    if address.is_private or tls.certificate:
        return address
    if not settings.behind_proxy:
        raise Invalid(
            f"bind {settings.bind} is a public address, unencrypted: set tls.certificate and "
            "tls.key, or behind_proxy with trusted_proxies, or bind to 127.0.0.1"
        )
    if not settings.trusted_proxies:
        raise Invalid("behind_proxy needs trusted_proxies: the addresses of the proxy")
    return address


def check_tokens(settings: ServerSettings, *, has_tokens: bool) -> None:
    """Invalid when the address is public and there is no token."""
    if not has_tokens and not parse(settings.bind).is_private:
        raise Invalid(
            f"bind {settings.bind} is a public address, and there is no token: create one with "
            "`strandline token create`, or bind to 127.0.0.1"
        )


def _check_network(text: str) -> None:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise Invalid(
            f"trusted_proxies are addresses or networks, as 10.0.0.5 or 10.0.0.0/24, not {text!r}"
        ) from error
