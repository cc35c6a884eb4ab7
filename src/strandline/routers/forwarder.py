"""One router at work: reads on in its source, places what passes in its destination.

A batch is read, filtered and placed; the cursor moves once the destination has acknowledged it. So
after a crash the router begins at a cursor that lies at or before the end of what it has forwarded:
with ``at_least_once`` the rest comes again. With ``exactly_once`` a batch is numbered with the
cursor behind it, in the same frame as its records: the destination itself knows how far it is, and
the router goes on from there.

The log does not get the records again, but a message that refers to them, wherever that is possible
(``log/state/reference_copies.py``): both topics are of class ``disk`` or ``fsync``, and the
records are still on the log themselves, in the same shard or synced.

Records that the source lost before they were forwarded become a gap in the destination: reason
``source_trim`` for what retention took, the source's own reason for everything else. With the gap
the destination stores up to which seq of the source this router has reported losses, under the name
that numbers its batches: every loss is reported once. Records that were deleted at the source
before are left out silently, as for any reader.

A source whose records cannot be read holds the router: that is found when the store opens, if an
exactly-once router has to find its place, or later. The router tries again in every round.

A destination that is full (``discard="reject"``) holds the router: it tries again, with fewer
records at a time, until there is room.
"""

from __future__ import annotations

import threading

import msgspec
from pyroaring import BitMap64

from strandline.config.settings import LimitSettings
from strandline.errors import (
    Invalid,
    MemoryPressure,
    Poisoned,
    StrandlineError,
    TooLarge,
    TopicFull,
)
from strandline.log.append.append import Pending
from strandline.log.append.batch import Batch, of_many
from strandline.log.checkpoint.checkpoint_store import covered_by
from strandline.log.read.page import Columns, Page
from strandline.log.state.reference_copies import COPIES_MAX, Origin, Outdated
from strandline.log.state.topic_state import TopicState
from strandline.log.topic.gap_marker import report_loss
from strandline.log.topic.topic import Topic
from strandline.log.wal import block
from strandline.log.wal.shard import Shard
from strandline.records import INTERNAL, Appended, Numbered, Tombstone
from strandline.routers.hop_count import Hops
from strandline.routers.router_store import Kept

BATCH_RECORDS = COPIES_MAX
_BATCH_BYTES = 8 << 20
_COPIED_BYTES_MAX = 256 << 20
_RETENTION = ("cap", "ttl", "mixed")


class Ends:
    """The two topics of a router, as it needs them."""

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
        """Whether the log may refer to these records of the source instead of having them again."""
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


class Step:
    """A batch on its way: what is true once it is acknowledged."""

    def __init__(self, lane: Lane, cursor: int, count: int, pending: Pending | None) -> None:
        self._lane = lane
        self._cursor = cursor
        self._count = count
        self._pending = pending

    def finish(self) -> int:
        """Wait for the acknowledgement; how many records were forwarded."""
        lane = self._lane
        appended = None if self._pending is None else self._pending.wait()
        lane.cursor = self._cursor
        if appended is None:
            return 0
        return lane.note_forwarded(self._count, appended)


class Lane:
    """A router with its topics. Owned by the routers' lock; its numbers may be read by anyone."""

    def __init__(
        self, kept: Kept, ends: Ends, limits: LimitSettings, kick: threading.Event
    ) -> None:
        self.kept = kept
        self.ends = ends
        self.cursor = kept.cursor
        self.forwarded_total = kept.forwarded_total
        self.held = ""
        """Why it cannot go on for now; empty when it can."""
        self._limits = limits
        self._batch_max = BATCH_RECORDS
        self._kick = kick
        self._armed = False
        self._is_located = kept.router.guarantee != "exactly_once"

    @property
    def lag(self) -> int:
        return max(0, self.ends.source.head_seq - self.cursor)

    @property
    def newest(self) -> Kept:
        """What should be stored of it now."""
        return msgspec.structs.replace(
            self.kept, cursor=self.cursor, forwarded_total=self.forwarded_total
        )

    def locate(self) -> None:
        """Move after what the destination has. A source that cannot be read holds the router, and
        ``step`` tries again: the damage of one topic must not keep the store from opening."""
        try:
            self._go_on_behind_taken()
        except Poisoned:
            raise
        except (OSError, StrandlineError) as error:
            self.held = str(error)

    def arm(self) -> None:
        """Have the routers' job woken by the source's next record."""
        if not self._armed:
            self._armed = True
            self.ends.source.tap(self)

    def release(self) -> None:
        """The source has news: called by whoever publishes, so it only notes that."""
        self._armed = False
        self._kick.set()

    def step(self, hops: Hops) -> Step | None:
        """Place the next batch; None when there is nothing to do, or no room."""
        if not self._is_located:
            self._go_on_behind_taken()
        while not self.ends.source.is_gone and self.lag:
            try:
                return self._place(hops)
            except Outdated:
                continue
            except (TooLarge, TopicFull, MemoryPressure) as error:
                if self._batch_max == 1:
                    self.held = str(error)
                    return None
                self._batch_max //= 2
        return None

    def note_forwarded(self, count: int, appended: Appended) -> int:
        self.held = ""
        self._batch_max = min(BATCH_RECORDS, 2 * self._batch_max)
        if appended.deduped:
            return 0
        self.forwarded_total += count
        return count

    def _place(self, hops: Hops) -> Step:
        losses = self.ends.source_state.losses
        page = self._read(self.cursor, self._batch_max)
        if page.tombstone is not None:
            self._report(page.tombstone)
        columns = page.columns()
        places = self._wanted(columns)
        router = self.kept.router
        places = hops.may_go_on(router.source, columns.seqs, places)
        if not places:
            return Step(self, page.next, 0, None)
        seqs = [columns.seqs[place] for place in places]
        batch = self._batch(columns, places, page.next)
        if losses % 2 == 0 and self.ends.may_refer(seqs[0], seqs[-1]):
            batch.origin = self._origin(seqs, losses)
        pending = self.ends.dest.place_batch(batch)
        # At once: the next router of this round may find the copies already.
        hops.note(router.source, seqs, router.dest, pending.appended.first_seq)
        return Step(self, page.next, len(places), pending)

    def _read(self, after: int, limit: int) -> Page:
        size_max = min(_BATCH_BYTES, max(1, self._limits.batch_bytes_max // 2))
        # A job that is done before it was forwarded is forwarded all the same.
        return self.ends.source.read_stored(after, limit, size_max=size_max)

    def _wanted(self, columns: Columns) -> list[int]:
        condition = self.kept.router.filter
        return list(range(len(columns.seqs))) if condition is None else condition.places(columns)

    def _origin(self, seqs: list[int], losses: int) -> Origin:
        router = self.kept.router
        kept = block.KEY | block.META
        kept |= block.TAG if router.preserve_tag else 0
        kept |= block.NODE if router.preserve_node else 0
        originals = BitMap64(seqs)
        originals.run_optimize()
        return Origin(self.ends.source_state, losses, seqs[0], originals.serialize(), kept)

    def _batch(self, columns: Columns, places: list[int], upto: int) -> Batch:
        router = self.kept.router
        numbered = None
        if router.guarantee == "exactly_once":
            numbered = Numbered(self.kept.producer, upto)
        chosen = {
            "key": _chosen(columns.keys, places),
            "tag": _chosen(columns.tags, places) if router.preserve_tag else None,
            "node": _chosen(columns.nodes, places) if router.preserve_node else None,
            "meta": _chosen(columns.metas, places),
        }
        data = [columns.data[place] for place in places]
        return of_many(data, chosen, numbered, self._limits)

    def _report(self, lost: Tombstone) -> None:
        """Put a loss at the source into the destination, as far as it was not reported before."""
        reported = self.ends.dest.taken(self.kept.producer) or 0
        count = lost.gap_to - max(lost.gap_from - 1, reported)
        if count > 0:
            reason = "source_trim" if lost.reason in _RETENTION else lost.reason
            reporter = Numbered(self.kept.producer, lost.gap_to)
            report_loss(self.ends.dest_state, self.ends.dest_shard, count, reason, reporter)

    def _go_on_behind_taken(self) -> None:
        """Move behind what the destination has, and count what that was."""
        if self._is_located:
            return
        taken = self.ends.dest.taken(self.kept.producer) or 0
        while self.cursor < taken and self.lag:
            page = self._read(self.cursor, min(BATCH_RECORDS, taken - self.cursor))
            upto = min(page.next, taken)
            columns = page.columns()
            passed = [place for place in self._wanted(columns) if columns.seqs[place] <= upto]
            self.forwarded_total += len(passed)
            self.cursor = upto
        self.cursor = max(self.cursor, taken)
        self._is_located = True
        self.held = ""


def _chosen(
    values: list[object] | list[bytes | None] | list[str | None], places: list[int]
) -> object:
    """These places of a column; None when it has nothing there."""
    chosen = [values[place] for place in places]
    return chosen if any(value is not None for value in chosen) else None


def check_dest(name: str) -> None:
    """Raise for a destination that belongs to the store itself."""
    if name.startswith(INTERNAL):
        raise Invalid(f"topic {name!r} is the store's own: choose another destination")
