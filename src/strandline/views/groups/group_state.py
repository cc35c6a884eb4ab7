"""The state of a group in memory: offsets, waiting records, leases, members. Pure.

Every seq of the topic has one state:

    up to the cursor    done, waiting, in flight, or held while its ack or nack is written
    above it            not read

So a record is delivered to one member at a time, and a record that is not done is delivered again:
it changes from in flight to waiting when its lease expires, when its member leaves, or when it is
returned. Only offsets are stored; the rest is empty after every opening and after a seek. A lease
from before that is stale: no operation accepts it.

Records that are gone from the topic are found in two ways: by reading on (``absorb``) and by
fetching waiting records (``skip``). Both count them: as ``lost``, or as ``deleted`` if a delete was
requested.
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
    """Which member gets which record: see docs/guide/groups.md."""

    lease_s: float = 30.0
    """How long a member holds a delivery, and stays in the group without a sign of life. Short:
    records of a dead worker are delivered again soon, and a slow one loses its records."""

    deliveries_max: int = 5
    """How many deliveries may fail before a record becomes a dead letter; 0 means no limit."""

    window: int = 10_000
    """Most records that are in flight or waiting at once, about 300 bytes each. Records that are
    never acked block the group only when there are so many of them."""

    start: Literal["earliest", "latest"] = "earliest"
    """Where a new group begins: at the ``earliest`` record, or after the ``latest``."""


class _GroupCounts(msgspec.Struct):
    """Counters since the group was opened."""

    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    dead: int = 0

    def add(self, **numbers: int) -> None:
        for name, number in numbers.items():
            setattr(self, name, getattr(self, name) + number)


class DeliveryState:
    """The state of a group. Owned by one thread: the one that holds its lock."""

    def __init__(self, options: GroupOptions) -> None:
        self.lock = threading.Lock()
        """Held for short operations, never during a call of a topic or a view."""
        self.options = options
        self.offsets = Offsets()
        self.cursor = 0
        self.backlog = backlog_for(options.mode)
        self.inflight = Inflight()
        self.members = Membership(options.lease_s)
        self.gaps: deque[Tombstone] = deque(maxlen=GAPS_KEPT)
        self.counts = _GroupCounts()
        self._held_for_write = 0

    @property
    def capacity(self) -> int:
        """How many more records may be read."""
        held = len(self.backlog) + len(self.inflight) + self._held_for_write
        return max(0, self.options.window - held)

    def reset(self, offsets: Offsets) -> None:
        """Start from these offsets, without waiting records and leases."""
        self.offsets = offsets
        self.cursor = offsets.floor
        self.backlog = backlog_for(self.options.mode)
        self.backlog.change_members(self.members.names)
        self.inflight.clear()
        self._held_for_write = 0

    def join(self, name: str, now: float) -> int:
        """Add a member. Records that an earlier member of its name held wait again."""
        self.release(self.inflight.of(name), now)
        incarnation = self.members.join(name, now)
        self.backlog.change_members(self.members.names)
        return incarnation

    def touch(self, name: str, incarnation: int, now: float) -> None:
        """Mark a member as present."""
        if self.members.touch(name, incarnation, now):
            self.backlog.change_members(self.members.names)

    def leave(self, name: str, now: float) -> None:
        """Remove a member; the records that it held wait again."""
        self.release(self.inflight.of(name), now)
        self.members.leave(name)
        self.backlog.change_members(self.members.names)

    def expire(self, now: float) -> None:
        """Expire leases and members."""
        for lease in self.inflight.expire(now):
            self.counts.expired += 1
            self.offsets.fail(lease.record.seq)
            self.backlog.give_back(lease.record, now)
        if self.members.expire(now):
            self.backlog.change_members(self.members.names)

    def next_event(self) -> float | None:
        """When time alone changes something; None if it does not."""
        times = (self.inflight.next_end(), self.members.next_end(), self.backlog.next_due())
        return min((time for time in times if time is not None), default=None)

    def may_get_new_records(self, member: str) -> bool:
        """Whether this member may get new records."""
        return self.options.mode != "exclusive" or self.members.names[:1] == [member]

    def read_cursor(self) -> int:
        """The cursor from which to read on."""
        self.cursor = self.offsets.next_open(self.cursor + 1) - 1
        return self.cursor

    def add_page(self, after: int, page: Page) -> None:
        """Add the records of a page that was read after the cursor."""
        if after != self.cursor:
            return  # a seek has moved the group since
        offsets, seq = self.offsets, after
        gap = page.tombstone
        if gap is not None:
            lost = offsets.mark_range_done(max(gap.gap_from, seq + 1), gap.gap_to)
            self._note_lost(gap, lost)
            seq = max(seq, gap.gap_to)
        for record in page.records:
            if record.seq > seq + 1:
                offsets.deleted += offsets.mark_range_done(seq + 1, record.seq - 1)
            seq = record.seq
            if seq not in offsets:
                self.backlog.offer(seq, record.key)
        offsets.deleted += offsets.mark_range_done(seq + 1, page.next)
        self.cursor = page.next

    def take_leases(self, member: str, count: int, now: float) -> tuple[list[Lease], list[Lease]]:
        """Leases for this member: on records to deliver, and on records that failed too often."""
        deliverable: list[Lease] = []
        exhausted: list[Lease] = []
        deliveries_max = self.options.deliveries_max
        for waiting in self.backlog.take(member, count, now):
            if waiting.seq in self.offsets:
                self.backlog.finish(waiting)
                continue
            deliveries = self.offsets.failures.get(waiting.seq, 0) + 1
            until = now + self.options.lease_s
            lease = self.inflight.grant(waiting, member, deliveries, now=now, until=until)
            (exhausted if 0 < deliveries_max < deliveries else deliverable).append(lease)
        return deliverable, exhausted

    def skip(self, lease: Lease, gap: Tombstone | None) -> None:
        """End a lease whose record is gone: lost in a gap, or deleted."""
        if self.inflight.held(lease.record.seq, lease.token) is None:
            return
        self.inflight.end(lease)
        self.backlog.finish(lease.record)
        count = self.offsets.mark_range_done(lease.record.seq, lease.record.seq)
        if gap is None:
            self.offsets.deleted += count
        else:
            self._note_lost(gap, count)

    def release(self, leases: Iterable[Lease], now: float) -> None:
        """End leases on records that were not delivered; the records wait again."""
        for lease in leases:
            if self.inflight.held(lease.record.seq, lease.token) is not None:
                self.inflight.end(lease)
                self.backlog.give_back(lease.record, now)

    def hold(self, seq: int, token: int) -> Lease | None:
        """End a lease to write its ack or nack; None if the token is not the current one."""
        lease = self.inflight.held(seq, token)
        if lease is not None:
            self.inflight.end(lease)
            self._held_for_write += 1
        return lease

    def restore(self, leases: Iterable[Lease]) -> None:
        """Restore held leases whose ack or nack could not be written."""
        for lease in self._unhold(leases):
            self.inflight.restore(lease)

    def finish(self, leases: Iterable[Lease]) -> None:
        """Finish held leases whose records are done in the offsets."""
        for lease in self._unhold(leases):
            self.backlog.finish(lease.record)

    def give_back(self, leases: Iterable[Lease], due: float) -> None:
        """Let records of held leases wait again; the offsets have counted the failure."""
        for lease in self._unhold(leases):
            self.backlog.give_back(lease.record, due)

    def is_stale(self, leases: Iterable[Lease]) -> bool:
        """Whether the group was moved since any of these were granted."""
        return any(map(self.inflight.is_stale, leases))

    def _unhold(self, leases: Iterable[Lease]) -> list[Lease]:
        """End the hold on those leases that are not stale; return them."""
        current = [lease for lease in leases if not self.inflight.is_stale(lease)]
        self._held_for_write -= len(current)
        return current

    def _note_lost(self, gap: Tombstone, count: int) -> None:
        if count:
            self.offsets.lost += count
            if not self.gaps or self.gaps[-1] != gap:
                self.gaps.append(gap)
