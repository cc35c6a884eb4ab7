"""A member of a group, and what is delivered to it.

A delivery is the member's until its lease is over. After that it is somebody else's as soon as one
asks; until then the member may still ack it. What is no longer the member's is left as it is, and
the answer says so: then another has the record, or is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strandline.records import Record
from strandline.views.groups.inflight import Lease
from strandline.views.queue.job import Settled


class Held(Protocol):
    """What names a delivery: the delivery, or its seq and token where that is not at hand."""

    @property
    def seq(self) -> int: ...

    @property
    def token(self) -> int: ...


class Work(Protocol):
    """What a member asks of its group."""

    def read(self, member: Member, count: int, wait_s: float) -> list[Delivery]: ...

    def ack(self, member: Member, deliveries: Sequence[Held]) -> Settled: ...

    def nack(self, member: Member, delivery: Held, delay_s: float) -> bool: ...

    def extend(self, member: Member, delivery: Held) -> bool: ...

    def leave(self, member: Member) -> None: ...


class Member:
    """A worker of a group. Get one from ``Group.join``. Safe from many threads."""

    def __init__(self, group: Work, name: str, incarnation: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.has_left = False
        self._group = group

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"Member({self.name!r})"

    def read(self, *, max: int = 1, wait_s: float = 0.0) -> list[Delivery]:
        """Records for this member, at most so many; when there are none, wait so long for one."""
        return self._group.read(self, max, wait_s)

    def ack_many(self, deliveries: Sequence[Delivery]) -> Settled:
        """Be done with these, for the price of one ack; those that are not this member's are
        skipped.
        """
        return self._group.ack(self, deliveries)

    def leave(self) -> None:
        """Go; what this member holds goes to others at once. Leaving twice is fine."""
        self._group.leave(self)


class Delivery:
    """A record in the hands of a member. Safe from many threads."""

    __slots__ = ("_group", "deliveries", "member", "record", "token")

    def __init__(self, group: Work, member: Member, record: Record, lease: Lease) -> None:
        self.record = record
        self.member = member
        self.deliveries = lease.deliveries
        """How often the record was delivered, this time included."""
        self.token = lease.token
        self._group = group

    def __repr__(self) -> str:
        return f"Delivery({self.seq}, number {self.deliveries}, to {self.member.name!r})"

    @property
    def seq(self) -> int:
        return self.record.seq

    @property
    def data(self) -> bytes:
        return self.record.data

    @property
    def key(self) -> bytes | None:
        return self.record.key

    def ack(self) -> bool:
        """Be done with it: it will not be delivered again. False when it is no longer yours."""
        return self._group.ack(self.member, (self,)).done == 1

    def nack(self, delay_s: float = 0.0) -> bool:
        """It was in vain: deliver it again, not before so many seconds. False as above."""
        return self._group.nack(self.member, self, delay_s)

    def extend(self) -> bool:
        """Keep it for a whole lease from now on. False as above."""
        return self._group.extend(self.member, self)
