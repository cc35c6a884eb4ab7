"""The open connections of a server: limits on their number, and their deadlines.

One sweep over all connections checks deadlines, about once a second: a timer for each request would
cost more than parsing it. IPv6 addresses count by their first 64 bits.
"""

from __future__ import annotations

from typing import Protocol

from strandline.api.errors import Refused
from strandline.server.limits.rate_limits import network_of
from strandline.server.settings import RequestLimits

_SWEEP_S_MAX = 1.0
_SWEEP_S_MIN = 0.02


class TrackedConnection(Protocol):
    """A connection with a deadline for its client."""

    def overdue(self, now: float) -> bool:
        """Whether its deadline has passed."""
        ...

    def expire(self) -> None:
        """Close it, after an error response if a request is incomplete."""
        ...

    def abort(self) -> None:
        """Close it now, without waiting for anything."""
        ...


class Connections:
    """All open connections. Owned by the loop's thread."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits = limits
        self.open: set[TrackedConnection] = set()
        self._by_address: dict[str, int] = {}

    @property
    def sweep_s(self) -> float:
        """How often to sweep, so that a deadline is overrun by a quarter at most."""
        shortest = min(self.limits.receive_s_max, self.limits.idle_s_max)
        return min(_SWEEP_S_MAX, max(_SWEEP_S_MIN, shortest / 4))

    def add(self, connection: TrackedConnection, address: str) -> None:
        """Count a connection; Refused with 429 above a limit. Call ``remove`` in both cases."""
        limits, address = self.limits, network_of(address)
        count = self._by_address.get(address, 0) + 1
        self.open.add(connection)
        self._by_address[address] = count
        if len(self.open) > limits.connections_max:
            raise _too_many("connections_max", limits.connections_max)
        if address and count > limits.connections_per_address_max:
            raise _too_many("connections_per_address_max", limits.connections_per_address_max)

    def remove(self, connection: TrackedConnection, address: str) -> None:
        """Remove a connection; repeated calls do nothing."""
        if connection not in self.open:
            return
        self.open.remove(connection)
        address = network_of(address)
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]

    def sweep(self, now: float) -> None:
        """Close the overdue connections."""
        for connection in [each for each in self.open if each.overdue(now)]:
            connection.expire()


def _too_many(limit: str, limit_max: int) -> Refused:
    return Refused(
        429,
        "throttled",
        f"too many connections: at most {limit_max}",
        detail={"limit": limit, "max": limit_max},
        retry_after_s=1.0,
    )
