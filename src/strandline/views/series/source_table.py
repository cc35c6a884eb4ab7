"""All sources: those in use in memory, the others in an ordered map by name.

Sources and their points may always take ``bytes_min``, and more as long as the share of all series
has room. Beyond that, out of memory goes what was not used for longest, by second chance; of
sources in use only long tails go, into blocks. A read does not bring a source into memory: a scan
over all must not push out those written to.

Payloads have a minimum of their own, as large, and go first: a source that is gone must come back
with its next point, which costs more than payloads in memory save. The first points of a tail
become a block, of one source after the other, until there is room again: so an append waits for
about one block. Of a tail too short for that the payloads are left to the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.config.memory_budget import Share
from strandline.reservoir.btree.btree_map import PagedMap
from strandline.views.series.index import Index
from strandline.views.series.source_state import (
    POINT_BYTES,
    SOURCE_BYTES,
    Source,
    decode,
    decode_head,
    encode,
)

SEAL_MIN = 16
"""A shorter tail goes with its source, and comes back with it."""
SEAL_SHORT = 8
"""The same when it is about payloads: shorter ones are not worth a block."""
SEAL_IN_USE = 64
"""From so many points on, a tail is made to blocks when memory is short, and its source stays."""


class Sources:
    """What is known of all sources. Owned by one thread."""

    def __init__(self, stored: PagedMap, bytes_min: int, index: Index, share: Share) -> None:
        """``index`` takes the blocks that are made of tails."""
        self._stored = stored
        self._bytes_min = bytes_min
        self._index = index
        self._share = share
        self.size_charged = 0
        """The size that the share was last charged with."""
        self.evictions = 0
        """Sources that left memory, or whose tail was cut short for want of it."""
        self.next_number = 1
        self.count = 0
        self.hot: OrderedDict[bytes, Source] = OrderedDict()
        self.tail_points = 0
        """Points in the tails of sources in memory."""
        self.payload_bytes = 0
        """Memory of their payloads."""

    @property
    def size(self) -> int:
        """Bytes of memory."""
        tails = self.tail_points * POINT_BYTES + self.payload_bytes
        return len(self.hot) * SOURCE_BYTES + tails

    def find(self, name: bytes) -> Source | None:
        """A source to be changed; in memory from here on."""
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

    def find_or_make(self, name: bytes) -> Source:
        source = self.find(name)
        if source is None:
            source = Source(self.next_number)
            self.next_number += 1
            self.count += 1
            self.hot[name] = source
        return source

    def look(self, name: bytes) -> Source | None:
        """A source to be read only; of one that is not in memory the tail is packed."""
        source = self.hot.get(name)
        if source is not None:
            return source
        data = self._stored.get(name)
        return None if data is None else decode_head(data, _where(name))

    def heads(self) -> Iterator[tuple[bytes, Source]]:
        """All sources to be read, in memory first; of those that are not the tails are packed."""
        hot = list(self.hot.items())
        complete = len(hot) == self.count
        yield from hot
        if complete:
            return  # what was saved of them, with their tails, need not be read
        known = {name for name, _ in hot}
        for name, data in self._stored.range():
            if name not in known:
                yield name, decode_head(data, _where(name))

    def forget(self, name: bytes) -> None:
        """A source that has no points any more."""
        self._stored.delete(name)
        source = self.hot.pop(name, None)
        if source is not None:
            self._discount(source)
        self.count -= 1

    def seal(self, source: Source, count: int) -> None:
        """Make blocks of the first points of a source in memory."""
        with self.counted(source):
            self._index.seal(source, count)

    def seal_block(self, source: Source, count: int) -> None:
        """Make one block of them, at most of so many."""
        points, payload_bytes = len(source.ats), source.payload_bytes
        self._index.seal_block(source, count)
        self.tail_points += len(source.ats) - points
        self.payload_bytes += source.payload_bytes - payload_bytes

    @contextmanager
    def counted(self, source: Source) -> Iterator[None]:
        """While the tail of a source in memory is changed."""
        points, payload_bytes = len(source.ats), source.payload_bytes
        try:
            yield
        finally:
            self.tail_points += len(source.ats) - points
            self.payload_bytes += source.payload_bytes - payload_bytes

    def shrink(self) -> None:
        """Come back to what the share has room for, or to the minimum."""
        if not self._is_too_large():
            return
        while self.hot and self.payload_bytes > self._bytes_min and self._is_too_large():
            self._lighten_one()
        minimum = self._bytes_min
        while self.hot and self.size - self.payload_bytes > minimum and self._is_too_large():
            self._evict_one()

    def _is_too_large(self) -> bool:
        return self.size - self.size_charged > self._share.room

    def evict(self, wanted: int) -> None:
        """Put sources away until so many bytes are free, or none is left."""
        target = max(0, self.size - wanted)
        while self.hot and self.size > target:
            self._evict_one()

    def save(self) -> None:
        """Bring the map up to date; what is in memory stays there."""
        changed = [(name, source) for name, source in self.hot.items() if source.dirty]
        self._stored.put_many((name, encode(source)) for name, source in changed)
        for _, source in changed:
            source.dirty = False

    def _evict_one(self) -> None:
        """Put the next source away; one in use has a second chance."""
        self.evictions += 1
        name, source = next(iter(self.hot.items()))
        if not source.used:
            self._put_away(name, source)
            return
        source.used = False
        self.hot.move_to_end(name)
        if len(source.ats) >= SEAL_IN_USE:
            self.seal(source, len(source.ats) - SEAL_MIN)

    def _lighten_one(self) -> None:
        """Let payloads of the next source go from memory."""
        self.evictions += 1
        name, source = next(iter(self.hot.items()))
        self.hot.move_to_end(name)
        count = len(source.ats)
        if count >= SEAL_SHORT:
            # The last ones stay, so that points a little out of order are not all late.
            self.seal_block(source, count - count // 4)
        else:
            with self.counted(source):
                source.leave_payloads()

    def _put_away(self, name: bytes, source: Source) -> None:
        """What can fail comes first, so that nothing is lost when it does."""
        if len(source.ats) >= SEAL_MIN:
            self.seal(source, len(source.ats))
        if source.dirty:
            self._stored.put(name, encode(source))
        del self.hot[name]
        self._discount(source)

    def _discount(self, source: Source) -> None:
        """A source leaves memory with its tail."""
        self.tail_points -= len(source.ats)
        self.payload_bytes -= source.payload_bytes


def _where(name: bytes) -> str:
    return f"source {name!r} of a series"
