"""Values of a queue: jobs, tickets, results of operations, statistics.

A lease is one number for its holder: the lowest 64 bits are the number of the lease in the fold,
the bits above identify the epoch of the queue's topics. In a queue that was deleted and created
again, seqs and lease numbers restart; with the epoch, a ticket of the earlier queue never matches a
lease of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.views.queue.codec import foreign_meta

NO_LEASE = -1
_FOLD_BITS = 64
_TOPIC_BITS = 32


class LeaseReference(Protocol):
    """Identifies a claimed job: a job, or a ticket."""

    @property
    def seq(self) -> int: ...

    @property
    def lease(self) -> int: ...


class LeaseTicket(NamedTuple):
    """Identifies a claimed job without the job itself, such as in another process."""

    seq: int
    lease: int


def lease_epoch_of(leases: Topic) -> int:
    """The epoch of a topic of leases, as the upper bits of all its leases."""
    topic_id, began_us = leases.identity
    return (began_us << _TOPIC_BITS | topic_id) << _FOLD_BITS


def number_in_epoch(lease: int, epoch: int) -> int:
    """The number of a lease in the fold; a number that no lease has if the epoch differs."""
    return lease - epoch if lease >> _FOLD_BITS == epoch >> _FOLD_BITS else NO_LEASE


class PutResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a put. ``existed``: ``seq`` is an earlier job with the same unique key."""

    seq: int
    existed: bool = False


class AckResult(msgspec.Struct, frozen=True):
    """The result of an operation on claimed jobs."""

    done: int
    """How many jobs it was applied to."""
    skipped: tuple[int, ...] = ()
    """Seqs of jobs that are no longer under the given lease."""


class _JobOperations(Protocol):
    """The operations of the holder of a lease."""

    def ack(self, held: Sequence[LeaseReference]) -> AckResult: ...

    def nack(self, held: Sequence[LeaseReference], delay: float) -> AckResult: ...

    def extend(self, held: Sequence[LeaseReference], lease: float | None) -> AckResult: ...


class Job:
    """A claimed job. It belongs to its worker until the lease expires, or an ack or nack."""

    __slots__ = (
        "_acks",
        "data",
        "deadline",
        "deliveries",
        "key",
        "lease",
        "meta",
        "seq",
        "tag",
        "ts",
    )

    def __init__(
        self,
        acks: _JobOperations,
        record: Record,
        lease: int,
        deliveries: int,
        deadline: int,
    ) -> None:
        self._acks = acks
        self.seq = record.seq
        self.lease = lease
        """Never used twice, not even by a later queue with this name."""
        self.deliveries = deliveries
        """How often it was delivered, this time included."""
        self.deadline = deadline
        """When the claimed lease expires: microseconds, by the clock at the claim. The lease is
        measured by elapsed time: setting the clock has no effect on it."""
        self.ts = record.ts
        self.data = record.data
        self.key = record.key
        self.tag = record.tag
        self.meta = foreign_meta(record.meta)
        """The meta of a plain append."""

    def __repr__(self) -> str:
        return f"Job(seq={self.seq}, lease={self.lease}, deliveries={self.deliveries})"

    def ack(self) -> bool:
        """End the job, which is done. False if it is no longer under this lease."""
        return self._acks.ack((self,)).done == 1

    def nack(self, delay: float = 0.0) -> bool:
        """Return it, to be claimed again after ``delay`` seconds. False as in ``ack``."""
        return self._acks.nack((self,), delay).done == 1

    def extend(self, lease: float | None = None) -> bool:
        """Extend the lease to ``lease`` seconds from now. False as in ``ack``."""
        return self._acks.extend((self,), lease).done == 1


class PeekedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A waiting job, as ``peek`` returns it."""

    seq: int
    ts: int
    data: bytes
    key: bytes | None
    tag: str | None
    priority: int
    deliveries: int


class QueueStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The current numbers of jobs of a queue."""

    ready: int
    """Jobs that may be claimed now."""
    delayed: int
    """Jobs that wait for their time."""
    blocked: int
    """Jobs that wait for an older job of their group."""
    in_flight: int
    """Jobs that a worker holds."""
    dying: int
    """Jobs that are being moved to the dead letters."""
    dead: int
    """Dead letters."""
    paused: bool

    @property
    def waiting(self) -> int:
        """Jobs that are not in flight."""
        return self.ready + self.delayed + self.blocked
