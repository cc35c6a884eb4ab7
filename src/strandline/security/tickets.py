"""Tickets: who has a token may get one, and open one stream with it. In memory only.

A browser cannot send a header with an EventSource or a WebSocket, and what stands in an address
ends up in logs and histories. So the address has a ticket, which is good for one use within half a
minute, and worth nothing afterwards.
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
"""Of one principal, so that nobody takes them all."""


class _Issued(NamedTuple):
    who: Principal
    ends: float


class Tickets:
    """The tickets that are out. Owned by the loop's thread."""

    def __init__(self, clock: Clock, random_id: Callable[[], bytes]) -> None:
        self._clock = clock
        self._random_id = random_id
        self._issued: dict[bytes, _Issued] = {}

    def issue(self, who: Principal) -> str:
        """A ticket for somebody who was authenticated."""
        self._sweep()
        theirs = sum(issued.who.id == who.id for issued in self._issued.values())
        if len(self._issued) >= TICKETS_MAX or theirs >= EACH_MAX:
            raise Unavailable("too many tickets are out: retry in half a minute")
        secret = base64.urlsafe_b64encode(self._random_id() + self._random_id()).rstrip(b"=")
        text = PREFIX + secret.decode()
        self._issued[_digest(text)] = _Issued(who, self._clock.monotonic() + VALID_S)
        return text

    def take(self, text: str) -> Principal | None:
        """Whose ticket it is; from now on nobody's. None when it is over, used or unknown."""
        found = self._issued.pop(_digest(text), None)
        if found is None or self._clock.monotonic() >= found.ends:
            return None
        return found.who

    def forget(self, principal_id: str) -> None:
        """Of somebody who may no longer come in."""
        theirs = [key for key, issued in self._issued.items() if issued.who.id == principal_id]
        for key in theirs:
            del self._issued[key]

    def _sweep(self) -> None:
        # They are in the order of their ends: the first that is good ends the search.
        now = self._clock.monotonic()
        for key, issued in list(self._issued.items()):
            if issued.ends > now:
                return
            del self._issued[key]


def _digest(text: str) -> bytes:
    # A lookup by the hash: how long it takes tells nothing about the ticket.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
