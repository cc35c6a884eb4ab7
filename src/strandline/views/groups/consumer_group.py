"""A consumer group: members share the records of a topic, and say what they are done with.

    at least once   a record is delivered until an ack of it was stored: again after a crash, after
                    the lease of a member that is slow or dead, after a nack
    once at a time  while one member holds it, nobody else gets it; an ack that comes too late
                    changes nothing, and says so
    never again     what was acked is not delivered again, also not by another opening

Locks, in the order in which they may be taken: that of settling (one write of offsets at a time),
that of reading (one look into the topic at a time), the desk's (for moments). The first is held
while the kv map is asked, the second while the topic is, the third never while anything is.
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
from strandline.views.groups.acks import Settlement, Settling
from strandline.views.groups.group_state import Desk, GroupOptions
from strandline.views.groups.inflight import Lease
from strandline.views.groups.lag import GroupStatistics, PendingDelivery
from strandline.views.groups.member import Delivery, Held, Member
from strandline.views.groups.member_read import Reading
from strandline.views.groups.offset_store import Keeper
from strandline.views.groups.offsets import Offsets
from strandline.views.groups.wait import Waiting
from strandline.views.kv.kv import Kv
from strandline.views.queue.job import Settled

READ_MAX = 10_000
_SIGNS_OF_LIFE = 3
"""How often in a lease who waits says that it is there."""


class Group:
    """Members that share a topic. Get one from ``Store.group``. Safe from many threads."""

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
        self._desk = Desk(options)
        self._keeper = Keeper(offsets, topic, name)
        self._settling = Settling(self._desk, self._keeper)
        self._reading = Reading(topic, self._desk)
        self._waiting = Waiting(topic, clock)

    def __repr__(self) -> str:
        return f"Group({self._topic.name!r}, {self.name!r}, {self.options.mode})"

    @property
    def is_finished(self) -> bool:
        """Whether it was closed, or another opening has taken over."""
        return self._settling.finished is not None

    @property
    def generation(self) -> int:
        """Which opening of the group this is: members of others are not its own. 0: nobody has
        joined yet."""
        return self._keeper.generation

    def join(self, name: str) -> Member:
        """A new member. One of the same name before it is shut out."""
        if not isinstance(name, str) or not name:
            raise Invalid(f"the name of a member is text, not {name!r}")
        self._own()
        with self._desk.lock:
            now = self._clock.monotonic()
            self._desk.pass_time(now)
            incarnation = self._desk.join(name, now)
        self._waiting.ring()
        return Member(self, name, incarnation)

    def leave(self, member: Member) -> None:
        """Let a member go, and what it holds."""
        with self._desk.lock:
            if member.has_left:
                return
            member.has_left = True
            if not self._desk.members.is_shut_out(member.name, member.incarnation):
                self._desk.leave(member.name, self._clock.monotonic())
        self._waiting.ring()

    def read(self, member: Member, count: int, wait_s: float) -> list[Delivery]:
        """Deliveries for a member, as soon as there is one."""
        check_whole(max=count)
        check_timeout(wait_s)
        if not 1 <= count <= READ_MAX:
            raise Invalid(f"max is 1 to {READ_MAX}, not {count}")
        found = self._read_now(member, count)
        if found or wait_s <= 0:
            return found
        deadline = self._clock.monotonic() + wait_s
        while True:
            with self._waiting.bell() as bell:
                self._topic.statistics()  # says so when the topic was deleted
                found = self._read_now(member, count)
                now = self._clock.monotonic()
                if found or now >= deadline:
                    return found
                bell.wait(min(deadline - now, self._nap_s(now)))

    def ack(self, member: Member, deliveries: Sequence[Held]) -> Settled:
        """Be done with deliveries, as far as they are the member's."""
        with self._desk.lock:
            self._touch(member)
            held = [self._desk.hold(each.seq, each.token) for each in deliveries]
        leases = [lease for lease in held if lease is not None]
        if leases:
            self._settle(leases, None)
            self._count(acked=len(leases))
        pairs = zip(held, deliveries, strict=True)
        return Settled(len(leases), tuple(each.seq for lease, each in pairs if lease is None))

    def nack(self, member: Member, delivery: Held, delay_s: float) -> bool:
        """Deliver it again later, or give it up when that was the last time."""
        check_timeout(delay_s)
        with self._desk.lock:
            now = self._touch(member)
            lease = self._desk.hold(delivery.seq, delivery.token)
        if lease is None:
            return False
        if 0 < self.options.deliveries_max <= lease.deliveries:
            self._give_up([lease])
        else:
            self._settle([lease], now + max(0.0, delay_s))
        self._count(nacked=1)
        return True

    def extend(self, member: Member, delivery: Held) -> bool:
        """Let a delivery's lease begin anew."""
        with self._desk.lock:
            now = self._touch(member)
            lease = self._desk.inflight.held(delivery.seq, delivery.token)
            if lease is None:
                return False
            self._desk.inflight.extend(lease, now + self.options.lease_s)
            return True

    def seek(
        self, to: int | Literal["earliest", "latest"] | None = None, *, ts: int | None = None
    ) -> None:
        """Go on with this seq, or with the records of a time (microseconds) and later.

        Everything from there on is delivered again, and nothing before. What members hold is no
        longer theirs.
        """
        floor = groups_lag.floor_of(self._topic, to, ts)
        self._own()
        self._settling.move(floor)
        self._waiting.ring()

    def lag(self) -> int:
        """Records that are neither done nor gone: what is behind, whoever has it."""
        return groups_lag.lag_of(self._topic, self._offsets())

    def pending(self) -> list[PendingDelivery]:
        """What members hold, in order of seq."""
        with self._desk.lock:
            self._desk.pass_time(now := self._clock.monotonic())
            return [PendingDelivery.of(lease, now) for lease in self._desk.inflight]

    def gaps(self) -> list[Tombstone]:
        """Where records were lost before the group was done with them, as met since opening."""
        with self._desk.lock:
            return list(self._desk.gaps)

    def statistics(self) -> GroupStatistics:
        """The group's numbers at this moment."""
        offsets = self._offsets()
        lag = groups_lag.lag_of(self._topic, offsets)
        with self._desk.lock:
            self._desk.pass_time(self._clock.monotonic())
            return groups_lag.statistics_of(self._topic.name, self.name, self._desk, offsets, lag)

    def calling(self, callback: Callable[[], None]) -> AbstractContextManager[None]:
        """``with group.calling(tell):`` it is called whenever a member should look again.

        By whoever did it, so it must be quick; that time has passed is not told: ``due_s``.
        """
        return self._waiting.calling(callback)

    def due_s(self) -> float:
        """How long one may wait without missing what time brings."""
        return self._nap_s(self._clock.monotonic())

    def close(self) -> None:
        """End every wait; the group refuses from now on."""
        if self._settling.finished is None:
            self._settling.finished = Closed(f"the group {self.name!r} is closed")
        self._waiting.ring()

    def _read_now(self, member: Member, count: int) -> list[Delivery]:
        while True:
            hopeful: list[Lease] = []
            hopeless: list[Lease] = []
            try:
                fresh = self._take(member, count, hopeful, hopeless)
                records = self._reading.fetch(hopeful, fresh)
                if hopeless:
                    self._give_up(self._hold(hopeless))
            except BaseException:
                with self._desk.lock:
                    self._desk.release(hopeful + hopeless, self._clock.monotonic())
                raise
            found = [
                Delivery(self, member, records[lease.taken.seq], lease)
                for lease in hopeful
                if lease.taken.seq in records
            ]
            if found:
                again = sum(each.deliveries > 1 for each in found)
                self._count(delivered=len(found), redelivered=again)
            if found or not (hopeful or hopeless):
                return found
            # All that was taken is gone or given up: there may be more.

    def _take(
        self, member: Member, count: int, hopeful: list[Lease], hopeless: list[Lease]
    ) -> dict[int, Record]:
        """Leases for a member, and on what has failed too often; records that are at hand."""
        desk = self._desk
        fresh: dict[int, Record] = {}
        more = True
        while True:
            with desk.lock:
                now = self._touch(member)
                desk.pass_time(now)
                taken = desk.take(member.name, count - len(hopeful), now)
                hopeful += taken[0]
                hopeless += taken[1]
                more = more and desk.looks_for(member.name)
            if len(hopeful) >= count or hopeless or not more:
                return fresh
            more = self._reading.look(count - len(hopeful), fresh)

    def _hold(self, leases: list[Lease]) -> list[Lease]:
        with self._desk.lock:
            held = [self._desk.hold(lease.taken.seq, lease.token) for lease in leases]
        return [lease for lease in held if lease is not None]

    def _give_up(self, leases: list[Lease]) -> None:
        """Make dead letters of records that are held. What fails leaves them with their member."""
        try:
            records = self._topic.pick([lease.taken.seq for lease in leases]).records
            deliveries = {lease.taken.seq: lease.deliveries for lease in leases}
            for record in records:
                self._bury(record, deliveries[record.seq])
        except BaseException:
            with self._desk.lock:
                self._desk.let_go(leases)
            raise
        self._settle(leases, None)
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
            # A crash between this and the offsets must not bury it twice. A seek may.
            idempotency_key=f"{topic.identity[0]}:{self._desk.offsets.moves}:{record.seq}",
        )

    def _settle(self, leases: list[Lease], due: float | None) -> None:
        self._settling.store(Settlement(leases, due))
        self._waiting.ring()

    def _own(self) -> None:
        """Be the opening that writes."""
        self._check_open()
        self._settling.take_over(self._begin)

    def _begin(self) -> Offsets:
        return Offsets(groups_lag.floor_of(self._topic, self.options.start, None))

    def _offsets(self) -> Offsets:
        if not self._settling.is_ours:
            return self._keeper.load() or self._begin()
        with self._desk.lock:
            return self._desk.offsets.copy()

    def _touch(self, member: Member) -> float:
        """A member does something, now. The desk's lock is held."""
        self._check_open()
        if member.has_left:
            raise Closed(f"{member.name!r} has left the group: join again")
        if self._desk.members.is_shut_out(member.name, member.incarnation):
            raise Fenced(f"another member has joined as {member.name!r}: stop, or join again")
        now = self._clock.monotonic()
        self._desk.touch(member.name, member.incarnation, now)
        return now

    def _nap_s(self, now: float) -> float:
        """How long one may sleep without missing what time brings."""
        with self._desk.lock:
            moment = self._desk.next_event()
        soon = self.options.lease_s / _SIGNS_OF_LIFE
        return soon if moment is None else min(soon, max(0.0, moment - now))

    def _count(self, **numbers: int) -> None:
        with self._desk.lock:
            self._desk.counts.add(**numbers)

    def _check_open(self) -> None:
        if self._settling.finished is not None:
            raise self._settling.finished
