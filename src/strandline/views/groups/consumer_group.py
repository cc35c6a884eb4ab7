"""A consumer group: members share the records of a topic and ack them.

    at least once   a record is delivered until its ack is stored: again after a crash, after the
                    lease of a slow or dead member, after a nack
    one at a time   while one member holds a record, no other gets it; a late ack has no effect and
                    returns False
    never again     an acked record is not delivered again, also not by another opening

Lock order: the lock of the acks (one write of offsets at a time), the lock of the reader (one read
of the topic at a time), the lock of the state (short operations). The first is held while the kv
map is written, the second while the topic is read, the third during no other call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

from strandline.errors import Closed, Fenced, Invalid
from strandline.log.topic.topic import Topic
from strandline.log.topic.validation import check_timeout, check_whole
from strandline.platform.clock import Clock
from strandline.records import Record, Tombstone
from strandline.views.groups import dead_letters as groups_dead_letters
from strandline.views.groups import lag as groups_lag
from strandline.views.groups.acks import AckWriter, PendingAck
from strandline.views.groups.group_state import DeliveryState, GroupOptions
from strandline.views.groups.inflight import Lease
from strandline.views.groups.lag import GroupStatistics, PendingDelivery
from strandline.views.groups.member import Delivery, DeliveryReference, Member
from strandline.views.groups.member_read import MemberReader
from strandline.views.groups.offset_store import OffsetStore
from strandline.views.groups.offsets import Offsets
from strandline.views.groups.wait import GroupWaiters
from strandline.views.kv.kv import Kv
from strandline.views.queue.job import AckResult

READ_MAX = 10_000
_TOUCHES_PER_LEASE = 3
"""How often a waiting member is marked as present during a lease."""


class Group:
    """Members that share a topic, from ``Store.group``. Safe to use from many threads."""

    def __init__(
        self,
        topic: Topic,
        offsets: Kv,
        name: str,
        options: GroupOptions,
        *,
        clock: Clock,
        dead_letters: Callable[[], Topic],
    ) -> None:
        self.name = name
        self.options = options
        self._topic = topic
        self._clock = clock
        self._dead_letters = dead_letters
        self._state = DeliveryState(options)
        self._offset_store = OffsetStore(offsets, topic, name)
        self._acks = AckWriter(self._state, self._offset_store)
        self._reader = MemberReader(topic, self._state)
        self._waiters = GroupWaiters(topic, clock)

    def __repr__(self) -> str:
        return f"Group({self._topic.name!r}, {self.name!r}, {self.options.mode})"

    @property
    def is_finished(self) -> bool:
        """Whether the group was closed, or another opening has taken over."""
        return self._acks.finished is not None

    @property
    def generation(self) -> int:
        """The number of this opening of the group: it does not accept members of other openings.
        0 before the first member joins."""
        return self._offset_store.generation

    def join(self, name: str) -> Member:
        """A new member. An earlier member of the same name is fenced."""
        if not isinstance(name, str) or not name:
            raise Invalid(f"the name of a member is text, not {name!r}")
        self._take_over()
        with self._state.lock:
            now = self._clock.monotonic()
            self._state.expire(now)
            incarnation = self._state.join(name, now)
        self._waiters.notify()
        return Member(self, name, incarnation)

    def leave(self, member: Member) -> None:
        """Remove a member; the records that it holds wait again."""
        with self._state.lock:
            if member.has_left:
                return
            member.has_left = True
            if not self._state.members.is_fenced(member.name, member.incarnation):
                self._state.leave(member.name, self._clock.monotonic())
        self._waiters.notify()

    def read(self, member: Member, count: int, wait_s: float) -> list[Delivery]:
        """Deliveries for a member; waits for the first one at most ``wait_s`` seconds."""
        check_whole(max=count)
        check_timeout(wait_s)
        if not 1 <= count <= READ_MAX:
            raise Invalid(f"max is 1 to {READ_MAX}, not {count}")
        deliveries = self._read_now(member, count)
        if deliveries or wait_s <= 0:
            return deliveries
        deadline = self._clock.monotonic() + wait_s
        while True:
            with self._waiters.waiter() as waiter:
                self._topic.statistics()  # raises if the topic was deleted
                deliveries = self._read_now(member, count)
                now = self._clock.monotonic()
                if deliveries or now >= deadline:
                    return deliveries
                waiter.wait(min(deadline - now, self._pause_s(now)))

    def ack(self, member: Member, deliveries: Sequence[DeliveryReference]) -> AckResult:
        """Ack those of these deliveries that the member holds."""
        with self._state.lock:
            self._touch(member)
            held = [self._state.hold(each.seq, each.token) for each in deliveries]
        leases = [lease for lease in held if lease is not None]
        if leases:
            self._store(leases, None)
            self._count(acked=len(leases))
        pairs = zip(held, deliveries, strict=True)
        return AckResult(len(leases), tuple(each.seq for lease, each in pairs if lease is None))

    def nack(self, member: Member, delivery: DeliveryReference, delay_s: float) -> bool:
        """Deliver a record again later, or bury it if that was the last delivery."""
        check_timeout(delay_s)
        with self._state.lock:
            now = self._touch(member)
            lease = self._state.hold(delivery.seq, delivery.token)
        if lease is None:
            return False
        if 0 < self.options.deliveries_max <= lease.deliveries:
            self._bury_all([lease])
        else:
            self._store([lease], now + max(0.0, delay_s))
        self._count(nacked=1)
        return True

    def extend(self, member: Member, delivery: DeliveryReference) -> bool:
        """Restart the lease of a delivery."""
        with self._state.lock:
            now = self._touch(member)
            lease = self._state.inflight.held(delivery.seq, delivery.token)
            if lease is None:
                return False
            self._state.inflight.extend(lease, now + self.options.lease_s)
            return True

    def seek(
        self, to: int | Literal["earliest", "latest"] | None = None, *, ts: int | None = None
    ) -> None:
        """Move the group to a seq, or to the first record at or after a time in microseconds.

        All records from there on are delivered again, and none before. Deliveries that members
        hold become invalid.
        """
        floor = groups_lag.floor_of(self._topic, to, ts)
        self._take_over()
        self._acks.move(floor)
        self._waiters.notify()

    def lag(self) -> int:
        """The number of records that are neither done nor gone, held ones included."""
        return groups_lag.lag_of(self._topic, self._offsets())

    def pending(self) -> list[PendingDelivery]:
        """The records that members hold, in order of seq."""
        with self._state.lock:
            self._state.expire(now := self._clock.monotonic())
            return [PendingDelivery.of(lease, now) for lease in self._state.inflight]

    def gaps(self) -> list[Tombstone]:
        """Gaps with records that the group was not done with, as found since the opening."""
        with self._state.lock:
            return list(self._state.gaps)

    def statistics(self) -> GroupStatistics:
        """The current numbers of the group."""
        offsets = self._offsets()
        lag = groups_lag.lag_of(self._topic, offsets)
        with self._state.lock:
            self._state.expire(self._clock.monotonic())
            return groups_lag.statistics_of(self._topic.name, self.name, self._state, offsets, lag)

    def subscribe(self, callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Call a function whenever a member should read again: ``with group.calling(wake):``.

        The thread that made the change calls it, so it must be fast. There is no call for the
        passing of time: see ``due_s``.
        """
        return self._waiters.subscribe(callback)

    def due_s(self) -> float:
        """Seconds until time alone may change something."""
        return self._pause_s(self._clock.monotonic())

    def close(self) -> None:
        """End every wait. All later calls raise Closed."""
        if self._acks.finished is None:
            self._acks.finished = Closed(f"the group {self.name!r} is closed")
        self._waiters.notify()

    def _read_now(self, member: Member, count: int) -> list[Delivery]:
        while True:
            deliverable: list[Lease] = []
            exhausted: list[Lease] = []
            try:
                fresh = self._take_leases(member, count, deliverable, exhausted)
                records = self._reader.fetch(deliverable, fresh)
                if exhausted:
                    self._bury_all(self._hold(exhausted))
            except BaseException:
                with self._state.lock:
                    self._state.release(deliverable + exhausted, self._clock.monotonic())
                raise
            deliveries = [
                Delivery(self, member, records[lease.record.seq], lease)
                for lease in deliverable
                if lease.record.seq in records
            ]
            if deliveries:
                again = sum(each.deliveries > 1 for each in deliveries)
                self._count(delivered=len(deliveries), redelivered=again)
            if deliveries or not (deliverable or exhausted):
                return deliveries
            # All leased records are gone or buried: there may be more.

    def _take_leases(
        self, member: Member, count: int, deliverable: list[Lease], exhausted: list[Lease]
    ) -> dict[int, Record]:
        """Add leases for a member, and on records that failed too often; return records that were
        read on the way."""
        state = self._state
        fresh: dict[int, Record] = {}
        more = True
        while True:
            with state.lock:
                now = self._touch(member)
                state.expire(now)
                leases = state.take_leases(member.name, count - len(deliverable), now)
                deliverable += leases[0]
                exhausted += leases[1]
                more = more and state.may_get_new_records(member.name)
            if len(deliverable) >= count or exhausted or not more:
                return fresh
            more = self._reader.read_new(count - len(deliverable), fresh)

    def _hold(self, leases: list[Lease]) -> list[Lease]:
        with self._state.lock:
            held = [self._state.hold(lease.record.seq, lease.token) for lease in leases]
        return [lease for lease in held if lease is not None]

    def _bury_all(self, leases: list[Lease]) -> None:
        """Make dead letters of records that are held. After a failure their member holds them."""
        try:
            records = self._topic.get_many([lease.record.seq for lease in leases]).records
            deliveries = {lease.record.seq: lease.deliveries for lease in leases}
            for record in records:
                self._bury(record, deliveries[record.seq])
        except BaseException:
            with self._state.lock:
                self._state.restore(leases)
            raise
        self._store(leases, None)
        self._count(dead=len(records))

    def _bury(self, record: Record, deliveries: int) -> None:
        topic = self._topic
        meta = groups_dead_letters.meta_of(
            record, topic=topic.name, group=self.name, deliveries=deliveries
        )
        self._dead_letters().append(
            record.data,
            key=record.key,
            tag=record.tag,
            node=record.node,
            meta=meta,
            # A crash before the offsets are stored must not bury it twice. After a seek it may be.
            idempotency_key=f"{topic.identity[0]}:{self._state.offsets.moves}:{record.seq}",
        )

    def _store(self, leases: list[Lease], due: float | None) -> None:
        self._acks.store(PendingAck(leases, due))
        self._waiters.notify()

    def _take_over(self) -> None:
        """Make this opening the one that writes."""
        self._check_open()
        self._acks.take_over(self._initial_offsets)

    def _initial_offsets(self) -> Offsets:
        return Offsets(groups_lag.floor_of(self._topic, self.options.start, None))

    def _offsets(self) -> Offsets:
        if not self._acks.is_ours:
            return self._offset_store.load() or self._initial_offsets()
        with self._state.lock:
            return self._state.offsets.copy()

    def _touch(self, member: Member) -> float:
        """Mark a member as present now; return the time. The lock of the state is held."""
        self._check_open()
        if member.has_left:
            raise Closed(f"{member.name!r} has left the group: join again")
        if self._state.members.is_fenced(member.name, member.incarnation):
            raise Fenced(f"another member has joined as {member.name!r}: stop, or join again")
        now = self._clock.monotonic()
        self._state.touch(member.name, member.incarnation, now)
        return now

    def _pause_s(self, now: float) -> float:
        """The longest pause that misses no timed event, and keeps a waiting member present."""
        with self._state.lock:
            event_at = self._state.next_event()
        longest = self.options.lease_s / _TOUCHES_PER_LEASE
        return longest if event_at is None else min(longest, max(0.0, event_at - now))

    def _count(self, **numbers: int) -> None:
        with self._state.lock:
            self._state.counts.add(**numbers)

    def _check_open(self) -> None:
        if self._acks.finished is not None:
            raise self._acks.finished
