"""All sources of a series: recently used ones in memory, the others in an ordered map by name.

Sources and their points may always take ``bytes_min``, and more while the share of all series has
free memory. Beyond that, the least recently used sources are evicted, by second chance; of sources
in use, only long tails are evicted, into blocks. A read does not load a source into memory: a scan
over all sources must not evict those that are written to.

Payloads have a separate minimum of the same size, and are evicted first: an evicted source must be
loaded again for its next point, which costs more than payloads in memory save. The first points of
a tail become a block, of one source after the other, until memory is free: so an append waits for
about one block. If a tail is too short for a block, its payloads are dropped: the log has them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.config.memory_budget import MemoryShare
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.series.index import PointIndex
from strandline.views.series.source_state import (
    POINT_BYTES,
    SOURCE_BYTES,
    SourceState,
    decode,
    decode_head,
    encode,
)

SEAL_MIN = 16
"""A shorter tail is evicted and loaded together with its source."""
SEAL_SHORT = 8
"""The same for the eviction of payloads: shorter tails are not worth a block."""
SEAL_IN_USE = 64
"""From so many points on, a tail becomes blocks when memory is short, and its source stays."""


class SourceTable:
    """The states of all sources. Owned by one thread."""

    def __init__(
        self, stored: PagedMap, bytes_min: int, index: PointIndex, share: MemoryShare
    ) -> None:
        """``index`` gets the blocks that are built from tails."""
        self._stored = stored
        self._bytes_min = bytes_min
        self._index = index
        self._share = share
        self.size_charged = 0
        """The size that was last charged to the share."""
        self.evictions = 0
        """Sources that were evicted, or whose tail was shortened to free memory."""
        self.next_number = 1
        self.count = 0
        self.hot: OrderedDict[bytes, SourceState] = OrderedDict()
        self.tail_points = 0
        """Points in the tails of sources in memory."""
        self.payload_bytes = 0
        """Memory of their payloads."""

    @property
    def size(self) -> int:
        """Bytes of memory."""
        tails = self.tail_points * POINT_BYTES + self.payload_bytes
        return len(self.hot) * SOURCE_BYTES + tails

    def find(self, name: bytes) -> SourceState | None:
        """A source to change; it is loaded into memory."""
        source = self.hot.get(name)
        if source is not None:
            return source
        data = self._stored.get(name)
        if data is None:
            return None
        self.shrink()
        source = decode(data, _where(name))
        self.hot[name] = source
        self.tail_points += len(source.ats)
        self.payload_bytes += source.payload_bytes
        return source

    def find_or_create(self, name: bytes) -> SourceState:
        source = self.find(name)
        if source is None:
            source = SourceState(self.next_number)
            self.next_number += 1
            self.count += 1
            self.hot[name] = source
        return source

    def find_readonly(self, name: bytes) -> SourceState | None:
        """A source to read; if it is not in memory, its tail stays packed."""
        source = self.hot.get(name)
        if source is not None:
            return source
        data = self._stored.get(name)
        return None if data is None else decode_head(data, _where(name))

    def heads(self) -> Iterator[tuple[bytes, SourceState]]:
        """All sources to read, those in memory first; the tails of the others stay packed."""
        hot = list(self.hot.items())
        complete = len(hot) == self.count
        yield from hot
        if complete:
            return  # all sources are in memory: the map need not be read
        in_memory = {name for name, _ in hot}
        for name, data in self._stored.range():
            if name not in in_memory:
                yield name, decode_head(data, _where(name))

    def forget(self, name: bytes) -> None:
        """Delete a source without points."""
        self._stored.delete(name)
        source = self.hot.pop(name, None)
        if source is not None:
            self._uncount(source)
        self.count -= 1

    def seal(self, source: SourceState, count: int) -> None:
        """Build blocks of the first points of a source in memory."""
        with self.counting(source):
            self._index.seal(source, count)

    def seal_block(self, source: SourceState, count: int) -> None:
        """Build one block of at most ``count`` first points."""
        points, payload_bytes = len(source.ats), source.payload_bytes
        self._index.seal_block(source, count)
        self.tail_points += len(source.ats) - points
        self.payload_bytes += source.payload_bytes - payload_bytes

    @contextmanager
    def counting(self, source: SourceState) -> Iterator[None]:
        """Update the counters for changes of the tail of a source in memory."""
        points, payload_bytes = len(source.ats), source.payload_bytes
        try:
            yield
        finally:
            self.tail_points += len(source.ats) - points
            self.payload_bytes += source.payload_bytes - payload_bytes

    def shrink(self) -> None:
        """Evict until the memory fits the share, or down to the minimum."""
        if not self._is_too_large():
            return
        while self.hot and self.payload_bytes > self._bytes_min and self._is_too_large():
            self._free_payloads()
        minimum = self._bytes_min
        while self.hot and self.size - self.payload_bytes > minimum and self._is_too_large():
            self._evict_one()

    def _is_too_large(self) -> bool:
        return self.size - self.size_charged > self._share.spare_bytes

    def evict(self, size: int) -> None:
        """Evict sources until ``size`` bytes are freed, or none is left."""
        target = max(0, self.size - size)
        while self.hot and self.size > target:
            self._evict_one()

    def save(self) -> None:
        """Write changed sources to the map; they stay in memory."""
        changed = [(name, source) for name, source in self.hot.items() if source.dirty]
        self._stored.put_many((name, encode(source)) for name, source in changed)
        for _, source in changed:
            source.dirty = False

    def _evict_one(self) -> None:
        """Evict the next source; one that was used recently gets a second chance."""
        self.evictions += 1
        name, source = next(iter(self.hot.items()))
        if not source.used:
            self._evict_source(name, source)
            return
        source.used = False
        self.hot.move_to_end(name)
        if len(source.ats) >= SEAL_IN_USE:
            self.seal(source, len(source.ats) - SEAL_MIN)

    def _free_payloads(self) -> None:
        """Free the payloads of the next source."""
        self.evictions += 1
        name, source = next(iter(self.hot.items()))
        self.hot.move_to_end(name)
        count = len(source.ats)
        if count >= SEAL_SHORT:
            # The last points stay, so that points slightly out of order do not become late.
            self.seal_block(source, count - count // 4)
        else:
            with self.counting(source):
                source.drop_payloads()

    def _evict_source(self, name: bytes, source: SourceState) -> None:
        """Evict a source. Steps that can fail are first, so that a failure loses nothing."""
        if len(source.ats) >= SEAL_MIN:
            self.seal(source, len(source.ats))
        if source.dirty:
            self._stored.put(name, encode(source))
        del self.hot[name]
        self._uncount(source)

    def _uncount(self, source: SourceState) -> None:
        """Update the counters for a source that leaves memory with its tail."""
        self.tail_points -= len(source.ats)
        self.payload_bytes -= source.payload_bytes


def _where(name: bytes) -> str:
    return f"source {name!r} of a series"
