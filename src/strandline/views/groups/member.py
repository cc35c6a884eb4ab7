"""Members of a group and their deliveries.

A member holds a delivery until its lease expires. After that the record is delivered to the next
member that reads; until then the member may still ack it. An operation on a delivery that the
member no longer holds has no effect and returns False: another member has the record, or it is
done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from strandline.records import Record
from strandline.views.groups.inflight import Lease
from strandline.views.queue.job import AckResult


class DeliveryReference(Protocol):
    """Identifies a delivery: the delivery, or its seq and token, such as in another process."""

    @property
    def seq(self) -> int: ...

    @property
    def token(self) -> int: ...


class _GroupOperations(Protocol):
    """The operations of a group that members use."""

    def read(self, member: Member, count: int, wait_s: float) -> list[Delivery]: ...

    def ack(self, member: Member, deliveries: Sequence[DeliveryReference]) -> AckResult: ...

    def nack(self, member: Member, delivery: DeliveryReference, delay_s: float) -> bool: ...

    def extend(self, member: Member, delivery: DeliveryReference) -> bool: ...

    def leave(self, member: Member) -> None: ...


class Member:
    """A member of a group, from ``Group.join``. Safe to use from many threads."""

    def __init__(self, group: _GroupOperations, name: str, incarnation: int) -> None:
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
        """Records for this member, at most ``max``; waits for the first one at most ``wait_s``."""
        return self._group.read(self, max, wait_s)

    def ack_many(self, deliveries: Sequence[Delivery]) -> AckResult:
        """Ack deliveries with one write; those that this member does not hold are skipped."""
        return self._group.ack(self, deliveries)

    def leave(self) -> None:
        """Leave the group; the records that this member holds are delivered to others. Repeated
        calls have no effect."""
        self._group.leave(self)


class Delivery:
    """A record that was delivered to a member. Safe to use from many threads."""

    __slots__ = ("_group", "deliveries", "member", "record", "token")

    def __init__(
        self, group: _GroupOperations, member: Member, record: Record, lease: Lease
    ) -> None:
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
        """Ack the record: it is not delivered again. False if the member no longer holds it."""
        return self._group.ack(self.member, (self,)).done == 1

    def nack(self, delay_s: float = 0.0) -> bool:
        """Return the record, to be delivered again after ``delay_s`` seconds. False as above."""
        return self._group.nack(self.member, self, delay_s)

    def extend(self) -> bool:
        """Restart the lease. False as above."""
        return self._group.extend(self.member, self)
