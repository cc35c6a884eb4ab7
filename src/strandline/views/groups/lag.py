"""The position of a group in its topic: start positions, lag, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from pyroaring import BitMap64

from strandline.errors import Invalid
from strandline.log.topic.topic import Topic
from strandline.log.topic.validation import check_whole
from strandline.records import Tombstone
from strandline.views.groups.group_state import DeliveryState
from strandline.views.groups.inflight import Lease
from strandline.views.groups.offsets import Offsets

Edge = Literal["earliest", "latest"]


class PendingDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a member holds."""

    seq: int
    member: str
    deliveries: int
    held_s: float
    """Seconds since its delivery."""
    left_s: float
    """Seconds until its lease expires."""

    @staticmethod
    def of(lease: Lease, now: float) -> PendingDelivery:
        return PendingDelivery(
            seq=lease.record.seq,
            member=lease.member,
            deliveries=lease.deliveries,
            held_s=now - lease.since,
            left_s=lease.until - now,
        )


class GroupStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The current numbers of a group. Counters start at its opening, except the last two."""

    topic: str
    name: str
    mode: str
    members: tuple[str, ...]
    """The current members, in the order in which they joined."""
    floor: int
    """Every record up to this seq is done or gone."""
    lag: int
    """Records that are neither done nor gone."""
    pending: int
    """Those that members hold."""
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    expired: int
    dead: int
    lost: int
    """Seqs that were lost from the topic before the group was done with them."""
    deleted: int
    """Seqs that were deleted from the topic before that."""


def floor_of(topic: Topic, to: int | Edge | None, ts: int | None) -> int:
    """The floor of a group that continues from a position."""
    if (to is None) == (ts is None):
        raise Invalid('give one position: a seq, "earliest", "latest", or ts=MICROSECONDS')
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
        raise Invalid(f"seq {to} is not in the topic: give a seq from 1 to {head + 1}")
    return to - 1


def lag_of(topic: Topic, offsets: Offsets) -> int:
    """The number of live records of the topic that are not done."""
    now = topic.snapshot()
    first, following = max(offsets.floor + 1, now.floor), now.head_seq + 1
    if first >= following:
        return 0
    excluded = offsets.done | now.hidden()
    for gap_first, gap_last, _ in now.gaps:
        excluded |= BitMap64(range(max(first, gap_first), gap_last + 1))
    return following - first - int(excluded.range_cardinality(first, following))


def gaps_at(topic: Topic, seqs: Sequence[int]) -> dict[int, Tombstone]:
    """The gaps of those seqs that were lost, not deleted on request."""
    now = topic.snapshot()
    gaps: dict[int, Tombstone] = {}
    for seq in seqs:
        for gap in now.lost_between(seq, seq):
            gaps[seq] = gap
    return gaps


def statistics_of(
    topic: str, name: str, state: DeliveryState, offsets: Offsets, lag: int
) -> GroupStatistics:
    """The numbers of a group. The lock of the state is held."""
    counts = state.counts
    return GroupStatistics(
        topic=topic,
        name=name,
        mode=state.options.mode,
        members=tuple(state.members.names),
        floor=offsets.floor,
        lag=lag,
        pending=len(state.inflight),
        delivered=counts.delivered,
        redelivered=counts.redelivered,
        acked=counts.acked,
        nacked=counts.nacked,
        expired=counts.expired,
        dead=counts.dead,
        lost=offsets.lost,
        deleted=offsets.deleted,
    )
