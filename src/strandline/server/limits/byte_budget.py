"""The budget of bytes that requests hold in the memory of a server.

    bodies           as received and decompressed, until the response is computed
    messages         of a WebSocket: unfinished, waiting, and being handled
    heads            unfinished ones
    pipelined        requests that wait for earlier responses

All of them together hold at most ``limits.in_flight_bytes_max``, and one client half of it: one
client alone cannot exhaust the budget. A client is a token, a user or an address that needs no
token; all unauthenticated connections are one client. Beyond the limit a request is rejected with
503 and ``Retry-After``; nothing waits for the budget, so it cannot cause a deadlock.
"""

from __future__ import annotations

from strandline.api.errors import Refused
from strandline.config.settings import MIB
from strandline.errors import Invalid
from strandline.server.settings import RequestLimits

NOT_AUTHENTICATED = ""
"""The one client that stands for all unauthenticated connections."""
_BODIES_MIN = 4
"""A client holds a body as received and decompressed, in its half of the budget."""
_RETRY_S = 1.0


def check_budget(limits: RequestLimits) -> None:
    """Invalid, when a body of the maximum size could never be received."""
    least = _BODIES_MIN * limits.body_bytes_max
    if limits.in_flight_bytes_max < least:
        raise Invalid(
            f"limits.in_flight_bytes_max is {limits.in_flight_bytes_max}: it has to be at least "
            f"{_BODIES_MIN} times limits.body_bytes_max, {least}"
        )


class ByteBudget:
    """The bytes that all requests hold. Owned by the loop's thread."""

    def __init__(self, limits: RequestLimits) -> None:
        check_budget(limits)
        self._bytes_max = limits.in_flight_bytes_max
        self._client_bytes_max = limits.in_flight_bytes_max // 2
        self._by_client: dict[str, int] = {}
        self.used = 0
        """Bytes held now."""

    def hold(self, client: str) -> BudgetHold:
        """A hold for one request or connection of a client, of 0 bytes."""
        return BudgetHold(self, client)

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


class BudgetHold:
    """Bytes that one request or connection holds. Owned by the loop's thread."""

    __slots__ = ("_budget", "_client", "size")

    def __init__(self, budget: ByteBudget, client: str) -> None:
        self._budget = budget
        self._client = client
        self.size = 0

    def resize(self, size: int) -> None:
        """Set the held bytes; Refused with 503, without a change, when the budget is exhausted."""
        if size != self.size:
            self._budget._change(self._client, size - self.size)
            self.size = size

    def release(self) -> None:
        """Hold nothing. Repeated calls do nothing."""
        self.resize(0)


def _overloaded(of: str, limit: int) -> Refused:
    return Refused(
        503,
        "overloaded",
        f"requests {of} hold more than {limit / MIB:g} MiB of the server's memory: retry later, "
        "and send fewer or smaller requests at once",
        detail={"limit": "in_flight_bytes_max", "max": limit},
        retry_after_s=_RETRY_S,
    )
