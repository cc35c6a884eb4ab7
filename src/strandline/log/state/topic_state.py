"""The state of one topic in memory: floors, counts, and the locations of its records.

Records live in up to four places, oldest first:

    cold    files of the lake (``lake/cold_index.py``)
    runs    blocks in segments, one ``Run`` per segment with records of the topic
    tail    frames in the WAL, one entry per frame (a batch is one entry)
    memory  records that are not in any file: unflushed ``memory`` ones, all ``ephemeral`` ones

A seq is in exactly one of them, except while a job moves records to an older place; then it is in
both for a moment. The lake may also have copies of runs on purpose (``lake.copy_hot``), which are
read when the local file fails. Readers take no lock: they search ``memory`` first, then ``tail``,
``runs`` and ``cold``, and the job fills the older place before it empties the newer one. Everything
else changes only under the lock of the shard's writer.

    1 <= evict_floor, delete_floor <= head_seq + 1 = next published seq <= next_seq (assigned)

``evict_floor`` rises with involuntary loss (caps, ttl, lost tails), ``delete_floor`` with deletes
on request; records below either are gone. Neither ever falls.
"""

from __future__ import annotations

import bisect
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from pyroaring import BitMap64

from strandline.config.settings import LimitSettings, TopicConfig
from strandline.errors import Corrupt
from strandline.lake.cold_index import ColdIndex
from strandline.lake.lake import Lake
from strandline.log.segments.codec import SegmentIndex
from strandline.log.segments.reader import Segment
from strandline.log.state import producer_seq
from strandline.log.state.idempotency_index import IdempotencyIndex
from strandline.log.state.job_rules import JobRules, WaitingJobs
from strandline.log.state.memory_tail import MemoryTail
from strandline.log.state.tag_index import TagIndex, TagIndexes
from strandline.log.wal.shard import Shard
from strandline.log.wal.spin_lock import SpinLock

FIRST_CEILING = 256
"""Seqs that a new topic may assign before it must have reserved more durably."""


class WaitHandle(Protocol):
    """A waiter's object, which the next publication releases once.

    That happens under the writer's lock, so ``release`` must only note the call.
    """

    def release(self) -> None: ...


class TailIndex:
    """The locations of a topic's records in the WAL: one entry per frame."""

    __slots__ = ("first_seq", "firsts", "locations")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.firsts = array("Q")
        self.locations = array("Q")

    def append(self, first_seq: int, location: int) -> None:
        """Add an entry. The location is added last: readers use the length of its array."""
        self.firsts.append(first_seq)
        self.locations.append(location)

    def find(self, seq: int) -> int:
        """The place of the entry with a seq."""
        return bisect.bisect_right(self.firsts, seq, 0, len(self.locations)) - 1

    def from_seq(self, seq: int) -> TailIndex:
        """The part from a seq on, which must begin an entry."""
        place = bisect.bisect_left(self.firsts, seq)
        rest = TailIndex(seq)
        rest.firsts = self.firsts[place:]
        rest.locations = self.locations[place:]
        return rest


class SegmentRun:
    """The blocks of one topic in one segment: places of its index up to the next (-1: the end).

    A run is held when the index could not be read at opening: its records are in this segment, or
    in another that is held, and reading them raises ``held``.
    """

    __slots__ = ("first_seq", "held", "last_seq", "next_place", "payload_size", "place", "segment")

    def __init__(
        self,
        segment: Segment,
        first_seq: int,
        last_seq: int,
        payload_size: int,
        place: int,
        next_place: int,
        held: Corrupt | None = None,
    ) -> None:
        self.segment = segment
        self.held = held
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.payload_size = payload_size
        self.place = place
        self.next_place = next_place

    def index(self) -> SegmentIndex:
        """The index of the segment, which has blocks of other topics, too."""
        held = self.held
        if held is not None:
            raise Corrupt(
                held.reason,
                path=held.path,
                offset=held.offset,
                topic_id=held.topic_id,
                first_seq=self.first_seq,
                last_seq=self.last_seq,
            )
        return self.segment.index()

    def find(self, seq: int) -> int:
        """The place of the block with a seq, or of the next block after a gap."""
        index = self.index()
        following = len(index) if self.next_place < 0 else self.next_place
        firsts = index.first_seq[self.place : following]
        position = int(np.searchsorted(firsts, np.uint64(seq), side="right")) - 1
        place = self.place + max(position, 0)
        if seq >= int(index.first_seq[place]) + int(index.count[place]):
            place += 1
        return place


class Gap:
    """Seqs that were lost in the middle of a topic."""

    __slots__ = ("first_seq", "last_seq", "reason")

    def __init__(self, first_seq: int, last_seq: int, reason: str) -> None:
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.reason = reason


class TopicState:
    """One topic in memory. Changed under its writer's lock; read without."""

    __slots__ = (
        "ceiling",
        "ceiling_at",
        "ceiling_requested",
        "ceiling_step",
        "cold",
        "config",
        "copies",
        "covered_payload",
        "created_us",
        "delete_floor",
        "deleted",
        "dropped",
        "ended",
        "epoch",
        "evict_floor",
        "evict_logged",
        "evict_reason",
        "fast_until",
        "gaps",
        "gone_payload",
        "guard",
        "head_seq",
        "home",
        "id",
        "idempotency",
        "jobs",
        "lake",
        "last_ts",
        "limits",
        "losses",
        "memory",
        "name",
        "next_seq",
        "payload",
        "pending_payload",
        "producers",
        "runs",
        "shard",
        "tag_indexes",
        "tags",
        "tail",
        "torn",
        "unsized",
        "unsized_payload",
        "waiters",
        "waiting",
    )

    def __init__(self, topic_id: int, name: str, config: TopicConfig, epoch: int) -> None:
        self.id = topic_id
        self.name = name
        self.config = config
        self.epoch = epoch
        self.shard = 0
        self.created_us = epoch
        self.next_seq = 1
        self.head_seq = 0
        self.last_ts = 0
        self.evict_floor = 1
        self.evict_reason = ""
        self.evict_logged = 1
        self.delete_floor = 1
        self.deleted: BitMap64 | None = None
        self.ended: BitMap64 | None = None
        """Seqs of jobs that have ended, and that the log has until the views are saved. Owned by
        the queue, which adds to it at any time; None while the queue is not in use."""
        self.gaps: tuple[Gap, ...] = ()
        self.payload = 0
        self.pending_payload = 0
        self.covered_payload = 0
        self.gone_payload = 0
        self.unsized: BitMap64 | None = None
        """Deleted records in segments that ``gone_payload`` includes with the average size of their
        block: the exact size is read later (``log/state/deleted_payload.py``)."""
        self.unsized_payload = 0
        """The bytes that ``gone_payload`` includes for them."""
        self.ceiling = self.ceiling_requested = FIRST_CEILING
        self.ceiling_step = FIRST_CEILING
        self.ceiling_at = 0
        self.fast_until = 0
        self.cold: ColdIndex | None = None
        self.lake: Lake | None = None
        self.runs: tuple[SegmentRun, ...] = ()
        self.tail = TailIndex(1)
        self.memory: MemoryTail | None = None
        self.tags: TagIndex | None = None
        """Exists since the last delete by tag, unless memory was short."""
        self.tag_indexes: TagIndexes | None = None
        self.idempotency: IdempotencyIndex | None = None
        self.limits = LimitSettings()
        self.producers: dict[bytes, producer_seq.ProducerEntry] | None = None
        self.waiters: deque[WaitHandle] = deque()
        self.jobs: JobRules | None = None
        """The topic's queue, while it is in use."""
        self.waiting: WaitingJobs | None = None
        """The waiting jobs of a queue with a cap that rejects; None when the cap counts records."""
        self.copies: tuple[TopicState, ...] = ()
        """Topics whose newest records may refer to records of this one."""
        self.losses = 0
        """Incremented at the start and at the end of each removal of records: odd in between."""
        self.home: Shard | None = None
        """The topic's shard, once the store is open for writing."""
        self.dropped = False
        self.torn = False
        """Whether the log and this state differ for a moment: an interrupt now fails the shard."""
        self.guard = SpinLock()
        """The lock of the topic's writer, once it has one: floors and counts change together."""

    @property
    def floor(self) -> int:
        """The first seq that is not gone for good."""
        return max(self.evict_floor, self.delete_floor)

    @property
    def hot_seq(self) -> int:
        """The first seq whose local copy was not released; records below are counted by files."""
        return 1 if self.cold is None else self.cold.released + 1

    @property
    def local_next(self) -> int:
        """The first seq that has to be in a local file: neither gone nor released."""
        return max(self.floor, self.hot_seq)

    @property
    def cold_next(self) -> int:
        """The first seq that is neither below the floor nor in the lake."""
        return self.floor if self.cold is None else max(self.floor, self.cold.last_seq + 1)

    @property
    def near_seq(self) -> int:
        """The first seq that is only in the log or in memory, where reads are fast."""
        memory = self.memory
        if memory is not None and memory.pieces and not self.tail.locations:
            return memory.first_seq
        return self.tail.first_seq

    @property
    def live_payload(self) -> int:
        return self.payload - self.gone_payload

    @property
    def live_count(self) -> int:
        """The number of records that a read from the beginning returns."""
        floor = self.floor
        count = self.head_seq - floor + 1
        if self.deleted:
            count -= self.deleted.range_cardinality(floor, self.head_seq + 1)
        for gap in self.gaps:
            if gap.last_seq >= floor:
                count -= gap.last_seq - max(gap.first_seq, floor) + 1
        return count - self._ended_count(floor)

    @property
    def hidden(self) -> BitMap64 | None:
        """Seqs that are deleted, or jobs that have ended; None when there are none."""
        ended = self.ended
        if not ended or not self.config.views.is_queue_alone:
            return self.deleted
        return ended if self.deleted is None else self.deleted | ended

    def _ended_count(self, floor: int) -> int:
        """Ended jobs among the records from a floor on that are not deleted."""
        ended = self.ended
        if not ended or not self.config.views.is_queue_alone:
            return 0
        present = ended if self.deleted is None else ended - self.deleted
        count: int = present.range_cardinality(floor, self.head_seq + 1)
        for gap in self.gaps:
            count -= present.range_cardinality(max(gap.first_seq, floor), gap.last_seq + 1)
        return count

    @property
    def earliest_seq(self) -> int:
        """The first live seq, one above the head when there is none."""
        seq = self.floor
        deleted = self.hidden
        while seq <= self.head_seq:
            gap = self.gap_at(seq)
            if gap is not None:
                seq = gap.last_seq + 1
            elif deleted and seq in deleted:
                seq = _first_absent(deleted, seq)
            else:
                break
        return min(seq, self.head_seq + 1)

    def gap_at(self, seq: int) -> Gap | None:
        for gap in self.gaps:
            if gap.first_seq <= seq <= gap.last_seq:
                return gap
        return None

    def next_gap_seq(self, seq: int) -> int:
        """The first seq of the next gap at or after a seq; a huge number when there is none."""
        firsts = [gap.first_seq for gap in self.gaps if gap.first_seq >= seq]
        return min(firsts, default=1 << 62)

    def add_entry(self, first_seq: int, count: int, location: int, payload: int, ts: int) -> None:
        """Publish records that are in the WAL."""
        self.tail.append(first_seq, location)
        self.payload += payload
        self.last_ts = ts
        self.head_seq = first_seq + count - 1

    def add_gap(self, first_seq: int, last_seq: int, reason: str) -> None:
        """Skip seqs that are lost; the next record follows them."""
        self.gaps = (*self.gaps, Gap(first_seq, last_seq, reason))
        self.skip_to(last_seq + 1)

    def extend_gap(self, last_seq: int, reason: str) -> bool:
        """Extend a gap at the head to a later seq; False when there is none with this reason."""
        known = self.gap_at(self.head_seq)
        if known is None or known.reason != reason:
            return False
        longer = Gap(known.first_seq, last_seq, reason)
        self.gaps = tuple(longer if gap is known else gap for gap in self.gaps)
        self.skip_to(last_seq + 1)
        return True

    def skip_to(self, seq: int) -> None:
        """Continue at a seq; everything before it is below the floor or in a gap."""
        # Copies may be in between: in memory, or pending while the log is replayed.
        is_all_in_files = self.tail.first_seq > self.head_seq
        self.next_seq = max(self.next_seq, seq)  # it is higher where a gap is published late
        self.head_seq = seq - 1
        if not self.tail.locations and is_all_in_files:
            self.tail = TailIndex(seq)

    def wake(self) -> None:
        """Wake every waiting reader."""
        release_all(self.waiters)

    def remember(self, key: bytes, first_seq: int, last_seq: int, ts: int, now_us: int) -> int:
        """Store a producer's number, or an idempotency key as of an elapsed time.

        Returns how many older keys were evicted for it.
        """
        mark = producer_seq.decode(key)
        if mark is not None:
            if self.producers is None:
                self.producers = {}
            producer_seq.remember(self.producers, mark[0], (mark[1], first_seq, last_seq, ts))
            return 0
        if self.idempotency is None:
            self.idempotency = IdempotencyIndex()
        until = now_us + self.config.idempotency_window_ms * 1000
        return self.idempotency.remember(key, (first_seq, last_seq, until), self.limits)

    def forget_expired_keys(self, now_us: int) -> None:
        """Remove the idempotency keys whose windows have ended. Writer's lock held."""
        if self.idempotency is not None:
            self.idempotency.forget_expired(now_us)
            if not self.idempotency:
                self.idempotency = None


def release_all(waiters: deque[WaitHandle]) -> None:
    """Release all current waiters; gates that are added meanwhile wait for the next call."""
    for _ in range(len(waiters)):
        try:
            gate = waiters.popleft()
        except IndexError:  # a waiter timed out meanwhile and removed its gate
            return
        gate.release()


def spans(state: TopicState, first_seq: int) -> Iterator[tuple[int, int]]:
    """Ranges of seqs between gaps, from a seq to the head."""
    seq = first_seq
    while seq <= state.head_seq:
        gap = state.gap_at(seq)
        if gap is not None:
            seq = gap.last_seq + 1
            continue
        last = min(state.head_seq, state.next_gap_seq(seq) - 1)
        yield seq, last
        seq = last + 1


def _first_absent(deleted: BitMap64, seq: int) -> int:
    """The first seq at or after ``seq`` that is not deleted."""
    step = 64
    while deleted.range_cardinality(seq, seq + step) == step:
        seq += step
        step *= 2
    while step > 1:
        step //= 2
        if deleted.range_cardinality(seq, seq + step) == step:
            seq += step
    return seq
