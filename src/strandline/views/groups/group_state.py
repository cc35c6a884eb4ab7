"""All that a group knows in memory: what is done, what waits, who holds what, who is there. Pure.

Every seq of the topic is in one place:

    up to the cursor    done, waiting, in flight, or in the hands of who is settling it
    above it            not looked at

So a record is delivered once at a time, and whatever is not done comes round again: from flight
back to waiting when a lease is over, when its member leaves, or when it is given back. Only offsets
are stored; the rest begins anew with every opening, and when the group is moved. A lease from
before that is stale: nothing can be done with it any more.

Records that are gone from the topic are met in two ways, by looking further (``absorb``) and by
fetching what waited (``skip``). Both count them: ``lost`` against everybody's will, ``deleted`` on
request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Literal

import msgspec

from strandline.log.read.page import Page
from strandline.records import Tombstone
from strandline.views.groups.assignment import Mode, backlog_for
from strandline.views.groups.inflight import Inflight, Lease
from strandline.views.groups.membership import Membership
from strandline.views.groups.offsets import Offsets

GAPS_KEPT = 1000


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a group delivers."""

    mode: Mode = "shared"
    """Who gets which record: see docs/guide/groups.md."""

    lease_s: float = 30.0
    """How long a delivery is its member's, and a member is waited for. Short: what a dead worker
    held comes round soon, and a slow one loses what it works on."""

    deliveries_max: int = 5
    """How often a record is delivered in vain before it becomes a dead letter; 0 is for ever."""

    window: int = 10_000
    """Most records that are in flight or wait at once, some 300 bytes each. A record that is never
    acked holds nobody up until so many are."""

    start: Literal["earliest", "latest"] = "earliest"
    """Where a new group begins: with the ``earliest`` record, or behind the ``latest``."""


class Counts(msgspec.Struct):
    """What has happened since the group was opened."""

    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    dead: int = 0

    def add(self, **numbers: int) -> None:
        for name, number in numbers.items():
            setattr(self, name, getattr(self, name) + number)


class Desk:
    """What a group knows. Owned by one thread: whoever holds its lock."""

    def __init__(self, options: GroupOptions) -> None:
        self.lock = threading.Lock()
        """Held for moments, and never while a topic or a view is asked."""
        self.options = options
        self.offsets = Offsets()
        self.cursor = 0
        self.backlog = backlog_for(options.mode)
        self.inflight = Inflight()
        self.members = Membership(options.lease_s)
        self.gaps: deque[Tombstone] = deque(maxlen=GAPS_KEPT)
        self.counts = Counts()
        self._settling = 0

    @property
    def room(self) -> int:
        """How many records more may be looked at."""
        held = len(self.backlog) + len(self.inflight) + self._settling
        return max(0, self.options.window - held)

    def begin(self, offsets: Offsets) -> None:
        """Go on from these; nothing waits, and nobody holds anything."""
        self.offsets = offsets
        self.cursor = offsets.floor
        self.backlog = backlog_for(self.options.mode)
        self.backlog.change_members(self.members.names)
        self.inflight.clear()
        self._settling = 0

    def join(self, name: str, now: float) -> int:
        """A member comes. What one of its name held before waits again."""
        self.release(self.inflight.of(name), now)
        incarnation = self.members.join(name, now)
        self.backlog.change_members(self.members.names)
        return incarnation

    def touch(self, name: str, incarnation: int, now: float) -> None:
        """A member does something."""
        if self.members.touch(name, incarnation, now):
            self.backlog.change_members(self.members.names)

    def leave(self, name: str, now: float) -> None:
        """A member goes, and what it held waits again."""
        self.release(self.inflight.of(name), now)
        self.members.leave(name)
        self.backlog.change_members(self.members.names)

    def pass_time(self, now: float) -> None:
        """See whose time is over."""
        for lease in self.inflight.over(now):
            self.counts.expired += 1
            self.offsets.fail(lease.taken.seq)
            self.backlog.give_back(lease.taken, now)
        if self.members.over(now):
            self.backlog.change_members(self.members.names)

    def next_event(self) -> float | None:
        """When time alone will change something; None when it will not."""
        moments = (self.inflight.next_end(), self.members.next_end(), self.backlog.next_due())
        return min((moment for moment in moments if moment is not None), default=None)

    def looks_for(self, member: str) -> bool:
        """Whether new records may be for this member."""
        return self.options.mode != "exclusive" or self.members.names[:1] == [member]

    def look_from(self) -> int:
        """The cursor from which to read on."""
        self.cursor = self.offsets.next_open(self.cursor + 1) - 1
        return self.cursor

    def absorb(self, after: int, page: Page) -> None:
        """Take in what was read behind the cursor."""
        if after != self.cursor:
            return  # somebody has moved the group meanwhile
        offsets, seq = self.offsets, after
        gap = page.tombstone
        if gap is not None:
            lost = offsets.settle_range(max(gap.gap_from, seq + 1), gap.gap_to)
            self._note_lost(gap, lost)
            seq = max(seq, gap.gap_to)
        for record in page.records:
            if record.seq > seq + 1:
                offsets.deleted += offsets.settle_range(seq + 1, record.seq - 1)
            seq = record.seq
            if seq not in offsets:
                self.backlog.offer(seq, record.key)
        offsets.deleted += offsets.settle_range(seq + 1, page.next)
        self.cursor = page.next

    def take(self, member: str, count: int, now: float) -> tuple[list[Lease], list[Lease]]:
        """Leases on what this member is to work on, and on what has failed too often for that."""
        hopeful: list[Lease] = []
        hopeless: list[Lease] = []
        most = self.options.deliveries_max
        for waiting in self.backlog.take(member, count, now):
            if waiting.seq in self.offsets:
                self.backlog.settled(waiting)
                continue
            deliveries = self.offsets.failures.get(waiting.seq, 0) + 1
            until = now + self.options.lease_s
            lease = self.inflight.grant(waiting, member, deliveries, now=now, until=until)
            (hopeless if 0 < most < deliveries else hopeful).append(lease)
        return hopeful, hopeless

    def skip(self, lease: Lease, gap: Tombstone | None) -> None:
        """The record of this lease is gone: lost in a gap, or deleted."""
        if self.inflight.held(lease.taken.seq, lease.token) is None:
            return
        self.inflight.end(lease)
        self.backlog.settled(lease.taken)
        news = self.offsets.settle_range(lease.taken.seq, lease.taken.seq)
        if gap is None:
            self.offsets.deleted += news
        else:
            self._note_lost(gap, news)

    def release(self, leases: Iterable[Lease], now: float) -> None:
        """Take records out of their member's hands that it never saw."""
        for lease in leases:
            if self.inflight.held(lease.taken.seq, lease.token) is not None:
                self.inflight.end(lease)
                self.backlog.give_back(lease.taken, now)

    def hold(self, seq: int, token: int) -> Lease | None:
        """Take a record out of its member's hands to settle it; None when it is in others'."""
        lease = self.inflight.held(seq, token)
        if lease is not None:
            self.inflight.end(lease)
            self._settling += 1
        return lease

    def let_go(self, leases: Iterable[Lease]) -> None:
        """What was held could not be settled: it is in its member's hands as before."""
        for lease in self._of_now(leases):
            self.inflight.restore(lease)

    def settle(self, leases: Iterable[Lease]) -> None:
        """What was held is done; the offsets say so."""
        for lease in self._of_now(leases):
            self.backlog.settled(lease.taken)

    def give_back(self, leases: Iterable[Lease], due: float) -> None:
        """What was held was in vain, and waits again; the offsets have counted that."""
        for lease in self._of_now(leases):
            self.backlog.give_back(lease.taken, due)

    def is_stale(self, leases: Iterable[Lease]) -> bool:
        """Whether the group was moved since any of these were granted."""
        return any(map(self.inflight.is_stale, leases))

    def _of_now(self, leases: Iterable[Lease]) -> list[Lease]:
        """Held leases that are not stale. They are held no longer."""
        found = [lease for lease in leases if not self.inflight.is_stale(lease)]
        self._settling -= len(found)
        return found

    def _note_lost(self, gap: Tombstone, count: int) -> None:
        if count:
            self.offsets.lost += count
            if not self.gaps or self.gaps[-1] != gap:
                self.gaps.append(gap)
