"""Opens segment files and reads their blocks, verified, through a bounded cache.

The footer is read on first use and kept; a store with thousands of segments opens none of them
before the first read there. Files stay open in a bounded pool.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict

import msgspec
from pyroaring import BitMap64

from strandline.errors import Corrupt, UnsupportedFormat, of_another_store
from strandline.log.segments import codec
from strandline.log.segments.tag_directory import DamagedGroup, TagDirectory
from strandline.log.wal.block import Block
from strandline.platform.disk import Disk, ReadFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OPEN_FILES_MAX = 64


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A segment as a checkpoint lists it."""

    number: int
    topic_id: int
    first_seq: int
    last_seq: int
    record_count: int
    payload_size: int
    file_size: int
    ts_min: int
    ts_max: int
    created_us: int
    footer_checksum: int
    footer_offset: int

    def name(self) -> str:
        """The file's name below the segments folder. Names of one topic sort by seq."""
        if self.topic_id == codec.SHARED:
            return f"shared/{self.number:020d}.seg"
        return f"{self.topic_id:016x}/{self.first_seq:020d}-{self.number:020d}.seg"


class BlockCache:
    """Verified blocks and tag directories; evicts the least recently used first.

    Tag indexes of topics share its memory. Safe from many threads.
    """

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._size = 0
        self._lent = 0
        self._blocks: OrderedDict[tuple[int, int], Block | TagDirectory] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def size(self) -> int:
        return self._size

    def reserve(self, size: int) -> None:
        """Reduce the cache by so many bytes, which something else in memory uses."""
        with self._lock:
            self._lent = size
            self._shrink()

    def get(self, number: int, offset: int) -> Block | TagDirectory | None:
        with self._lock:
            cached = self._blocks.get((number, offset))
            if cached is None:
                self.misses += 1
                return None
            self._blocks.move_to_end((number, offset))
            self.hits += 1
            return cached

    def put(self, number: int, offset: int, content: Block | TagDirectory) -> None:
        with self._lock:
            old = self._blocks.pop((number, offset), None)
            self._size += content.size - (old.size if old else 0)
            self._blocks[(number, offset)] = content
            self._shrink()

    def _shrink(self) -> None:
        while self._size + self._lent > self.size_max and self._blocks:
            self._size -= self._blocks.popitem(last=False)[1].size


class FilePool:
    """Open segment files; closes the least recently used first. Safe from many threads."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._files: OrderedDict[str, ReadFile] = OrderedDict()
        self._lock = threading.Lock()

    def pread(self, path: str, size: int, offset: int) -> bytes:
        # Under the lock, so that a file is never closed while it is being read. A slow read
        # therefore delays readers of other segments; it cannot delay a writer.
        with self._lock:
            file = self._files.pop(path, None) or self._disk.open_read(path)
            self._files[path] = file
            if len(self._files) > _OPEN_FILES_MAX:
                self._files.popitem(last=False)[1].close()
            return file.pread(size, offset)

    def forget(self, path: str) -> None:
        with self._lock:
            file = self._files.pop(path, None)
            if file is not None:
                file.close()

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()


class Segment:
    """One immutable file of blocks. Safe from many threads."""

    __slots__ = ("_cache", "_index", "_pool", "_seed", "_store_id", "info", "is_held", "path")

    def __init__(
        self,
        info: SegmentInfo,
        directory: str,
        pool: FilePool,
        cache: BlockCache,
        *,
        store_id: bytes,
        seed: int,
    ) -> None:
        self.info = info
        self.path = f"{directory}/{info.name()}"
        self._pool = pool
        self._cache = cache
        self._store_id = store_id
        self._seed = seed
        self._index: codec.SegmentIndex | None = None
        self.is_held = False
        """Whether its index could not be read when the store was opened for writing."""

    def index(self) -> codec.SegmentIndex:
        """The block index, read and verified on first use."""
        if self._index is None:
            self._index = self._read_footer()[1]
        return self._index

    def block(self, place: int) -> Block:
        """The block at a place of the index, verified."""
        index = self.index()
        offset = int(index.offset[place])
        cached = self._cache.get(self.info.number, offset)
        if isinstance(cached, Block):
            return cached
        block = self.read_block(place)
        self._cache.put(self.info.number, offset, block)
        return block

    def read_block(self, place: int) -> Block:
        """As ``block``, without the cache: for jobs that read everything once."""
        index = self.index()
        row = {name: int(getattr(index, name)[place]) for name, _ in codec.COLUMNS}
        stored = self._pool.pread(self.path, row["stored_size"], row["offset"])
        if codec.block_checksum(stored, self._seed, row["offset"]) != row["checksum"]:
            raise self._damaged("a block fails its checksum", row)
        raw = zstd.decompress(stored) if row["stored_size"] != row["raw_size"] else stored
        block = Block(memoryview(raw))
        if (block.topic_id, block.first_seq, block.count) != (
            row["topic"],
            row["first_seq"],
            row["count"],
        ):
            raise self._damaged("a block is in another block's place", row)
        return block

    def find_tagged(self, low: bytes, high: bytes) -> BitMap64:
        """Seqs of the tags from ``low`` to below ``high``, by the footer alone; deleted or not."""
        directory = self.tag_directory()
        at = self.info.footer_offset + codec.tags_offset(len(self.index()))
        try:
            return directory.find(
                low, high, lambda size, start: self._pool.pread(self.path, size, at + start)
            )
        except DamagedGroup as error:
            reason = "the tags of a segment are damaged"
            raise Corrupt(reason, path=self.path, offset=at, **self._range()) from error

    def skip_tags(self, low: bytes, high: bytes) -> None:
        """Skip these tags in later lookups: all of their records are gone."""
        self.tag_directory().skip(low, high)

    def packed_tags(self) -> bytes:
        """The whole tag dictionary as it is stored, read and verified again."""
        footer, index = self._read_footer()
        self._index = index
        return footer[codec.tags_offset(len(index)) :]

    def tag_directory(self) -> TagDirectory:
        """The positions of the tags in the footer; reads all of it when they are not cached."""
        number, offset = self.info.number, self.info.footer_offset
        directory = self._cache.get(number, offset)
        if not isinstance(directory, TagDirectory):
            directory = TagDirectory(self.packed_tags())
            self._cache.put(number, offset, directory)
        return directory

    def verify_header(self) -> None:
        """Check that the file is the one that the checkpoint lists."""
        header = codec.decode_header(self._pool.pread(self.path, codec.HEADER_SIZE, 0))
        if isinstance(header, int):
            raise UnsupportedFormat(f"{self.path} has segment format {header}: upgrade to read it")
        expected = codec.SegmentHeader(
            store_id=self._store_id, number=self.info.number, topic_id=self.info.topic_id
        )
        if header != expected:
            reason = "the header of a segment is damaged, or that of another segment"
            if header is not None and header.store_id != self._store_id:
                reason = of_another_store("segment", header.store_id, self._store_id)
            raise Corrupt(reason, path=self.path, **self._range())

    def _read_footer(self) -> tuple[bytes, codec.SegmentIndex]:
        info = self.info
        try:
            self.verify_header()
            size = info.file_size - info.footer_offset
            data = self._pool.pread(self.path, size, info.footer_offset)
        except FileNotFoundError as error:
            raise Corrupt("a segment is missing", path=self.path, **self._range()) from error
        footer, trailer = data[: -codec.TRAILER_SIZE], data[-codec.TRAILER_SIZE :]
        decoded = codec.decode_trailer(trailer)
        if decoded != (info.footer_offset, len(footer), info.footer_checksum):
            reason = "the end of a segment is damaged"
            raise Corrupt(reason, path=self.path, offset=info.footer_offset, **self._range())
        index = codec.decode_footer(footer, info.footer_checksum, self._seed, info.number)
        if index is None:
            reason = "the index of a segment is damaged"
            raise Corrupt(reason, path=self.path, offset=info.footer_offset, **self._range())
        return footer, index

    def _range(self) -> dict[str, int]:
        info = self.info
        if info.topic_id == codec.SHARED:
            return {}
        return {
            "topic_id": info.topic_id,
            "first_seq": info.first_seq,
            "last_seq": info.last_seq,
        }

    def _damaged(self, reason: str, row: dict[str, int]) -> Corrupt:
        return Corrupt(
            reason,
            path=self.path,
            offset=row["offset"],
            topic_id=row["topic"],
            first_seq=row["first_seq"],
            last_seq=row["first_seq"] + row["count"] - 1,
        )
