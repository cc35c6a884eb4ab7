"""Forwards the records of one router: reads the source, appends to the destination.

A batch is read, filtered and appended; the cursor moves after the destination has acknowledged it.
So after a crash the router begins at a cursor at or before the end of what it has forwarded: with
``at_least_once`` the rest is forwarded again. With ``exactly_once`` a batch is numbered with the
cursor after it, in the same frame as its records: the destination has the position, and the router
continues from there.

Where possible, the log does not store the records again, but a message that refers to them
(``log/state/reference_copies.py``): both topics have durability ``disk`` or ``fsync``, and the
original records are still in the log, in the same shard or synced.

Records that the source lost before they were forwarded become a gap in the destination: reason
``source_trim`` for retention, the source's own reason otherwise. With the gap the destination
stores the seq of the source up to which this router has reported losses, under its producer name:
every loss is reported once. Records that were deleted at the source are left out silently, as for
any reader.

A source whose records cannot be read holds the router: this is detected when the store opens, if an
exactly-once router must find its position, or later. The router tries again in every round.

A full destination (``discard="reject"``) holds the router: it tries again, with smaller batches,
until there is space.
"""

from __future__ import annotations

import threading

import msgspec
from pyroaring import BitMap64

from strandline.config.settings import LimitSettings
from strandline.errors import (
    Invalid,
    MemoryPressure,
    StoreFailed,
    StrandlineError,
    TooLarge,
    TopicFull,
)
from strandline.log.append.append import PendingAppend
from strandline.log.append.batch import Batch, of_many
from strandline.log.checkpoint.checkpoint_store import covered_by
from strandline.log.read.page import Page, PageColumns
from strandline.log.state.reference_copies import COPIES_MAX, CopyOrigin, OriginsChanged
from strandline.log.state.topic_state import TopicState
from strandline.log.topic.gap_marker import report_loss
from strandline.log.topic.topic import Topic
from strandline.log.wal import block
from strandline.log.wal.shard import Shard
from strandline.records import INTERNAL, AppendResult, BatchNumber, Tombstone
from strandline.routers.hop_count import HopCounts
from strandline.routers.router_store import StoredRouter

BATCH_RECORDS = COPIES_MAX
_BATCH_BYTES = 8 << 20
_COPIED_BYTES_MAX = 256 << 20
_RETENTION = ("cap", "ttl", "mixed")


class RouterEnds:
    """The two topics of a router, with their states."""

    def __init__(
        self,
        source: Topic,
        source_state: TopicState,
        dest: Topic,
        dest_state: TopicState,
        dest_shard: Shard,
    ) -> None:
        self.source = source
        self.source_state = source_state
        self.dest = dest
        self.dest_state = dest_state
        self.dest_shard = dest_shard

    def may_refer(self, first_seq: int, last_seq: int) -> bool:
        """Whether the log may refer to these records of the source instead of storing copies."""
        source, dest = self.source_state, self.dest_state
        classes = {source.config.durability, dest.config.durability}
        if not classes <= {"disk", "fsync"} or first_seq < source.near_seq:
            return False
        if self.dest_shard.copied_bytes >= _COPIED_BYTES_MAX:
            return False
        shard = source.home
        if shard is None or shard is self.dest_shard:
            return shard is not None
        return last_seq <= covered_by(source, {shard.number: shard.committer.synced})


class ForwardStep:
    """A batch that waits for its acknowledgement, and the cursor after it."""

    def __init__(
        self, lane: Forwarder, cursor: int, count: int, pending: PendingAppend | None
    ) -> None:
        self._lane = lane
        self._cursor = cursor
        self._count = count
        self._pending = pending

    def finish(self) -> int:
        """Wait for the acknowledgement; return the number of forwarded records."""
        lane = self._lane
        appended = None if self._pending is None else self._pending.wait()
        lane.cursor = self._cursor
        if appended is None:
            return 0
        return lane.note_forwarded(self._count, appended)


class Forwarder:
    """A running router. Guarded by the routers' lock; its numbers may be read without it."""

    def __init__(
        self, stored: StoredRouter, ends: RouterEnds, limits: LimitSettings, kick: threading.Event
    ) -> None:
        self.kept = stored
        self.ends = ends
        self.cursor = stored.cursor
        self.forwarded_total = stored.forwarded_total
        self.held_reason = ""
        """The reason why the router is held, empty when it is not."""
        self._limits = limits
        self._batch_max = BATCH_RECORDS
        self._kick = kick
        self._is_armed = False
        self._is_located = stored.router.guarantee != "exactly_once"

    @property
    def lag(self) -> int:
        return max(0, self.ends.source.head_seq - self.cursor)

    @property
    def newest(self) -> StoredRouter:
        """The router with its current position, to be stored."""
        return msgspec.structs.replace(
            self.kept, cursor=self.cursor, forwarded_total=self.forwarded_total
        )

    def locate(self) -> None:
        """Move after the records that the destination has. An unreadable source holds the router,
        and ``step`` tries again: damage of one topic must not prevent opening the store."""
        try:
            self._skip_forwarded()
        except StoreFailed:
            raise
        except (OSError, StrandlineError) as error:
            self.held_reason = str(error)

    def notify_on_next(self) -> None:
        """Wake the routers' job at the source's next record."""
        if not self._is_armed:
            self._is_armed = True
            self.ends.source.notify_next(self)

    def release(self) -> None:
        """Called by the thread that publishes a record of the source: only sets a flag."""
        self._is_armed = False
        self._kick.set()

    def step(self, hops: HopCounts) -> ForwardStep | None:
        """Append the next batch; None when there is nothing to do, or no space."""
        if not self._is_located:
            self._skip_forwarded()
        while not self.ends.source.is_gone and self.lag:
            try:
                return self._append_next(hops)
            except OriginsChanged:
                continue
            except (TooLarge, TopicFull, MemoryPressure) as error:
                if self._batch_max == 1:
                    self.held_reason = str(error)
                    return None
                self._batch_max //= 2
        return None

    def note_forwarded(self, count: int, appended: AppendResult) -> int:
        self.held_reason = ""
        self._batch_max = min(BATCH_RECORDS, 2 * self._batch_max)
        if appended.deduped:
            return 0
        self.forwarded_total += count
        return count

    def _append_next(self, hops: HopCounts) -> ForwardStep:
        losses = self.ends.source_state.losses
        page = self._read(self.cursor, self._batch_max)
        if page.tombstone is not None:
            self._report(page.tombstone)
        columns = page.columns()
        indices = self._matching(columns)
        router = self.kept.router
        indices = hops.with_hops_left(router.source, columns.seqs, indices)
        if not indices:
            return ForwardStep(self, page.next, 0, None)
        seqs = [columns.seqs[index] for index in indices]
        batch = self._batch(columns, indices, page.next)
        if losses % 2 == 0 and self.ends.may_refer(seqs[0], seqs[-1]):
            batch.origin = self._origin(seqs, losses)
        pending = self.ends.dest.place_batch(batch)
        # Now and not at the end: the next router of this round may read the copies.
        hops.count_copies(router.source, seqs, router.dest, pending.appended.first_seq)
        return ForwardStep(self, page.next, len(indices), pending)

    def _read(self, after: int, limit: int) -> Page:
        size_max = min(_BATCH_BYTES, max(1, self._limits.batch_bytes_max // 2))
        # A job that ended before it was forwarded is forwarded as well.
        return self.ends.source.read_stored(after, limit, size_max=size_max)

    def _matching(self, columns: PageColumns) -> list[int]:
        condition = self.kept.router.filter
        return (
            list(range(len(columns.seqs)))
            if condition is None
            else condition.matching_indices(columns)
        )

    def _origin(self, seqs: list[int], losses: int) -> CopyOrigin:
        router = self.kept.router
        fields = block.KEY | block.META
        fields |= block.TAG if router.preserve_tag else 0
        fields |= block.NODE if router.preserve_node else 0
        originals = BitMap64(seqs)
        originals.run_optimize()
        return CopyOrigin(self.ends.source_state, losses, seqs[0], originals.serialize(), fields)

    def _batch(self, columns: PageColumns, indices: list[int], upto: int) -> Batch:
        router = self.kept.router
        numbered = None
        if router.guarantee == "exactly_once":
            numbered = BatchNumber(self.kept.producer, upto)
        chosen = {
            "key": _select(columns.keys, indices),
            "tag": _select(columns.tags, indices) if router.preserve_tag else None,
            "node": _select(columns.nodes, indices) if router.preserve_node else None,
            "meta": _select(columns.metas, indices),
        }
        data = [columns.data[index] for index in indices]
        return of_many(data, chosen, numbered, self._limits)

    def _report(self, lost: Tombstone) -> None:
        """Append a gap to the destination for a loss of the source that was not reported before."""
        reported = self.ends.dest.last_number(self.kept.producer) or 0
        count = lost.gap_to - max(lost.gap_from - 1, reported)
        if count > 0:
            reason = "source_trim" if lost.reason in _RETENTION else lost.reason
            reporter = BatchNumber(self.kept.producer, lost.gap_to)
            report_loss(self.ends.dest_state, self.ends.dest_shard, count, reason, reporter)

    def _skip_forwarded(self) -> None:
        """Move after the records that the destination has, and count them."""
        if self._is_located:
            return
        target = self.ends.dest.last_number(self.kept.producer) or 0
        while self.cursor < target and self.lag:
            page = self._read(self.cursor, min(BATCH_RECORDS, target - self.cursor))
            upto = min(page.next, target)
            columns = page.columns()
            matching = [index for index in self._matching(columns) if columns.seqs[index] <= upto]
            self.forwarded_total += len(matching)
            self.cursor = upto
        self.cursor = max(self.cursor, target)
        self._is_located = True
        self.held_reason = ""


def _select(
    values: list[object] | list[bytes | None] | list[str | None], indices: list[int]
) -> object:
    """These values of a column; None when all are missing."""
    chosen = [values[index] for index in indices]
    return chosen if any(value is not None for value in chosen) else None


def check_dest(name: str) -> None:
    """Raise Invalid for a destination that belongs to the store itself."""
    if name.startswith(INTERNAL):
        raise Invalid(f"topic {name!r} is reserved for the store: choose another destination")
