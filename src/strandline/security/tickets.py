"""Tickets: issued to a principal, each opens one stream. In memory only.

A browser cannot send a header with an EventSource or a WebSocket, and a URL is recorded in logs and
histories. So the URL has a ticket, which is valid for one use within half a minute, and worthless
afterwards.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import NamedTuple

from strandline.errors import Unavailable
from strandline.platform.clock import Clock
from strandline.security.principal import Principal

PREFIX = "ticket1_"
VALID_S = 30.0
TICKETS_MAX = 10_000
EACH_MAX = 1000
"""The maximum of one principal, so that one client cannot use them all."""


class _Issued(NamedTuple):
    principal: Principal
    expires_s: float


class Tickets:
    """The issued tickets. Owned by the loop's thread."""

    def __init__(self, clock: Clock, random_id: Callable[[], bytes]) -> None:
        self._clock = clock
        self._random_id = random_id
        self._issued: dict[bytes, _Issued] = {}

    def issue(self, principal: Principal) -> str:
        """A ticket for an authenticated principal."""
        self._drop_expired()
        count = sum(issued.principal.id == principal.id for issued in self._issued.values())
        if len(self._issued) >= TICKETS_MAX or count >= EACH_MAX:
            raise Unavailable("too many tickets are in use: retry in half a minute")
        secret = base64.urlsafe_b64encode(self._random_id() + self._random_id()).rstrip(b"=")
        text = PREFIX + secret.decode()
        self._issued[_digest(text)] = _Issued(principal, self._clock.monotonic() + VALID_S)
        return text

    def redeem(self, text: str) -> Principal | None:
        """Use a ticket: returns its principal; None when it is expired, used or unknown."""
        issued = self._issued.pop(_digest(text), None)
        if issued is None or self._clock.monotonic() >= issued.expires_s:
            return None
        return issued.principal

    def forget(self, principal_id: str) -> None:
        """Drop the tickets of a principal that lost access."""
        digests = [
            key for key, issued in self._issued.items() if issued.principal.id == principal_id
        ]
        for key in digests:
            del self._issued[key]

    def _drop_expired(self) -> None:
        # Ordered by expiry: the first valid ticket ends the search.
        now = self._clock.monotonic()
        for key, issued in list(self._issued.items()):
            if issued.expires_s > now:
                return
            del self._issued[key]


def _digest(text: str) -> bytes:
    # Looked up by hash: the time of a lookup reveals nothing about the ticket.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
