"""The client's address from ``X-Forwarded-*``, accepted from trusted proxies only.

The list of ``X-Forwarded-For`` grows to the right, and each trusted proxy vouches for the entry
before its own. So the client is the first entry from the right that is not a trusted proxy: entries
further left are claims of that client.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The trusted addresses. Owned by the loop's thread."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks: list[_Network] = [
            ipaddress.ip_network(text, strict=False) for text in trusted
        ]

    def trusts(self, address: str) -> bool:
        """Whether an address is trusted. Without a list none is; with one, socket files are."""
        if not self._networks:
            return False
        if not address:
            return True  # only the operator's own proxy may open the socket file
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def client(self, peer: str, headers: Headers) -> str:
        """The address of the client of a trusted peer."""
        entries: list[str] = []
        for name, value in headers:
            if name == b"x-forwarded-for":
                entries += [entry.strip() for entry in value.decode("latin-1").split(",")]
        for entry in reversed(entries):
            address = _bare(entry)
            if address is None:
                return peer  # not an address: no trusted proxy wrote it
            if not self.trusts(address):
                return address
            peer = address
        return peer

    def scheme(self, headers: Headers, default: str) -> str:
        """``http`` or ``https``, from the last proxy's header."""
        for name, value in headers:
            if name == b"x-forwarded-proto":
                scheme = value.decode("latin-1").rpartition(",")[2].strip().lower()
                return scheme if scheme in ("http", "https") else default
        return default


def _bare(entry: str) -> str | None:
    """An address without brackets and port; None when it is not an address."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        return str(ipaddress.ip_address(entry))
    except ValueError:
        return None
