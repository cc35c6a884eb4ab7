"""The budget of bytes that requests hold in the memory of a server.

    bodies           as received and unpacked, until the request is answered
    messages         of a WebSocket: unfinished, waiting, and being answered
    heads            unfinished ones
    pipelined        requests that wait for the answers before them

All of them together hold at most ``limits.in_flight_bytes_max``, and one client half of it: one
client alone cannot keep the others out. A client is a token, a user or an address that needs no
token; everything that is not authenticated is one client. Beyond it a request is refused with 503
and ``Retry-After``; nothing waits for the budget, so nothing can be stuck in it.
"""

from __future__ import annotations

from strandline.api.errors import Refused
from strandline.config.settings import MIB
from strandline.errors import Invalid
from strandline.server.settings import RequestLimits

NOT_AUTHENTICATED = ""
"""The client that all unauthenticated connections are together."""
_BODIES_MIN = 4
"""One client may hold a body as received and unpacked, and it may hold half of the budget."""
_RETRY_S = 1.0


def check_budget(limits: RequestLimits) -> None:
    """Invalid, when a body that is allowed could never be received."""
    least = _BODIES_MIN * limits.body_bytes_max
    if limits.in_flight_bytes_max < least:
        raise Invalid(
            f"limits.in_flight_bytes_max is {limits.in_flight_bytes_max}: it has to be at least "
            f"{_BODIES_MIN} times limits.body_bytes_max, {least}"
        )


class ByteBudget:
    """What all requests hold. Owned by the loop's thread."""

    def __init__(self, limits: RequestLimits) -> None:
        check_budget(limits)
        self._bytes_max = limits.in_flight_bytes_max
        self._client_bytes_max = limits.in_flight_bytes_max // 2
        self._by_client: dict[str, int] = {}
        self.used = 0
        """Bytes that are held now."""

    def hold(self, client: str) -> Hold:
        """What one request or connection of a client holds: nothing yet."""
        return Hold(self, client)

    def _change(self, client: str, more: int) -> None:
        held = self._by_client.get(client, 0) + more
        if more > 0:
            if held > self._client_bytes_max:
                raise _overloaded("of one client", self._client_bytes_max)
            if self.used + more > self._bytes_max:
                raise _overloaded("of all clients", self._bytes_max)
        self.used += more
        if held:
            self._by_client[client] = held
        else:
            self._by_client.pop(client, None)


class Hold:
    """Bytes that one request or connection holds. Owned by the loop's thread."""

    __slots__ = ("_budget", "_client", "size")

    def __init__(self, budget: ByteBudget, client: str) -> None:
        self._budget = budget
        self._client = client
        self.size = 0

    def resize(self, size: int) -> None:
        """Hold so many bytes from now on; Refused with 503 when there is no room, and as before."""
        if size != self.size:
            self._budget._change(self._client, size - self.size)
            self.size = size

    def release(self) -> None:
        """Hold nothing. Twice is fine."""
        self.resize(0)


def _overloaded(of: str, most: int) -> Refused:
    return Refused(
        503,
        "overloaded",
        f"requests {of} hold more than {most / MIB:g} MiB of the server's memory: retry later, "
        "and send fewer or smaller requests at once",
        detail={"limit": "in_flight_bytes_max", "max": most},
        retry_after_s=_RETRY_S,
    )
