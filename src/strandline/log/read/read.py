"""Reads a topic by cursor, in pages.

For every seq after the cursor: floor -> deleted -> node filter -> deliver, block by block (expiry
by ttl is a floor, because stamps never decrease). Skipped seqs advance the cursor, too. A page
reports involuntary loss as a tombstone: at most one per page, and always of seqs before the page's
first record, because a page ends where a gap begins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pyroaring import BitMap64

from strandline.errors import Corrupt
from strandline.lake.files.zone import Zone
from strandline.log.read.page import BlockSlice, Page, Row
from strandline.log.state.locator import TopicReader
from strandline.log.state.memory_tail import Row as MemoryRow
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import block
from strandline.log.wal.block import Block
from strandline.log.wal.reader import Reader
from strandline.records import Tombstone

_SINGLES_MAX = 512
NO_CUTOFF = -(1 << 62)


class RecordsExpired(Exception):
    """Records below this seq have expired by their ttl: raise the floor, then read again."""

    def __init__(self, floor: int) -> None:
        super().__init__(floor)
        self.floor = floor


def read_page(
    state: TopicState,
    reader: Callable[[], Reader],
    *,
    after: int,
    limit: int,
    size_max: int,
    skip_node: str | None,
    epoch: int | None,
    cutoff: int = NO_CUTOFF,
    with_ended: bool = False,
) -> Page:
    """Read one page. The floors must be up to date; see ``RecordsExpired`` for those of the lake.

    Jobs that have ended are left out, unless the caller forwards every record (``with_ended``).
    """
    head = state.head_seq
    tombstone, start = _start_of(state, after, head, epoch)
    collector = _PageCollector(
        TopicReader(state, reader),
        limit=limit,
        size_max=size_max,
        skip_node=skip_node,
        cutoff=cutoff,
        hidden=state.deleted if with_ended else state.hidden,
    )
    seq = start
    while seq <= head:
        gap = state.gap_at(seq)
        if gap is not None:
            if tombstone is not None or collector.count:
                break
            gap_to = min(gap.last_seq, head)  # it may have grown since the head was read
            tombstone = Tombstone(gap_from=seq, gap_to=gap_to, reason=gap.reason)
            seq = gap_to + 1
            continue
        try:
            seq = collector.collect(seq, min(head, state.next_gap_seq(seq) - 1))
        except LookupError:
            # Retention overtook the reader. A page that has records ends here, and the next one
            # has the tombstone; otherwise this one has it.
            if seq >= state.floor:
                raise _missing(state, seq) from None
            if collector.count:
                break
            # From the cursor again: a gap that was already passed is below the floor now.
            tombstone, seq = _start_of(state, after, head, epoch)
        except RecordsExpired:
            if not collector.count:
                raise
            break
        if collector.full:
            break
    return Page(
        collector.parts,
        following=seq - 1,
        head_seq=head,
        epoch=state.epoch,
        tombstone=tombstone,
    )


def _missing(state: TopicState, seq: int) -> Corrupt:
    return Corrupt(
        "records are in no file of the store",
        path="segments",
        topic_id=state.id,
        first_seq=seq,
        last_seq=seq,
    )


def _start_of(
    state: TopicState, after: int, head: int, epoch: int | None
) -> tuple[Tombstone | None, int]:
    """The first seq to read after a cursor, with a tombstone of the records that it missed."""
    if after > head or (epoch is not None and epoch < state.created_us):
        # The cursor is of an earlier epoch of the topic: report that, then read from the floor.
        start = state.floor
        return Tombstone(gap_from=1, gap_to=max(head, 1), reason="recreated"), start
    start = max(after + 1, state.floor)
    if after + 1 < state.evict_floor:
        gap_to = max(state.earliest_seq, state.evict_floor) - 1
        reason = state.evict_reason or "cap"
        return Tombstone(gap_from=after + 1, gap_to=gap_to, reason=reason), max(start, gap_to + 1)
    return None, start


class _PageCollector:
    """Collects rows until the page is full."""

    def __init__(
        self,
        pieces: TopicReader,
        *,
        limit: int,
        size_max: int,
        skip_node: str | None,
        cutoff: int,
        hidden: BitMap64 | None,
    ) -> None:
        self.parts: list[BlockSlice | list[Row]] = []
        self.count = 0
        self._size = 0
        self._deleted = hidden
        self._pieces = pieces
        self._limit = limit
        self._size_max = size_max
        self._skip_node = skip_node
        self._cutoff = cutoff

    @property
    def full(self) -> bool:
        return self.count >= self._limit or self._size >= self._size_max

    def collect(self, seq: int, last_seq: int) -> int:
        """Add the rows of one piece from a seq on; returns the seq to continue with."""
        rows = self._pieces.singles(seq, last_seq, min(self._limit - self.count, _SINGLES_MAX))
        if rows:
            return self._collect_rows(seq, rows, seq, last_seq)
        piece = self._pieces.at(seq)
        if isinstance(piece, tuple):
            return self._collect_rows(*piece, seq, last_seq)
        if isinstance(piece, Zone):
            self._check_expired(piece, seq)
        return self._collect_block(piece, seq, last_seq)

    def _check_expired(self, zone: Zone, seq: int) -> None:
        """Raise Expired for expired rows: the floor of the lake rises by whole files only."""
        live_seq = zone.first_seq + int(np.searchsorted(zone.stamps(), np.int64(self._cutoff)))
        if seq < live_seq:
            raise RecordsExpired(live_seq)

    def _collect_rows(
        self,
        first_seq: int,
        rows: list[MemoryRow],
        seq: int,
        last_seq: int,
    ) -> int:
        part: list[Row] = []
        skip = None if self._skip_node is None else self._skip_node.encode()
        for place in range(seq - first_seq, min(len(rows), last_seq - first_seq + 1)):
            ts, fields, data = rows[place]
            seq = first_seq + place + 1
            if self._deleted is not None and seq - 1 in self._deleted:
                continue
            if skip is not None and fields[2] == skip:
                continue
            part.append((seq - 1, ts, fields, data))
            self._size += len(data)
            if self.count + len(part) >= self._limit or self._size >= self._size_max:
                break
        self._add(part)
        return seq

    def _add(self, part: list[Row]) -> None:
        if part and self.parts and isinstance(self.parts[-1], list):
            self.parts[-1] += part
        elif part:
            self.parts.append(part)
        self.count += len(part)

    def _collect_block(self, source: Block | Zone, seq: int, last_seq: int) -> int:
        first = seq - source.first_seq
        following = min(source.count, last_seq - source.first_seq + 1)
        chosen = self._chosen(source, first, following)
        rows_max = min(self._limit - self.count, self._rows_for_size(source))
        if chosen is None:
            following = min(following, first + rows_max)
        elif len(chosen) > rows_max:
            following = int(chosen[rows_max - 1]) + 1
            chosen = chosen[:rows_max]
        part = BlockSlice(source, first, following, chosen)
        if len(part):
            self.parts.append(part)
            self.count += len(part)
            self._size += len(part) * (source.payload_size // source.count)
        return int(source.first_seq + following)

    def _rows_for_size(self, source: Block | Zone) -> int:
        average = max(1, source.payload_size // source.count)
        return int(max(1, -(-(self._size_max - self._size) // average)))

    def _chosen(self, source: Block | Zone, first: int, following: int) -> np.ndarray | None:
        """The rows that pass the filters, None when all do."""
        keep: np.ndarray | None = None
        low, high = source.first_seq + first, source.first_seq + following
        hidden = self._deleted
        if isinstance(source, Zone) and (holes := source.holes()):
            hidden = holes | hidden if hidden else holes
        if hidden and hidden.range_cardinality(low, high):
            keep = np.ones(following - first, dtype=bool)
            seqs = hidden.intersection(type(hidden)(range(low, high)))
            keep[np.array(list(seqs), dtype="<i8") - low] = False
        nodes = source.column(block.NODE) if self._skip_node is not None else None
        if nodes is not None:
            names = nodes.slice(first, following - first).to_pylist()
            own = np.array([name == self._skip_node for name in names], dtype=bool)
            keep = ~own if keep is None else keep & ~own
        if keep is None or keep.all():
            return None
        return np.flatnonzero(keep) + first
