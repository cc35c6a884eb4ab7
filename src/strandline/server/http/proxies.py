"""Who really asks, when a proxy asks for him: ``X-Forwarded-*``, from trusted addresses alone.

The list of ``X-Forwarded-For`` grows to the right, and each trusted proxy vouches for the entry
before its own. So the client is the first from the right that is no trusted proxy: what stands
further left is only what that client says of itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies:
    """The addresses that are believed. Owned by the loop's thread."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks: list[_Network] = [
            ipaddress.ip_network(text, strict=False) for text in trusted
        ]

    def trusts(self, address: str) -> bool:
        """Whether an address is one of them. None is without a list; a socket file is with one."""
        if not self._networks:
            return False
        if not address:
            return True  # whoever may open the socket file is the operator's own proxy
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def client(self, peer: str, headers: Headers) -> str:
        """The address of who asks, behind a peer that is trusted."""
        named: list[str] = []
        for name, value in headers:
            if name == b"x-forwarded-for":
                named += [entry.strip() for entry in value.decode("latin-1").split(",")]
        for entry in reversed(named):
            address = _bare(entry)
            if address is None:
                return peer  # nobody trustworthy wrote that
            if not self.trusts(address):
                return address
            peer = address
        return peer

    def scheme(self, headers: Headers, otherwise: str) -> str:
        """``http`` or ``https``, as the last proxy says."""
        for name, value in headers:
            if name == b"x-forwarded-proto":
                told = value.decode("latin-1").rpartition(",")[2].strip().lower()
                return told if told in ("http", "https") else otherwise
        return otherwise


def _bare(entry: str) -> str | None:
    """An address without brackets and port; None when it is none."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        return str(ipaddress.ip_address(entry))
    except ValueError:
        return None
