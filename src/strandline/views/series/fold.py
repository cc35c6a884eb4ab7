"""The fold of a series: points in, selections out. Owned by one thread.

Its state is the newest point and a tail of every source (source_state.py), the index of all other
points (index.py), the floor, and counts. Payloads of at most ``inline_bytes`` are stored with their
points, so that a source is read from its own blocks; they are copies of the records in the log.
Larger payloads are only in the log.

Points before the floor are invisible after the record that raised it. Their index entries are
removed later, step by step (index_trim.py), and their seqs stay in ``gone`` until the log has
removed their records.

Reads do not depend on the layout of the index or on what is in memory, so the digest covers the
live points in order, the newest point of each source, and the floor. A source whose newest point is
before the floor has no live points: its state has no effect on later points, since those from the
floor on are normal, and others are refused.

Saved state, MessagePack: an array in the order of ``State``.
"""

from __future__ import annotations

import hashlib
import struct
import weakref
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.config.memory_budget import MemoryShare
from strandline.config.view_config import SeriesConfig
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.session import Session
from strandline.views.series.block import PointBounds, SeriesPoints
from strandline.views.series.block_cache import DecodedBlocks
from strandline.views.series.index import LatePoint, PointIndex
from strandline.views.series.meta import (
    AT_MAX,
    AT_MIN,
    JITTER,
    LATE,
    NORMAL,
    PLAIN,
    ROUTE_MASK,
    FloorRaise,
    PointColumns,
    points_of,
    single_point,
)
from strandline.views.series.payloads import Payload
from strandline.views.series.source_state import PAYLOAD_BYTES, TAIL_BYTES, SourceState, memory_of
from strandline.views.series.source_table import SourceTable
from strandline.views.view import FoldColumns, FoldContext, VisibleItem

_BLOCKS, _LATE, _SOURCES = range(3)
"""Spaces of the maps, counted from the space of the view."""
_RECOUNT_EVERY = 1024
"""Records after which memory is counted again; a read of a source counts as some of them."""
_READ_TICKS = 8
_DIGEST_POINTS = 65_536
"""Points that are hashed at a time."""
_HEAD = struct.Struct("<qQ")


class SeriesCounts(msgspec.Struct, array_like=True):
    """Points by route, since the series was created or rebuilt."""

    normal: int = 0
    jitter: int = 0
    late: int = 0
    below_floor: int = 0
    """Plain records that were before the floor already when they were applied."""


class SeriesFoldState(msgspec.Struct, array_like=True):
    """The saved state besides the maps."""

    floor: int = AT_MIN
    floor_seq: int = 0
    newest: int = AT_MIN
    points: int = 0
    next_number: int = 1
    sources: int = 0
    counts: SeriesCounts = msgspec.field(default_factory=SeriesCounts)
    gone: bytes = b""


class SeriesFold:
    """The state of a series. Owned by one thread: the one that holds the host's lock."""

    def __init__(self, config: SeriesConfig, world: FoldContext) -> None:
        self.config = config
        self._world = world
        self._charged = _MemoryCharge(world.share)
        weakref.finalize(self, self._charged.set, 0).atexit = False
        self._ticks = 0
        self._loaded = False
        self.gone = BitMap64()
        """Records before the floor that are not in the index any more, but still in the log."""
        self.trimmed_floor = AT_MIN
        """The floor up to which the index was trimmed: no entry is below it."""

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Load the saved state; start empty if there is none."""
        saved = msgspec.msgpack.decode(state, type=SeriesFoldState) if state else SeriesFoldState()
        self.floor, self.floor_seq = saved.floor, saved.floor_seq
        self.newest, self.points = saved.newest, saved.points
        self.counts = saved.counts
        self.gone = BitMap64.deserialize(saved.gone) if saved.gone else BitMap64()
        ram = self._world.ram_bytes
        blocks = self._map(session, space + _BLOCKS, ram // 2)
        late = self._map(session, space + _LATE, ram // 8)
        stored = self._map(session, space + _SOURCES, ram // 8)
        self._maps = (blocks, late, stored)
        self.index = PointIndex(blocks, late, DecodedBlocks(ram // 16))
        self.sources = SourceTable(stored, ram // 4, self.index, self._world.share)
        self.sources.next_number, self.sources.count = saved.next_number, saved.sources
        self._loaded = True
        self.recount()

    def save(self, session: Session) -> bytes:
        """Write the changes to the session and return the state."""
        self.index.write_all()
        self.sources.save()
        for each in self._maps:
            each.save()
        self.recount()
        return msgspec.msgpack.encode(
            SeriesFoldState(
                self.floor,
                self.floor_seq,
                self.newest,
                self.points,
                self.sources.next_number,
                self.sources.count,
                self.counts,
                self.gone.serialize() if self.gone else b"",
            )
        )

    def apply(self, source: int, rows: FoldColumns) -> None:
        """Apply records to the state."""
        count, waiting = len(rows.seqs), len(self.index.pending)
        point = single_point(rows) if count == 1 else None
        if point is not None:
            self._add_point(*point)
        else:
            points = points_of(rows)
            if points.ats:
                self._add_points(points)
            for floor in points.floors:
                self._raise_floor(floor)
        self.sources.shrink()
        self.index.write_if_due(count, len(self.index.pending) - waiting)
        self._tick(count)

    def digest(self) -> bytes:
        """A checksum of the live points, the newest of each source, and the floor."""
        digest = hashlib.blake2b(_HEAD.pack(self.floor, 0), digest_size=16)
        for name in self.names(self.floor, AT_MAX):
            digest.update(_HEAD.pack(len(name), 0) + name)
            for part in self._source_bytes(name):
                digest.update(part)
        return digest.digest()

    def visible_items(
        self, first: bytes | None = None, next: bytes | None = None
    ) -> Iterator[VisibleItem]:
        """The floor, then sources with a checksum of their points; names have a prefix."""
        if not first and (next is None or next > b""):
            yield VisibleItem(b"", _HEAD.pack(self.floor, 0))
        for name in self.names(self.floor, AT_MAX):
            key = b"s" + name
            if (first is None or key >= first) and (next is None or key < next):
                digest = hashlib.blake2b(digest_size=16)
                for part in self._source_bytes(name):
                    digest.update(part)
                yield VisibleItem(key, digest.digest())

    def _source_bytes(self, name: bytes) -> Iterator[bytes]:
        """The readable state of a source, as bytes."""
        head = self.sources.find_readonly(name)
        assert head is not None, "a source that was just listed"
        yield _HEAD.pack(head.max_at, head.max_seq)
        for ats, seqs, kinds, _ in self._in_parts(head):
            yield _HEAD.pack(len(ats), 0)
            yield struct.pack(f"<{len(ats)}q", *ats)
            yield struct.pack(f"<{len(seqs)}Q", *seqs)
            yield struct.pack(f"<{len(kinds)}I", *kinds)

    def route(self, name: bytes, at: int) -> int:
        """The route of a point of this source, if it is appended now."""
        source = self.sources.find(name)
        newest = AT_MIN if source is None else source.max_at
        return route_of(at, newest, self.config.jitter)

    def max_at(self, name: bytes) -> int:
        """The newest at of a source; ``AT_MIN`` without points."""
        source = self.sources.find(name)
        return AT_MIN if source is None else source.max_at

    def select(
        self, name: bytes, bounds: PointBounds, limit: int = 0, *, payloads: bool = True
    ) -> SeriesPoints:
        """The first ``limit`` live points of a source within bounds; 0 is all."""
        source = self.sources.find_readonly(name)
        if source is None or source.max_at < bounds.first_at or source.max_at < self.floor:
            return SeriesPoints([], [], [], [])
        self._tick(_READ_TICKS)
        if bounds.first_at < self.floor:
            bounds = PointBounds(self.floor, 0, bounds.last_at)
        return self.index.select(source, bounds, limit, payloads=payloads)

    def names(self, start: int, end: int) -> list[bytes]:
        """Sources that may have live points between two ats, both included, in order."""
        start = max(start, self.floor)
        heads = self.sources.heads()
        return sorted(name for name, head in heads if head.max_at >= start and head.oldest <= end)

    def newest_of(self, name: bytes) -> SeriesPoints:
        """The newest live point of a source; empty if there is none."""
        source = self.sources.find_readonly(name)
        if source is None or source.max_at < self.floor:
            return SeriesPoints([], [], [], [])
        self._tick(_READ_TICKS)
        return self.index.select(source, PointBounds(source.max_at, source.max_seq, source.max_at))

    def newest_of_all(self) -> tuple[dict[bytes, SeriesPoints], dict[bytes, int]]:
        """The newest points of all sources: those in memory, and the seqs of the others."""
        in_memory: dict[bytes, SeriesPoints] = {}
        seqs: dict[bytes, int] = {}
        for name, head in self.sources.heads():
            if head.max_at < self.floor:
                continue
            if head.ats:
                in_memory[name] = head.within(PointBounds(head.max_at, head.max_seq, head.max_at))
            else:
                seqs[name] = head.max_seq
        return in_memory, seqs

    def evict(self, size: int) -> int:
        """Free about ``size`` bytes of memory; return the number of freed bytes."""
        if not self._loaded:
            return 0  # its pages could not be read: the fold will be replaced
        before = self.recount()
        self.index.decoded.clear()
        self.sources.evict(size)
        self.index.write_all()
        return max(0, before - self.recount())

    def recount(self) -> int:
        """Count the used memory, charge it to the share, and return it."""
        self._ticks = 0
        maps = sum(each.statistics().ram_bytes for each in self._maps)
        size = self.sources.size + self.index.pending.size + self.index.decoded.size + maps
        self._charged.set(size)
        self.sources.size_charged = self.sources.size
        return size

    def _tick(self, count: int) -> None:
        """Count memory again after many operations."""
        self._ticks += count
        if self._ticks >= _RECOUNT_EVERY:
            self.recount()

    def _in_parts(self, source: SourceState) -> Iterator[SeriesPoints]:
        """All live points of a source in parts of bounded size."""
        bounds = PointBounds(self.floor, 0, AT_MAX)
        while True:
            part = self.index.select(source, bounds, _DIGEST_POINTS, payloads=False)
            yield part
            if len(part.seqs) < _DIGEST_POINTS:
                return
            bounds = PointBounds(part.ats[-1], part.seqs[-1] + 1, AT_MAX)

    def _add_points(self, points: PointColumns) -> None:
        """Add points to the tails of their sources, and earlier ones to the late arrivals."""
        late: list[LatePoint] = []
        routes = [0, 0, 0]
        hot, find_or_make = self.sources.hot, self.sources.find_or_create
        payloads = inline_payloads(points.data, self.config.inline_bytes)
        sizes = memory_of(payloads)
        for seq, name, at, marked, payload, size in zip(*points[:4], payloads, sizes, strict=True):
            source = hot.get(name)
            if source is None:
                source = find_or_make(name)
            kind = marked if marked != PLAIN else self._plain_kind(source, at)
            routes[kind & ROUTE_MASK] += 1
            if not self._add_to_tail(source, at, seq, kind, payload, size):
                late.append((source.number, at, seq, kind, payload))
        self.index.add_late(late)
        self.newest = max(self.newest, *points.ats)
        self._count(routes, len(late))
        self.sources.payload_bytes += sum(sizes) - sum(memory_of(point[4] for point in late))

    def _add_point(self, seq: int, name: bytes, at: int, kind: int, data: bytes) -> None:
        """The same for one marked point: the most frequent case."""
        sources = self.sources
        source = sources.hot.get(name)
        if source is None:
            source = sources.find_or_create(name)
        (payload,) = inline_payloads((data,), self.config.inline_bytes)
        size = len(payload) + PAYLOAD_BYTES if payload else 0
        routes = [0, 0, 0]
        routes[kind & ROUTE_MASK] = 1
        in_tail = self._add_to_tail(source, at, seq, kind, payload, size)
        if in_tail:
            sources.payload_bytes += size
        else:
            self.index.add_late([(source.number, at, seq, kind, payload)])
        self.newest = max(self.newest, at)
        self._count(routes, 0 if in_tail else 1)

    def _add_to_tail(
        self, source: SourceState, at: int, seq: int, kind: int, payload: Payload, size: int
    ) -> bool:
        """Add a point to the tail of its source; False if it is before the tail."""
        source.used = source.dirty = True
        if at >= source.max_at:
            if not source.max_seq:
                source.oldest = at
            source.max_at, source.max_seq = at, seq
        else:
            source.oldest = min(source.oldest, at)
            if at < source.end:
                source.late += 1
                return False
        source.add(at, seq, kind, payload)
        source.payload_bytes += size
        spacing = self.index.tuning.spacing
        if len(source.ats) >= 2 * spacing or source.payload_bytes >= TAIL_BYTES:
            self.sources.seal_block(source, spacing)
        return True

    def _plain_kind(self, source: SourceState, at: int) -> int:
        self.counts.below_floor += at < self.floor
        return NORMAL if at >= source.max_at else LATE

    def _count(self, routes: list[int], late: int) -> None:
        normal, jitter, late_route = routes
        self.counts.normal += normal
        self.counts.jitter += jitter
        self.counts.late += late_route
        self.points += sum(routes)
        self.sources.tail_points += sum(routes) - late

    def _raise_floor(self, record: FloorRaise) -> None:
        """Apply a floor. It never falls, so records of lower floors may be removed from the log."""
        lower = record.seq
        if record.at > self.floor:
            lower, self.floor_seq = self.floor_seq, record.seq
            self.floor = record.at
        if lower:
            self.gone.add(lower)

    def _map(self, session: Session, space: int, ram_bytes: int) -> PagedMap:
        return PagedMap(session, space=space, ram_bytes=ram_bytes, spill=self._world.spill)


class _MemoryCharge:
    """The memory that a fold has charged to its share. Owned by one thread."""

    def __init__(self, share: MemoryShare) -> None:
        self._share = share
        self._size = 0

    def set(self, size: int) -> None:
        if size > self._size:
            self._share.charge(size - self._size)
        else:
            self._share.release(self._size - size)
        self._size = size


def inline_payloads(payloads: Sequence[bytes], inline_bytes: int) -> list[Payload]:
    """Payloads that are stored with their points, and None for the others."""
    if not inline_bytes:
        return [None] * len(payloads)
    if max(map(len, payloads)) <= inline_bytes and set(map(type, payloads)) == {bytes}:
        return list(payloads)
    # Copy: a stored payload must not change with the caller's buffer.
    return [bytes(each) if len(each) <= inline_bytes else None for each in payloads]


def route_of(at: int, newest: int, jitter: int) -> int:
    """The route of a point, by the newest point of its source."""
    if at >= newest:
        return NORMAL
    return JITTER if at >= newest - jitter else LATE
