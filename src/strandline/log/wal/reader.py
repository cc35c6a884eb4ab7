"""Reads published records from the WAL, by location.

Neighbouring locations are served from one read: a reader keeps the last window of the file that it
read. The first window is small, for reads of the newest record alone; the following ones grow.
Every frame and block is verified each time; a window that is older than the frame (the log grew
meanwhile) is read again before damage is reported.
"""

from __future__ import annotations

from strandline.errors import Corrupt
from strandline.log.wal import block, codec
from strandline.log.wal.log_files import (
    LOCATION_LSN,
    LOCATION_SHARD_BITS,
    MASKED_BLOCK_AT,
    ShardFiles,
)

_WINDOW_SIZE_FIRST = 4 * 1024
_WINDOW_SIZE_MAX = 128 * 1024
_KIND = 7

Single = tuple[int, int, list[bytes | None], bytes, int]
"""Topic id, seq, the optional fields, the data, ts."""


class Reader:
    """Reads the logs of all shards of a store. Owned by one thread."""

    def __init__(self, shards: dict[int, ShardFiles], store_id: bytes) -> None:
        self._shards = shards
        self._store_id = store_id
        self._seed = self.seed = codec.store_seed(store_id)
        self._window = memoryview(b"")
        self._window_path = ""
        self._window_offset = 0
        self._window_size = _WINDOW_SIZE_FIRST

    def single(self, location: int) -> Single:
        """The record of a single frame."""
        shard = location >> LOCATION_SHARD_BITS
        lsn = location & LOCATION_LSN
        header_seed = codec.shard_seed(self._store_id, shard)
        for fresh in (False, True):
            view = self._bytes(shard, lsn, codec.HEADER_SIZE, fresh=fresh)
            header = codec.HEADER.unpack(view)
            size, check, kind, mask, _, _, at, _, ts, body_check, topic_id, seq, sizes = header
            if at != lsn or kind != codec.SINGLE or size <= codec.HEADER_SIZE:
                continue
            if not codec.header_ok(check, view[8:], header_seed, size):
                continue
            body = self._bytes(shard, lsn, size, fresh=fresh)[codec.HEADER_SIZE :]
            if mask:
                body = memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
            if codec.body_ok(body, body_check, self._seed):
                return (topic_id, seq, *codec.split_single(sizes, body), ts)
        raise self._corrupt(shard, lsn, "a record fails its checksum")

    def block(self, location: int) -> block.Block:
        """The block at a location."""
        shard = location >> LOCATION_SHARD_BITS
        lsn = location & LOCATION_LSN
        masks = range(1, 256) if location & _KIND == MASKED_BLOCK_AT else (0,)
        for fresh in (False, True):
            for mask in masks:
                head = _unmasked(self._bytes(shard, lsn, block.HEADER_SIZE, fresh=fresh), mask)
                size = block.HEADER.unpack(head)[1]
                if not block.HEADER_SIZE <= size <= self._size_max(shard, lsn) or size % 8:
                    continue
                view = _unmasked(self._bytes(shard, lsn, size, fresh=fresh), mask)
                if block.verify(view, self._seed):
                    return block.Block(view)
        raise self._corrupt(shard, lsn, "a block fails its checksum")

    def _bytes(self, shard: int, lsn: int, size: int, *, fresh: bool) -> memoryview:
        """The bytes at an lsn; zeros after the end of a truncated file."""
        entry, offset = self._shards[shard].locate(lsn)
        start = offset - self._window_offset
        inside = entry.path == self._window_path and 0 <= start <= len(self._window) - size
        if fresh or not inside:
            data = entry.file.pread(max(size, self._window_size), offset)
            self._window_size = min(8 * self._window_size, _WINDOW_SIZE_MAX)
            self._window = memoryview(data.ljust(size, b"\0"))
            self._window_path, self._window_offset, start = entry.path, offset, 0
        return self._window[start : start + size]

    def _size_max(self, shard: int, lsn: int) -> int:
        """The number of bytes from an lsn to the end of its file."""
        entry, offset = self._shards[shard].locate(lsn)
        return entry.size - offset

    def _corrupt(self, shard: int, lsn: int, reason: str) -> Corrupt:
        entry, offset = self._shards[shard].locate(lsn)
        return Corrupt(reason, path=entry.path, offset=offset)


def _unmasked(view: memoryview, mask: int) -> memoryview:
    return memoryview(codec.masked(view, mask)) if mask else view
