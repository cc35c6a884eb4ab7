"""What users of a queue get and give: jobs, what was done with them, numbers.

A lease is one number to its holder: which life of the queue's topics it is of, above the lowest 64
bits, and there the lease as the fold knows it. Seqs begin anew in a queue that is deleted and made
again, and so do those; a ticket of the one before is never a ticket of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from strandline.log.topic.topic import Topic
from strandline.records import Record
from strandline.views.queue.codec import foreign

NOBODYS = -1
_FOLD_BITS = 64
_TOPIC_BITS = 32


class Held(Protocol):
    """What names a claimed job: a job, or a ticket."""

    @property
    def seq(self) -> int: ...

    @property
    def lease(self) -> int: ...


class Ticket(NamedTuple):
    """Names a claimed job where the job itself is not at hand, as in another process."""

    seq: int
    lease: int


def life_of(leases: Topic) -> int:
    """What is above the lowest bits of all leases that are told in this topic."""
    topic_id, began_us = leases.identity
    return (began_us << _TOPIC_BITS | topic_id) << _FOLD_BITS


def of_this_life(lease: int, life: int) -> int:
    """The lease as the fold knows it; of another life, one that nobody ever has."""
    return lease - life if lease >> _FOLD_BITS == life >> _FOLD_BITS else NOBODYS


class Put(msgspec.Struct, frozen=True, gc=False):
    """Where a job is. ``existed`` says that another with the same unique key is there already."""

    seq: int
    existed: bool = False


class Settled(msgspec.Struct, frozen=True):
    """What was done with claimed jobs."""

    done: int
    """How many."""
    skipped: tuple[int, ...] = ()
    """Seqs of those that are no longer under the lease they were named with."""


class Settles(Protocol):
    """What the holder of a lease may do."""

    def ack(self, held: Sequence[Held]) -> Settled: ...

    def nack(self, held: Sequence[Held], delay: float) -> Settled: ...

    def extend(self, held: Sequence[Held], lease: float | None) -> Settled: ...


class Job:
    """A claimed job: yours until its lease runs out, or you say what became of it."""

    __slots__ = (
        "_settles",
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
        settles: Settles,
        record: Record,
        lease: int,
        deliveries: int,
        deadline: int,
    ) -> None:
        self._settles = settles
        self.seq = record.seq
        self.lease = lease
        """Never given twice, nor by another queue that has this name later."""
        self.deliveries = deliveries
        """How often it was given out, this time included."""
        self.deadline = deadline
        """When the lease as claimed runs out: microseconds, by the clock at the claim. What counts
        is the time that passes: setting the clock changes nothing."""
        self.ts = record.ts
        self.data = record.data
        self.key = record.key
        self.tag = record.tag
        self.meta = foreign(record.meta)
        """What was appended with it as a plain record."""

    def __repr__(self) -> str:
        return f"Job(seq={self.seq}, lease={self.lease}, deliveries={self.deliveries})"

    def ack(self) -> bool:
        """It is done; False when it is no longer yours."""
        return self._settles.ack((self,)).done == 1

    def nack(self, delay: float = 0.0) -> bool:
        """Give it back, to be claimed again in so many seconds; False when it is not yours."""
        return self._settles.nack((self,), delay).done == 1

    def extend(self, lease: float | None = None) -> bool:
        """Keep it for so many seconds from now; False when it is no longer yours."""
        return self._settles.extend((self,), lease).done == 1


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that waits, as ``peek`` shows it."""

    seq: int
    ts: int
    data: bytes
    key: bytes | None
    tag: str | None
    priority: int
    deliveries: int


class QueueStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a queue has at this moment."""

    ready: int
    """May be claimed now."""
    delayed: int
    """Wait for their time."""
    blocked: int
    """Wait for an older job of their group."""
    in_flight: int
    """Are with a worker."""
    dying: int
    """Are on their way to the dead letters."""
    dead: int
    """Dead letters."""
    paused: bool

    @property
    def waiting(self) -> int:
        """All that nobody is working on."""
        return self.ready + self.delayed + self.blocked
