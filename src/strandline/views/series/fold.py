"""The fold of a series: points in, selections out. Owned by one thread.

What it keeps: of every source the newest point and a tail (source_state.py), the index of the rest
(index.py), the floor, and counts. Payloads of at most ``inline_bytes`` are kept with their points,
so that a source is read from its own blocks; they are copies of what the log has. Others stay
there.

Points before the floor are invisible from the record on that raised it. Their index entries go
later, step by step (index_trim.py), and their seqs wait in ``gone`` until the log has let them go.

Neither the layout of the index nor what is in memory can be seen from outside, so the digest is
made of the live points in order, the newest of each source, and the floor. A source whose newest
point is before the floor has nothing alive: what it was makes no difference to any later point, for
those from the floor on are normal, and others are refused.

Saved state, MessagePack: an array in the order of ``State``.
"""

from __future__ import annotations

import hashlib
import struct
import weakref
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from strandline.config.memory_budget import Share
from strandline.config.view_config import SeriesConfig
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.reservoir.session import Session
from strandline.views.series.block import Bounds, Points
from strandline.views.series.block_cache import Decoded
from strandline.views.series.index import Index, LatePoint
from strandline.views.series.meta import (
    AT_MAX,
    AT_MIN,
    JITTER,
    LATE,
    NORMAL,
    PLAIN,
    ROUTE_MASK,
    Floor,
    Found,
    only_point,
    points_of,
)
from strandline.views.series.payloads import Payload
from strandline.views.series.source_state import PAYLOAD_BYTES, TAIL_BYTES, Source, memory_of
from strandline.views.series.source_table import Sources
from strandline.views.view import Rows, Seen, World

_BLOCKS, _LATE, _SOURCES = range(3)
"""Spaces of the maps, from the view's own on."""
_RECOUNT_EVERY = 1024
"""Records after which memory is counted again; a look at a source is as much as some of them."""
_LOOK = 8
_PART = 65_536
"""Points of which a digest is made together."""
_HEAD = struct.Struct("<qQ")


class Counts(msgspec.Struct, array_like=True):
    """Points by how they came, since the series began or was rebuilt."""

    normal: int = 0
    jitter: int = 0
    late: int = 0
    below_floor: int = 0
    """Plain records that were before the floor already when they came."""


class State(msgspec.Struct, array_like=True):
    """What is saved besides the maps."""

    floor: int = AT_MIN
    floor_seq: int = 0
    newest: int = AT_MIN
    points: int = 0
    next_number: int = 1
    sources: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    gone: bytes = b""


class SeriesFold:
    """The state of a series. Owned by one thread: whoever holds its host's lock."""

    def __init__(self, config: SeriesConfig, world: World) -> None:
        self.config = config
        self._world = world
        self._charged = Charged(world.share)
        weakref.finalize(self, self._charged.set, 0).atexit = False
        self._ticks = 0
        self._loaded = False
        self.gone = BitMap64()
        """Records before the floor whose index entries are gone, and which the log still has."""
        self.swept = AT_MIN
        """The floor that nothing in the index is below, as far as this fold has seen to it."""

    def load(self, session: Session, space: int, state: bytes) -> None:
        """Begin with what was saved; with nothing when the state is empty."""
        found = msgspec.msgpack.decode(state, type=State) if state else State()
        self.floor, self.floor_seq = found.floor, found.floor_seq
        self.newest, self.points = found.newest, found.points
        self.counts = found.counts
        self.gone = BitMap64.deserialize(found.gone) if found.gone else BitMap64()
        ram = self._world.ram_bytes
        blocks = self._map(session, space + _BLOCKS, ram // 2)
        late = self._map(session, space + _LATE, ram // 8)
        stored = self._map(session, space + _SOURCES, ram // 8)
        self._maps = (blocks, late, stored)
        self.index = Index(blocks, late, Decoded(ram // 16))
        self.sources = Sources(stored, ram // 4, self.index, self._world.share)
        self.sources.next_number, self.sources.count = found.next_number, found.sources
        self._loaded = True
        self.recount()

    def save(self, session: Session) -> bytes:
        """Hand over what has changed."""
        self.index.write_all()
        self.sources.save()
        for each in self._maps:
            each.save()
        self.recount()
        return msgspec.msgpack.encode(
            State(
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

    def apply(self, source: int, rows: Rows) -> None:
        """Fold records in."""
        count, waiting = len(rows.seqs), len(self.index.pending)
        point = only_point(rows) if count == 1 else None
        if point is not None:
            self._take_one(*point)
        else:
            found = points_of(rows)
            if found.ats:
                self._take(found)
            for floor in found.floors:
                self._raise_floor(floor)
        self.sources.shrink()
        self.index.write_if_due(count, len(self.index.pending) - waiting)
        self._tick(count)

    def digest(self) -> bytes:
        """A checksum of the live points, the newest of each source, and the floor."""
        digest = hashlib.blake2b(_HEAD.pack(self.floor, 0), digest_size=16)
        for name in self.names(self.floor, AT_MAX):
            digest.update(_HEAD.pack(len(name), 0) + name)
            for part in self._told(name):
                digest.update(part)
        return digest.digest()

    def seen(self, first: bytes | None = None, next: bytes | None = None) -> Iterator[Seen]:
        """The floor, then sources with a checksum of their points, their names behind a byte."""
        if not first and (next is None or next > b""):
            yield Seen(b"", _HEAD.pack(self.floor, 0))
        for name in self.names(self.floor, AT_MAX):
            shown = b"s" + name
            if (first is None or shown >= first) and (next is None or shown < next):
                digest = hashlib.blake2b(digest_size=16)
                for part in self._told(name):
                    digest.update(part)
                yield Seen(shown, digest.digest())

    def _told(self, name: bytes) -> Iterator[bytes]:
        """What can be seen of a source, as bytes."""
        found = self.sources.look(name)
        assert found is not None, "a source that was just named"
        yield _HEAD.pack(found.max_at, found.max_seq)
        for ats, seqs, kinds, _ in self._in_parts(found):
            yield _HEAD.pack(len(ats), 0)
            yield struct.pack(f"<{len(ats)}q", *ats)
            yield struct.pack(f"<{len(seqs)}Q", *seqs)
            yield struct.pack(f"<{len(kinds)}I", *kinds)

    def route(self, name: bytes, at: int) -> int:
        """The way that a point of this source would go now."""
        found = self.sources.find(name)
        newest = AT_MIN if found is None else found.max_at
        return route_of(at, newest, self.config.jitter)

    def max_at(self, name: bytes) -> int:
        """The newest at of a source, ``AT_MIN`` when there is none."""
        found = self.sources.find(name)
        return AT_MIN if found is None else found.max_at

    def select(
        self, name: bytes, bounds: Bounds, limit: int = 0, *, payloads: bool = True
    ) -> Points:
        """The live points of a source within bounds, the first so many; 0 is all."""
        found = self.sources.look(name)
        if found is None or found.max_at < bounds.first_at or found.max_at < self.floor:
            return Points([], [], [], [])
        self._tick(_LOOK)
        if bounds.first_at < self.floor:
            bounds = Bounds(self.floor, 0, bounds.last_at)
        return self.index.select(found, bounds, limit, payloads=payloads)

    def names(self, start: int, end: int) -> list[bytes]:
        """Sources that may have live points between two ats, both included, in order."""
        start = max(start, self.floor)
        heads = self.sources.heads()
        return sorted(name for name, head in heads if head.max_at >= start and head.oldest <= end)

    def newest_of(self, name: bytes) -> Points:
        """The newest live point of a source; nothing when there is none."""
        found = self.sources.look(name)
        if found is None or found.max_at < self.floor:
            return Points([], [], [], [])
        self._tick(_LOOK)
        return self.index.select(found, Bounds(found.max_at, found.max_seq, found.max_at))

    def newest_of_all(self) -> tuple[dict[bytes, Points], dict[bytes, int]]:
        """The same of every source that has one in memory; of the others its seq."""
        known: dict[bytes, Points] = {}
        seqs: dict[bytes, int] = {}
        for name, head in self.sources.heads():
            if head.max_at < self.floor:
                continue
            if head.ats:
                known[name] = head.within(Bounds(head.max_at, head.max_seq, head.max_at))
            else:
                seqs[name] = head.max_seq
        return known, seqs

    def evict(self, wanted: int) -> int:
        """Free about so many bytes of memory; how many it were."""
        if not self._loaded:
            return 0  # its pages could not be read: it is about to be replaced
        before = self.recount()
        self.index.decoded.clear()
        self.sources.evict(wanted)
        self.index.write_all()
        return max(0, before - self.recount())

    def recount(self) -> int:
        """Count the memory that is in use; how much it is."""
        self._ticks = 0
        maps = sum(each.statistics().ram_bytes for each in self._maps)
        size = self.sources.size + self.index.pending.size + self.index.decoded.size + maps
        self._charged.set(size)
        self.sources.size_charged = self.sources.size
        return size

    def _tick(self, count: int) -> None:
        """Count memory again when much has happened."""
        self._ticks += count
        if self._ticks >= _RECOUNT_EVERY:
            self.recount()

    def _in_parts(self, source: Source) -> Iterator[Points]:
        """All live points of a source, so many at a time that it makes no difference to memory."""
        bounds = Bounds(self.floor, 0, AT_MAX)
        while True:
            part = self.index.select(source, bounds, _PART, payloads=False)
            yield part
            if len(part.seqs) < _PART:
                return
            bounds = Bounds(part.ats[-1], part.seqs[-1] + 1, AT_MAX)

    def _take(self, found: Found) -> None:
        """Put points into the tails of their sources, and those before that among the late."""
        late: list[LatePoint] = []
        routes = [0, 0, 0]
        hot, find_or_make = self.sources.hot, self.sources.find_or_make
        payloads = small(found.data, self.config.inline_bytes)
        sizes = memory_of(payloads)
        for seq, name, at, given, payload, size in zip(*found[:4], payloads, sizes, strict=True):
            source = hot.get(name)
            if source is None:
                source = find_or_make(name)
            kind = given if given != PLAIN else self._kind_of_plain(source, at)
            routes[kind & ROUTE_MASK] += 1
            if not self._put(source, at, seq, kind, payload, size):
                late.append((source.number, at, seq, kind, payload))
        self.index.add_late(late)
        self.newest = max(self.newest, *found.ats)
        self._count(routes, len(late))
        self.sources.payload_bytes += sum(sizes) - sum(memory_of(point[4] for point in late))

    def _take_one(self, seq: int, name: bytes, at: int, kind: int, data: bytes) -> None:
        """The same with one point of ours, which is what most appends bring."""
        sources = self.sources
        source = sources.hot.get(name)
        if source is None:
            source = sources.find_or_make(name)
        (payload,) = small((data,), self.config.inline_bytes)
        size = len(payload) + PAYLOAD_BYTES if payload else 0
        routes = [0, 0, 0]
        routes[kind & ROUTE_MASK] = 1
        kept = self._put(source, at, seq, kind, payload, size)
        if kept:
            sources.payload_bytes += size
        else:
            self.index.add_late([(source.number, at, seq, kind, payload)])
        self.newest = max(self.newest, at)
        self._count(routes, 0 if kept else 1)

    def _put(
        self, source: Source, at: int, seq: int, kind: int, payload: Payload, size: int
    ) -> bool:
        """Put a point into the tail of its source; False when it is before that."""
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

    def _kind_of_plain(self, source: Source, at: int) -> int:
        self.counts.below_floor += at < self.floor
        return NORMAL if at >= source.max_at else LATE

    def _count(self, routes: list[int], late: int) -> None:
        normal, jitter, came_late = routes
        self.counts.normal += normal
        self.counts.jitter += jitter
        self.counts.late += came_late
        self.points += sum(routes)
        self.sources.tail_points += sum(routes) - late

    def _raise_floor(self, record: Floor) -> None:
        """Only the highest matters, for the floor never falls; the log may forget the others."""
        lower = record.seq
        if record.at > self.floor:
            lower, self.floor_seq = self.floor_seq, record.seq
            self.floor = record.at
        if lower:
            self.gone.add(lower)

    def _map(self, session: Session, space: int, ram_bytes: int) -> PagedMap:
        return PagedMap(session, space=space, ram_bytes=ram_bytes, spill=self._world.spill)


class Charged:
    """What a fold has charged its share with. Owned by one thread."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._size = 0

    def set(self, size: int) -> None:
        if size > self._size:
            self._share.charge(size - self._size)
        else:
            self._share.release(self._size - size)
        self._size = size


def small(payloads: Sequence[bytes], inline_bytes: int) -> list[Payload]:
    """Those that are kept with their points, None in place of the others."""
    if not inline_bytes:
        return [None] * len(payloads)
    if max(map(len, payloads)) <= inline_bytes and set(map(type, payloads)) == {bytes}:
        return list(payloads)
    # What is kept must not change with the caller's buffer.
    return [bytes(each) if len(each) <= inline_bytes else None for each in payloads]


def route_of(at: int, newest: int, jitter: int) -> int:
    """Where a point goes, by the newest of its source."""
    if at >= newest:
        return NORMAL
    return JITTER if at >= newest - jitter else LATE
