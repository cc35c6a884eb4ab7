"""Where a group stands in its topic: where it may begin, what it is behind, its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from pyroaring import BitMap64

from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.log.topic.validation import check_whole
from strandline.records import Tombstone
from strandline.views.groups.group_state import Desk
from strandline.views.groups.inflight import Lease
from strandline.views.groups.offsets import Offsets

Edge = Literal["earliest", "latest"]


class PendingDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a member holds."""

    seq: int
    member: str
    deliveries: int
    held_s: float
    """How long it has had it."""
    left_s: float
    """How long it will have it."""

    @staticmethod
    def of(lease: Lease, now: float) -> PendingDelivery:
        return PendingDelivery(
            seq=lease.taken.seq,
            member=lease.member,
            deliveries=lease.deliveries,
            held_s=now - lease.since,
            left_s=lease.until - now,
        )


class GroupStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment. What happened is counted since it was opened, but for the last two."""

    topic: str
    name: str
    mode: str
    members: tuple[str, ...]
    """Those who are there, in the order of joining."""
    floor: int
    """Every record up to this seq is done or gone."""
    lag: int
    """Records that are neither done nor gone."""
    pending: int
    """Those of them that members hold."""
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    expired: int
    dead: int
    lost: int
    """Seqs that were lost from the topic before the group was done with them."""
    deleted: int
    """Seqs that were deleted from the topic before."""


def floor_of(topic: Topic, to: int | Edge | None, ts: int | None) -> int:
    """The seq up to which a group is done that goes on there."""
    if (to is None) == (ts is None):
        raise Invalid('say where to go on: a seq, "earliest", "latest", or ts=MICROSECONDS')
    if ts is not None:
        return topic.cursor_at(ts)
    if to == "earliest":
        return topic.estimate().earliest_seq - 1
    head = topic.head_seq
    if to == "latest":
        return head
    check_whole(seq=to)
    assert isinstance(to, int)
    if not 1 <= to <= head + 1:
        raise Invalid(f"seq {to} is not in the topic: go on with 1 to {head + 1}")
    return to - 1


def lag_of(topic: Topic, offsets: Offsets) -> int:
    """How many live records of the topic are not done."""
    now = topic.snapshot()
    first, following = max(offsets.floor + 1, now.floor), now.head_seq + 1
    if first >= following:
        return 0
    away = offsets.done | now.hidden()
    for gap_first, gap_last, _ in now.gaps:
        away |= BitMap64(range(max(first, gap_first), gap_last + 1))
    return following - first - int(away.range_cardinality(first, following))


def gaps_at(topic: Topic, seqs: Sequence[int]) -> dict[int, Tombstone]:
    """Of records that are gone, those that were not deleted on request, each with its gap."""
    now = topic.snapshot()
    found: dict[int, Tombstone] = {}
    for seq in seqs:
        for lost in now.lost_between(seq, seq):
            found[seq] = lost
    return found


def statistics_of(topic: str, name: str, desk: Desk, offsets: Offsets, lag: int) -> GroupStatistics:
    """The numbers of a group; the desk's lock is held."""
    counts = desk.counts
    return GroupStatistics(
        topic=topic,
        name=name,
        mode=desk.options.mode,
        members=tuple(desk.members.names),
        floor=offsets.floor,
        lag=lag,
        pending=len(desk.inflight),
        delivered=counts.delivered,
        redelivered=counts.redelivered,
        acked=counts.acked,
        nacked=counts.nacked,
        expired=counts.expired,
        dead=counts.dead,
        lost=offsets.lost,
        deleted=offsets.deleted,
    )
