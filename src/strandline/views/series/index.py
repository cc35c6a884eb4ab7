"""The index of all points: blocks of those in order, and the late arrivals, in two ordered maps.

    map      key                                   value
    blocks   number of the source, at, seq         points from there on (block.py)
    late     number of the source, at, seq         kind of that point, 4 bytes; with the highest bit
                                                   set its payload follows, else it is in the log

Keys are three numbers of 8 bytes, big-endian, the at shifted up by 2^63: so they sort as the
numbers do, and the points of one source lie together, whatever else is in the topic.

A point goes into the tail of its source. When that has twice the spacing, its first half becomes a
block and waits in a queue for the map. So points that come out of order by less than a block's
worth are put in order on the way; one from before the last block is a late arrival.

Nobody who appends a point waits for more than a step: one block is made, and one of a batch that is
due has its payloads packed and is written. So a batch begins when enough blocks wait, and ends some
appends later.

When a map fails in the middle of something, nothing is lost and nothing is seen twice: every step
changes the maps first, by one entry or by entries that may be written again, then memory.
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
    Bounds,
    Points,
    cut,
    extend,
    first,
    pack,
    squeeze,
    unpack,
)
from strandline.views.series.block_cache import Decoded
from strandline.views.series.block_queue import Entry, Pending, Portion
from strandline.views.series.meta import AT_MAX, AT_MIN
from strandline.views.series.payloads import Payload
from strandline.views.series.source_state import Source

_KEY = struct.Struct(">QQQ")
_KIND = struct.Struct("<I")
_FOLLOWS = 1 << 31
"""In the kind of a late arrival: its payload follows."""
_SHIFT = 1 << 63
_SEQ_NEXT = (1 << 64) - 1
"""Above every seq."""
LatePoint = tuple[int, int, int, int, Payload]
"""Number of the source, at, seq, kind, payload."""


class Index:
    """Finds the points of a source. Owned by one thread."""

    def __init__(self, blocks: PagedMap, late: PagedMap, decoded: Decoded | None = None) -> None:
        self._blocks = blocks
        self._late = late
        self.decoded = Decoded(0) if decoded is None else decoded
        self.pending = Pending()
        self.tuning = Tuning()
        self.full = 0
        """How often the queue was full, and a batch was written at once."""
        self._due = 0
        """Blocks of the present batch that are not written."""

    def seal(self, source: Source, count: int) -> None:
        """Make blocks of the first points of a tail."""
        while count > 0:
            count -= self.seal_block(source, count)

    def seal_block(self, source: Source, count: int) -> int:
        """Make one block of the first points of a tail, at most so many; how many it were."""
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

    def write_if_due(self, records: int, made: int) -> None:
        """Write of a batch that is due one block for each record, without those that made a block:
        they have waited already. When too many are in the queue all wait for two."""
        if not self._due:
            if len(self.pending) < self.tuning.batch:
                return
            self._due = self.tuning.batch
        count = min(self._due, records - made if len(self.pending) <= HIGH else 2 * records)
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
        self._blocks.put_many(_packed(chain.from_iterable(each.entries for each in portions)))
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
        self, source: Source, bounds: Bounds, limit: int = 0, *, payloads: bool = True
    ) -> Points:
        """The points within bounds in order of (at, seq), at most so many; 0 is all.

        Whoever needs no payloads says so, and may get them all the same where they cost nothing.
        """
        found = Points([], [], [], [])
        for part in self._parts(source, bounds, payloads=payloads):
            extend(found, part)
            if limit and len(found.ats) >= limit:
                break
        if source.late:
            late = list(self._late_within(source.number, bounds, limit))
            if late:
                # No two have the same seq, so payloads are not compared.
                found = _columns(sorted([*zip(*found, strict=True), *late]))
        return first(found, limit) if limit else found

    def drop_below(self, source: Source, floor: int, step: int, gone: BitMap64) -> bool:
        """Forget points before the floor, and add their seqs; False when there may be more: no more
        than ``step`` blocks and late arrivals are looked at."""
        below = Bounds(AT_MIN, 0, floor - 1)
        self._write_of(source.number)
        blocks_done = self._drop_blocks(source, below, step, gone)
        late_done = self._drop_late(source, below, step, gone)
        dead = source.within(below).seqs
        gone.update(dead)
        source.drop_first(len(dead))
        source.dirty = True
        if not (blocks_done and late_done):
            return False
        source.oldest = max(source.oldest, floor)
        return True

    def _parts(self, source: Source, bounds: Bounds, *, payloads: bool) -> Iterator[Points]:
        """What is in blocks, in the map and before it, then the tail."""
        if source.blocks and bounds.first_at <= source.end:
            pending = self.pending.of(source.number)
            in_map = self._in_map(source.number, bounds, pending)
            for block in chain(in_map, (block for _, block in pending)):
                yield self._unpacked(block, bounds, payloads=payloads)
        if bounds.last_at < source.end:
            return
        if source.ats:
            yield source.within(bounds)
        elif source.stored:
            yield self._unpacked(source.stored, bounds, payloads=payloads)

    def _unpacked(self, block: bytes, bounds: Bounds, *, payloads: bool) -> Points:
        if payloads:
            return self.decoded.within(block, bounds)
        return unpack(block, bounds, payloads=False)

    def _in_map(self, number: int, bounds: Bounds, pending: list[Entry]) -> Iterator[bytes]:
        """From the last block that begins before the bounds, to the last that begins in them.

        Blocks that wait are behind all others of the source. A failed batch may have left some of
        them in the map already, and they must not be seen twice.
        """
        first = key_of(number, bounds.first_at, bounds.first_seq)
        following = key_of(number, bounds.last_at, _SEQ_NEXT)
        if pending:
            following = min(following, pending[0][0])
        for key, _ in self._blocks.range(key_of(number, AT_MIN, 0), first, reverse=True):
            first = key
            break
        for _, block in self._blocks.range(first, following):
            yield block

    def _late_within(
        self, number: int, bounds: Bounds, limit: int
    ) -> Iterator[tuple[int, int, int, Payload]]:
        """(at, seq, kind, payload) of late arrivals."""
        first = key_of(number, bounds.first_at, bounds.first_seq)
        found = self._late.range(first, key_of(number, bounds.last_at, _SEQ_NEXT))
        for key, value in islice(found, limit or None):
            _, shifted, seq = _KEY.unpack(key)
            yield shifted - _SHIFT, seq, *_unpack_late(value)

    def _drop_blocks(self, source: Source, below: Bounds, step: int, gone: BitMap64) -> bool:
        """One that the floor goes through is cut, and keeps its key: that is only a lower bound."""
        number = source.number
        begun = self._blocks.range(
            key_of(number, AT_MIN, 0), key_of(number, below.last_at, _SEQ_NEXT)
        )
        blocks = list(islice(begun, step))
        for key, block in blocks:
            points = unpack(block, ALL, payloads=False)
            dead = cut(points, below).seqs
            if len(dead) == len(points.seqs):
                self._blocks.delete(key)
                source.blocks -= 1
            elif dead:
                live = Bounds(below.last_at + 1, 0, AT_MAX)
                self._blocks.put(key, squeeze(pack(*unpack(block, live))))
            gone.update(dead)
        return len(blocks) < step

    def _drop_late(self, source: Source, below: Bounds, step: int, gone: BitMap64) -> bool:
        if not source.late:
            return True
        late = list(self._late_within(source.number, below, step))
        for at, seq, _, _ in late:
            self._late.delete(key_of(source.number, at, seq))
            source.late -= 1
            gone.add(seq)
        return len(late) < step

    def _write_of(self, number: int) -> None:
        """Write the waiting blocks of one source."""
        waiting = self.pending.of(number)
        if waiting:
            self._blocks.put_many(_packed(waiting))
            self.pending.drop(Portion(number, waiting))


def key_of(number: int, at: int, seq: int) -> bytes:
    return _KEY.pack(number, at + _SHIFT, seq)


def _packed(entries: Iterable[Entry]) -> Iterator[Entry]:
    return ((key, squeeze(block)) for key, block in entries)


def _columns(rows: list[tuple[int, int, int, Payload]]) -> Points:
    ats, seqs, kinds, payloads = zip(*rows, strict=True)
    return Points(list(ats), list(seqs), list(kinds), list(payloads))


def _pack_late(kind: int, payload: Payload) -> bytes:
    return _KIND.pack(kind) if payload is None else _KIND.pack(kind | _FOLLOWS) + payload


def _unpack_late(value: bytes) -> tuple[int, Payload]:
    (kind,) = _KIND.unpack_from(value)
    return (kind & ~_FOLLOWS, value[_KIND.size :]) if kind & _FOLLOWS else (kind, None)
