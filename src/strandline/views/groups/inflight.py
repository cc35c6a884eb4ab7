"""Leases: the records that members hold, and until when. Pure; time is in monotonic seconds.

A lease is for one delivery of one record. Its token is never reused, so a late call with the token
of an earlier delivery is distinguished from the current holder. A lease that expires stays until
``over`` is called. Until then its holder may still ack, which is safe.

Leases are not stored. After a restart there are none, and every record that is not done is
delivered again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from strandline.views.groups.assignment import WaitingRecord

_ENDS_SPARE = 100


class Lease(msgspec.Struct, frozen=True):
    """The hold of one member on one record."""

    record: WaitingRecord
    member: str
    token: int
    since: float
    until: float
    deliveries: int
    """How often the record was delivered, this time included."""


class Inflight:
    """The leases of a group. Owned by one thread."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._ends: list[tuple[float, int, int]] = []
        self._token = 0
        self._cleared = 0

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        """In order of seq."""
        return iter([self._leases[seq] for seq in sorted(self._leases)])

    def grant(
        self, taken: WaitingRecord, member: str, deliveries: int, *, now: float, until: float
    ) -> Lease:
        """A new lease. No member may hold the record."""
        assert taken.seq not in self._leases, "a record is held by one member at a time"
        self._token += 1
        lease = Lease(taken, member, self._token, now, until, deliveries)
        self._put(lease)
        return lease

    def held(self, seq: int, token: int) -> Lease | None:
        """The lease with this token, None if it has ended."""
        lease = self._leases.get(seq)
        return lease if lease is not None and lease.token == token else None

    def extend(self, lease: Lease, until: float) -> None:
        """Extend a lease; it never becomes shorter."""
        if until > lease.until:
            self._put(msgspec.structs.replace(lease, until=until))

    def end(self, lease: Lease) -> Lease:
        """End a lease: its member no longer holds the record."""
        return self._leases.pop(lease.record.seq)

    def restore(self, lease: Lease) -> None:
        """Restore a lease that was just ended."""
        assert lease.record.seq not in self._leases, "a record is held by one member at a time"
        self._put(lease)

    def expire(self, now: float) -> list[Lease]:
        """End the leases that have expired; return them."""
        expired = []
        while self._ends and self._ends[0][0] <= now:
            _, seq, token = heapq.heappop(self._ends)
            lease = self.held(seq, token)
            if lease is not None and lease.until <= now:
                expired.append(self.end(lease))
        return expired

    def of(self, member: str) -> list[Lease]:
        """The leases of one member, in order of seq."""
        return [lease for lease in self if lease.member == member]

    def next_end(self) -> float | None:
        """A lower bound of the next expiry; None without leases."""
        return self._ends[0][0] if self._ends else None

    def clear(self) -> None:
        """End all leases and make them stale. Tokens continue."""
        self._leases.clear()
        self._ends.clear()
        self._cleared = self._token

    def is_stale(self, lease: Lease) -> bool:
        """Whether the lease is from before the last ``clear``."""
        return lease.token <= self._cleared

    def _put(self, lease: Lease) -> None:
        if len(self._ends) > 2 * len(self._leases) + _ENDS_SPARE:
            # Ended leases leave entries in the heap: without this, millions of them.
            self._ends = [(each.until, each.record.seq, each.token) for each in self]
            heapq.heapify(self._ends)
        self._leases[lease.record.seq] = lease
        heapq.heappush(self._ends, (lease.until, lease.record.seq, lease.token))
