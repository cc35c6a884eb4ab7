"""The index of all points: blocks of points in order, and late arrivals, in two ordered maps.

    map      key                                   value
    blocks   number of the source, at, seq         points from this key on (block.py)
    late     number of the source, at, seq         kind of the point, 4 bytes; if the highest bit is
                                                   set, its payload follows, else it is in the log

Keys are three numbers of 8 bytes, big-endian, with 2^63 added to the at: so they sort as the
numbers do, and the points of one source are neighbours, whatever else is in the topic.

A point is added to the tail of its source. When the tail has twice the spacing, its first half
becomes a block and waits in a queue to be written. So points that are out of order by less than a
block are sorted in the tail; a point before the last block is a late arrival.

An append waits for at most one step: one block is built, and one block of a batch that is due is
compressed and written. So a batch starts when enough blocks wait, and ends some appends later.

If a map fails in the middle of an operation, no point is lost or returned twice: every step changes
the maps first, by one entry or by entries that may be written again, and then the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from pyroaring import BitMap64

from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.series.adaptive_spacing import CAPACITY, HIGH, Tuning
from strandline.views.series.block import (
    ALL,
    PointBounds,
    SeriesPoints,
    cut,
    extend,
    first,
    pack,
    squeeze,
    unpack,
)
from strandline.views.series.block_cache import DecodedBlocks
from strandline.views.series.block_queue import BlockQueue, Entry, SourceBlocks
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payloads import Payload
from strandline.views.series.source_state import SourceState

_KEY = struct.Struct(">QQQ")
_KIND = struct.Struct("<I")
_HAS_PAYLOAD = 1 << 31
"""A bit in the kind of a late arrival: its payload follows."""
_SHIFT = 1 << 63
_SEQ_NEXT = (1 << 64) - 1
"""Above every seq."""
LatePoint = tuple[int, int, int, int, Payload]
"""Number of the source, at, seq, kind, payload."""


class PointIndex:
    """Finds the points of a source. Owned by one thread."""

    def __init__(
        self, blocks: PagedMap, late: PagedMap, decoded: DecodedBlocks | None = None
    ) -> None:
        self._blocks = blocks
        self._late = late
        self.decoded = DecodedBlocks(0) if decoded is None else decoded
        self.pending = BlockQueue()
        self.tuning = Tuning()
        self.full = 0
        """The number of times that the queue was full and a batch was written at once."""
        self._due = 0
        """Blocks of the current batch that are not written yet."""

    def seal(self, source: SourceState, count: int) -> None:
        """Build blocks of the first points of a tail."""
        while count > 0:
            count -= self.seal_block(source, count)

    def seal_block(self, source: SourceState, count: int) -> int:
        """Build one block of at most ``count`` first points of a tail; return their number."""
        if len(self.pending) >= CAPACITY:
            self.full += 1
            self.write_batch()
        points = source.first(min(count, self.tuning.spacing))
        size = len(points.ats)
        key = key_of(source.number, points.ats[0], points.seqs[0])
        self.pending.add(source.number, key, pack(*points))
        source.end = points.ats[-1]
        source.blocks += 1
        source.dirty = True
        source.drop_first(size)
        return size

    def write_if_due(self, records: int, blocks_built: int) -> None:
        """Write one block of a batch that is due for each record, except for records that completed
        a block: they have done their share. If the queue is too long, write two for each record."""
        if not self._due:
            if len(self.pending) < self.tuning.batch:
                return
            self._due = self.tuning.batch
        count = min(self._due, records - blocks_built if len(self.pending) <= HIGH else 2 * records)
        if count <= 0:
            return
        self._write(count)
        self._due = min(self._due - count, len(self.pending))
        if not self._due:
            self.tuning.after_batch(len(self.pending))

    def write_batch(self) -> None:
        self._write(self.tuning.batch)
        self._due = 0
        self.tuning.after_batch(len(self.pending))

    def _write(self, count: int) -> None:
        portions = self.pending.oldest(count)
        self._blocks.put_many(_squeezed(chain.from_iterable(each.entries for each in portions)))
        for portion in portions:
            self.pending.drop(portion)

    def write_all(self) -> None:
        while self.pending:
            self.write_batch()

    def add_late(self, points: list[LatePoint]) -> None:
        if points:
            self._late.put_many(
                (key_of(number, at, seq), _pack_late(kind, payload))
                for number, at, seq, kind, payload in points
            )

    def select(
        self, source: SourceState, bounds: PointBounds, limit: int = 0, *, payloads: bool = True
    ) -> SeriesPoints:
        """At most ``limit`` points within bounds in order of (at, seq); 0 is all.

        Without ``payloads``, payloads are only returned where they cost nothing.
        """
        points = SeriesPoints([], [], [], [])
        for part in self._parts(source, bounds, payloads=payloads):
            extend(points, part)
            if limit and len(points.ats) >= limit:
                break
        if source.late:
            late = list(self._late_within(source.number, bounds, limit))
            if late:
                # Seqs are unique, so the sort never compares payloads.
                points = _columns(sorted([*zip(*points, strict=True), *late]))
        return first(points, limit) if limit else points

    def drop_below(self, source: SourceState, floor: int, step: int, removed: BitMap64) -> bool:
        """Remove points before the floor, and add their seqs to ``gone``. At most ``step`` blocks
        and ``step`` late arrivals are processed; False if there may be more."""
        below = PointBounds(AT_MIN, 0, floor - 1)
        self._write_source(source.number)
        blocks_done = self._drop_blocks(source, below, step, removed)
        late_done = self._drop_late(source, below, step, removed)
        dead = source.within(below).seqs
        removed.update(dead)
        source.drop_first(len(dead))
        source.dirty = True
        if not (blocks_done and late_done):
            return False
        source.oldest = max(source.oldest, floor)
        return True

    def _parts(
        self, source: SourceState, bounds: PointBounds, *, payloads: bool
    ) -> Iterator[SeriesPoints]:
        """The points in blocks, in the map and in the queue, then those in the tail."""
        if source.blocks and bounds.first_at <= source.end:
            pending = self.pending.of(source.number)
            in_map = self._map_blocks(source.number, bounds, pending)
            for block in chain(in_map, (block for _, block in pending)):
                yield self._unpack(block, bounds, payloads=payloads)
        if bounds.last_at < source.end:
            return
        if source.ats:
            yield source.within(bounds)
        elif source.stored:
            yield self._unpack(source.stored, bounds, payloads=payloads)

    def _unpack(self, block: bytes, bounds: PointBounds, *, payloads: bool) -> SeriesPoints:
        if payloads:
            return self.decoded.within(block, bounds)
        return unpack(block, bounds, payloads=False)

    def _map_blocks(
        self, number: int, bounds: PointBounds, pending: list[Entry]
    ) -> Iterator[bytes]:
        """The blocks from the last that starts before the bounds to the last that starts in them.

        Waiting blocks are after all others of the source. A failed batch may have written some of
        them to the map already, and their points must not be returned twice.
        """
        first = key_of(number, bounds.first_at, bounds.first_seq)
        after = key_of(number, bounds.last_at, _SEQ_NEXT)
        if pending:
            after = min(after, pending[0][0])
        for key, _ in self._blocks.range(key_of(number, AT_MIN, 0), first, reverse=True):
            first = key
            break
        for _, block in self._blocks.range(first, after):
            yield block

    def _late_within(
        self, number: int, bounds: PointBounds, limit: int
    ) -> Iterator[tuple[int, int, int, Payload]]:
        """Late arrivals as (at, seq, kind, payload)."""
        first = key_of(number, bounds.first_at, bounds.first_seq)
        entries = self._late.range(first, key_of(number, bounds.last_at, _SEQ_NEXT))
        for key, value in islice(entries, limit or None):
            _, shifted, seq = _KEY.unpack(key)
            yield shifted - _SHIFT, seq, *_unpack_late(value)

    def _drop_blocks(
        self, source: SourceState, below: PointBounds, step: int, removed: BitMap64
    ) -> bool:
        """A block with points on both sides is cut, and keeps its key, which is a lower bound."""
        number = source.number
        entries = self._blocks.range(
            key_of(number, AT_MIN, 0), key_of(number, below.last_at, _SEQ_NEXT)
        )
        blocks = list(islice(entries, step))
        for key, block in blocks:
            points = unpack(block, ALL, payloads=False)
            dead = cut(points, below).seqs
            if len(dead) == len(points.seqs):
                self._blocks.delete(key)
                source.blocks -= 1
            elif dead:
                live = PointBounds(below.last_at + 1, 0, AT_MAX)
                self._blocks.put(key, squeeze(pack(*unpack(block, live))))
            removed.update(dead)
        return len(blocks) < step

    def _drop_late(
        self, source: SourceState, below: PointBounds, step: int, removed: BitMap64
    ) -> bool:
        if not source.late:
            return True
        late = list(self._late_within(source.number, below, step))
        for at, seq, _, _ in late:
            self._late.delete(key_of(source.number, at, seq))
            source.late -= 1
            removed.add(seq)
        return len(late) < step

    def _write_source(self, number: int) -> None:
        """Write the waiting blocks of one source now."""
        waiting = self.pending.of(number)
        if waiting:
            self._blocks.put_many(_squeezed(waiting))
            self.pending.drop(SourceBlocks(number, waiting))


def key_of(number: int, at: int, seq: int) -> bytes:
    return _KEY.pack(number, at + _SHIFT, seq)


def _squeezed(entries: Iterable[Entry]) -> Iterator[Entry]:
    return ((key, squeeze(block)) for key, block in entries)


def _columns(rows: list[tuple[int, int, int, Payload]]) -> SeriesPoints:
    ats, seqs, kinds, payloads = zip(*rows, strict=True)
    return SeriesPoints(list(ats), list(seqs), list(kinds), list(payloads))


def _pack_late(kind: int, payload: Payload) -> bytes:
    return _KIND.pack(kind) if payload is None else _KIND.pack(kind | _HAS_PAYLOAD) + payload


def _unpack_late(value: bytes) -> tuple[int, Payload]:
    (kind,) = _KIND.unpack_from(value)
    return (kind & ~_HAS_PAYLOAD, value[_KIND.size :]) if kind & _HAS_PAYLOAD else (kind, None)
