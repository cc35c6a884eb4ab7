"""Records that members hold, and until when. Pure; time is a number of monotonic seconds.

A lease is for one delivery of one record. Its token is never used again, so who comes late with the
token of an earlier delivery is told from the one who has the record now. Nothing happens when a
lease ends: it is found when somebody asks what is over. Until then its holder may still ack, which
harms nobody.

Leases are not stored. After a restart nobody holds anything, and everything that is not done is
delivered again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from strandline.views.groups.assignment import Waiting

_ENDS_SPARE = 100


class Lease(msgspec.Struct, frozen=True):
    """One record in the hands of one member."""

    taken: Waiting
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
        self, taken: Waiting, member: str, deliveries: int, *, now: float, until: float
    ) -> Lease:
        """A new lease. The record must be in nobody's hands."""
        assert taken.seq not in self._leases, "a record is held by one member at a time"
        self._token += 1
        lease = Lease(taken, member, self._token, now, until, deliveries)
        self._put(lease)
        return lease

    def held(self, seq: int, token: int) -> Lease | None:
        """The lease of this token, None when it is over and gone."""
        lease = self._leases.get(seq)
        return lease if lease is not None and lease.token == token else None

    def extend(self, lease: Lease, until: float) -> None:
        """Let it end later; never earlier."""
        if until > lease.until:
            self._put(msgspec.structs.replace(lease, until=until))

    def end(self, lease: Lease) -> Lease:
        """Take the record out of its member's hands."""
        return self._leases.pop(lease.taken.seq)

    def restore(self, lease: Lease) -> None:
        """Put back a lease that was ended a moment ago."""
        assert lease.taken.seq not in self._leases, "a record is held by one member at a time"
        self._put(lease)

    def over(self, now: float) -> list[Lease]:
        """The leases whose time is over. They are ended."""
        found = []
        while self._ends and self._ends[0][0] <= now:
            _, seq, token = heapq.heappop(self._ends)
            lease = self.held(seq, token)
            if lease is not None and lease.until <= now:
                found.append(self.end(lease))
        return found

    def of(self, member: str) -> list[Lease]:
        """What one member holds, in order of seq."""
        return [lease for lease in self if lease.member == member]

    def next_end(self) -> float | None:
        """When the next lease may end; None when there is none."""
        return self._ends[0][0] if self._ends else None

    def clear(self) -> None:
        """Take everything out of everybody's hands, for good. Tokens go on."""
        self._leases.clear()
        self._ends.clear()
        self._cleared = self._token

    def is_stale(self, lease: Lease) -> bool:
        """Whether the lease is from before everything was taken away."""
        return lease.token <= self._cleared

    def _put(self, lease: Lease) -> None:
        if len(self._ends) > 2 * len(self._leases) + _ENDS_SPARE:
            # Leases that were acked leave their ends behind: by the million, if nobody looked.
            self._ends = [(each.until, each.taken.seq, each.token) for each in self]
            heapq.heapify(self._ends)
        self._leases[lease.taken.seq] = lease
        heapq.heappush(self._ends, (lease.until, lease.taken.seq, lease.token))
