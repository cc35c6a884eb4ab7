"""The content of a topic at one position, as data: for readers in several processes.

A snapshot defines which records exist: from the floor to the head, without gaps and deleted ones,
the older ones in the files of one manifest, the others local. ``scan`` reads a range of a snapshot,
on any later opening of the store. It ignores the current floors: records that were evicted since
are delivered while their bytes exist, and ``RecordsLost`` is raised when they do not. Records that
the reader's store has as deleted since are hidden, because their bytes may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from strandline.errors import RecordsLost
from strandline.lake.cold_index import ColdEntry, ColdIndex
from strandline.lake.files.zone import Zone
from strandline.log.read.page import BlockSlice, RowSlice, table_of
from strandline.log.state.locator import TopicReader
from strandline.log.state.topic_state import TopicState
from strandline.log.wal.block import Block
from strandline.log.wal.reader import Reader
from strandline.records import Tombstone

ROWS_AT_ONCE = 32_768
"""Rows of a table of ``scan``, approximately."""

_SINGLES_MAX = 4096


class TopicSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a topic at one position."""

    topic_id: int
    name: str
    epoch: int
    created_us: int
    head_seq: int
    floor: int
    evict_floor: int
    evict_reason: str
    last_ts: int = 0
    gaps: tuple[tuple[int, int, str], ...] = ()
    """First seq, last seq and reason of each gap."""
    deleted: bytes = b""
    """A roaring bitmap of hidden seqs from the floor on."""
    cold: ColdEntry = ColdEntry()
    """The lake files and their seqs."""

    def cold_files(self) -> ColdIndex | None:
        return ColdIndex.decode(self.cold)

    @property
    def hot_seq(self) -> int:
        """The first seq to read from the store itself."""
        cold = self.cold_files()
        return self.floor if cold is None else max(self.floor, cold.last_seq + 1)

    def hidden(self) -> BitMap64:
        """The deleted seqs."""
        return BitMap64.deserialize(self.deleted) if self.deleted else BitMap64()

    def lost_between(self, first_seq: int, last_seq: int) -> list[Tombstone]:
        """The tombstones of a reader of these seqs, both ends included."""
        lost = []
        if first_seq < self.evict_floor:
            gap_to = min(last_seq, self.evict_floor - 1)
            reason = self.evict_reason or "cap"
            lost.append(Tombstone(gap_from=first_seq, gap_to=gap_to, reason=reason))
        for gap_first, gap_last, reason in self.gaps:
            low, high = max(first_seq, self.floor, gap_first), min(last_seq, gap_last)
            if low <= high:
                lost.append(Tombstone(gap_from=low, gap_to=high, reason=reason))
        return lost


def take_snapshot(state: TopicState) -> TopicSnapshot:
    """The snapshot of a topic now. Its floors must be up to date."""
    floor, head_seq = state.floor, state.head_seq
    hidden = state.deleted
    if hidden:
        hidden = hidden & BitMap64(range(floor, head_seq + 1))
    return TopicSnapshot(
        topic_id=state.id,
        name=state.name,
        epoch=state.epoch,
        created_us=state.created_us,
        head_seq=head_seq,
        floor=floor,
        evict_floor=state.evict_floor,
        evict_reason=state.evict_reason,
        last_ts=state.last_ts,
        gaps=tuple((gap.first_seq, gap.last_seq, gap.reason) for gap in state.gaps),
        deleted=hidden.serialize() if hidden else b"",
        cold=ColdEntry() if state.cold is None else state.cold.encode(),
    )


def scan(
    state: TopicState,
    reader: Callable[[], Reader],
    snapshot: TopicSnapshot,
    first_seq: int,
    last_seq: int,
) -> Iterator[pa.Table]:
    """The records of a snapshot between two seqs, both included, in tables of many rows."""
    pieces = TopicReader(state, reader)
    hidden = snapshot.hidden()
    slices: list[BlockSlice | RowSlice] = []
    rows = 0
    for low, high in _present_ranges(snapshot, first_seq, last_seq):
        if (
            high > state.head_seq
            or state.next_gap_seq(low) <= high
            or state.gap_at(low) is not None
        ):
            raise RecordsLost(state.name, low, high, "lost")
        seq = low
        while seq <= high:
            part, seq = _read_slice(state, pieces, hidden, seq, high)
            if part is not None:
                slices.append(part)
                rows += len(part)
            if rows >= ROWS_AT_ONCE:
                yield table_of(slices)
                slices, rows = [], 0
    if rows:
        yield table_of(slices)


def _present_ranges(
    snapshot: TopicSnapshot, first_seq: int, last_seq: int
) -> Iterator[tuple[int, int]]:
    """The parts of a range that are in no gap."""
    seq, last_seq = max(first_seq, snapshot.floor), min(last_seq, snapshot.head_seq)
    for gap_first, gap_last, _ in sorted(snapshot.gaps):
        if seq < gap_first <= last_seq:
            yield seq, gap_first - 1
        if gap_first <= last_seq:
            seq = max(seq, gap_last + 1)
    if seq <= last_seq:
        yield seq, last_seq


def _read_slice(
    state: TopicState, pieces: TopicReader, hidden: BitMap64, seq: int, last_seq: int
) -> tuple[BlockSlice | RowSlice | None, int]:
    """The rows of one piece from a seq on, and the seq to continue with."""
    deleted = state.deleted
    rows = pieces.singles(seq, last_seq, _SINGLES_MAX)
    first = seq
    if not rows:
        try:
            piece = pieces.at(seq)
        except LookupError:
            reason = state.evict_reason or "deleted"
            raise RecordsLost(state.name, seq, min(last_seq, state.floor - 1), reason) from None
        if not isinstance(piece, tuple):
            last_seq = min(last_seq, piece.last_seq)
            return _visible_slice(piece, seq, last_seq, hidden, deleted), last_seq + 1
        first, rows = piece
    following = min(first + len(rows), last_seq + 1)
    visible = [
        (number, *rows[number - first])
        for number in range(seq, following)
        if number not in hidden and not (deleted is not None and number in deleted)
    ]
    return RowSlice(visible) if visible else None, following


def _visible_slice(
    source: Block | Zone, first_seq: int, last_seq: int, hidden: BitMap64, deleted: BitMap64 | None
) -> BlockSlice | None:
    """The visible rows of a block or zone."""
    holes = source.holes() if isinstance(source, Zone) else None
    invisible = BitMap64()
    for seqs in (hidden, deleted, holes):
        if seqs and seqs.range_cardinality(first_seq, last_seq + 1):
            invisible |= seqs & BitMap64(range(first_seq, last_seq + 1))
    first, following = first_seq - source.first_seq, last_seq - source.first_seq + 1
    if not invisible:
        return BlockSlice(source, first, following, None)
    keep = np.ones(following - first, dtype=bool)
    keep[np.array(list(invisible), dtype="<i8") - first_seq] = False
    chosen = np.flatnonzero(keep) + first
    return BlockSlice(source, first, following, chosen) if len(chosen) else None
