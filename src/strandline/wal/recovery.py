"""Reads a shard's log after a crash: what is whole, where it ends, and whether that is a lie.

Frame by frame from the last checkpoint:

1. header and body check: the frame counts.
2. the place is at or above everything known to be synced, and the frame there was never completely
   written (its first eight bytes are zero, or one of its sectors is): a torn write. The log ends
   here, and whatever follows was never promised to anybody.
3. anything else is damage. The log is refused for writing, with file, lsn and reason; a read-only
   opening and ``strandline repair`` go on behind it. Stopping at the first bad frame instead would
   silently drop acknowledged records for one flipped bit.

"Known to be synced" is the largest ``durable_upto`` of any frame header in the shard, also behind
the bad place: a later frame says what was durable when it was written, and headers can be found
again without the frames before them, because each carries its own lsn. A file header says the same,
and a file of a later term that nothing before its first lsn was in doubt when it was made.

Files are read in order of term, then shard: a topic has one shard per term, so its records come in
order even when the count of shards changed between openings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from strandline.env.disk import Disk, ReadFile
from strandline.errors import Corrupt, NewerFormat
from strandline.wal import block, codec
from strandline.wal.codec import FILE_HEADER_SIZE, HEADER_SIZE
from strandline.wal.files import (
    BLOCK_AT,
    LOCATION_SHARD_BITS,
    MASKED_BLOCK_AT,
    ShardFiles,
    WalFile,
    first_lsn_of,
)

_CHECK = struct.Struct("<Q")


class Single(msgspec.Struct, frozen=True, gc=False):
    """A verified frame with one record."""

    location: int
    ts: int
    topic_id: int
    seq: int
    sizes: int
    body: memoryview


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A verified frame with blocks: the location and bytes of each."""

    location: int
    ts: int
    blocks: list[tuple[int, memoryview]]


Frame = Single | Batch


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """A place of the log that is not what was written."""

    path: str
    offset: int
    lsn: int
    reason: str

    def error(self) -> Corrupt:
        return Corrupt(f"{self.reason} (lsn {self.lsn})", path=self.path, offset=self.offset)


class ShardLog:
    """The files of one shard as recovery found them. Owned by one thread."""

    def __init__(self, disk: Disk, directory: str, shard: int, store_id: bytes) -> None:
        self.files = ShardFiles(disk, directory, shard)
        self.headers: list[codec.FileHeader] = []
        self.cut: list[str] = []
        self.damage: list[Damage] = []
        self.end_lsn = 0
        self.previous = 0
        self.last_ts = 0
        self.durable_upto = 0
        self._offset = 0
        self._store_id = store_id
        self._seed = codec.store_seed(store_id)
        self._header_seed = codec.shard_seed(store_id, shard)
        self._find_files()

    def scan(
        self, place: int, start_lsn: int, *, tolerate: bool = False, until_lsn: int | None = None
    ) -> Iterator[Frame]:
        """The frames of one file from an lsn on. Raises Corrupt unless damage is tolerated."""
        entry, header = self.files.entries[place], self.headers[place]
        content = memoryview(entry.file.pread(entry.file.size(), 0).ljust(entry.size, b"\0"))
        limit = self.files.end_of(place)
        end = len(content) if limit is None else FILE_HEADER_SIZE + limit - header.first_lsn
        if until_lsn is not None:
            end = min(end, FILE_HEADER_SIZE + until_lsn - header.first_lsn)
        offset = FILE_HEADER_SIZE + max(0, start_lsn - header.first_lsn)
        base = header.first_lsn - FILE_HEADER_SIZE
        self.durable_upto = max(self.durable_upto, header.durable_upto)
        while True:
            yield from self._frames(content, offset, end, base)
            offset = self._offset
            self.end_lsn = base + offset
            if until_lsn is not None and self.end_lsn >= until_lsn:
                return
            if limit == self.end_lsn and self._chained(place, tolerate=tolerate):
                return
            resumed = self._stopped(content, offset, place, tolerate=tolerate)
            if resumed is None:
                return
            offset = resumed

    def _frames(self, content: memoryview, offset: int, end: int, base: int) -> Iterator[Frame]:
        """Whole frames one after another, until the first place that is none (``_offset``)."""
        unpack = codec.HEADER.unpack_from
        shard_bits = self.files.shard << LOCATION_SHARD_BITS
        seed, header_seed = self._seed, self._header_seed
        digest = xxh3_64_intdigest
        self._offset = offset
        while offset + HEADER_SIZE <= end:
            header = unpack(content, offset)
            size, check, kind, mask, count, _, lsn, durable, ts, body_check, *single = header
            behind = offset + size
            if lsn != base + offset or size <= HEADER_SIZE or behind > end:
                return
            rest = content[offset + 8 : offset + HEADER_SIZE]
            if digest(rest, header_seed + size) & 0xFFFF_FFFF != check:
                return
            body = content[offset + HEADER_SIZE : behind]
            if mask:
                body = memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
            if kind == 1:
                if digest(body, seed) != body_check:
                    return
                frame: Frame = Single(shard_bits | lsn, ts, single[0], single[1], single[2], body)
            else:
                blocks = self._blocks(body, count, body_check, shard_bits | lsn, mask)
                if blocks is None:
                    return
                frame = Batch(shard_bits | lsn, ts, blocks)
            self.durable_upto = max(self.durable_upto, durable)
            self.last_ts = max(self.last_ts, ts)
            self.previous = size | check << 32
            self._offset = offset = behind
            yield frame

    def _blocks(
        self, body: memoryview, count: int, body_check: int, location: int, mask: int
    ) -> list[tuple[int, memoryview]] | None:
        blocks, checks, start = [], [], 0
        location += HEADER_SIZE | (MASKED_BLOCK_AT if mask else BLOCK_AT)
        for _ in range(count):
            if not block.verify(body[start:], self._seed):
                return None
            checksum, size = struct.unpack_from("<QI", body, start)
            blocks.append((location + start, body[start : start + size]))
            checks.append(_CHECK.pack(checksum))
            start += size
        if xxh3_64_intdigest(b"".join(checks), self._seed) != body_check:
            return None
        return blocks

    def _chained(self, place: int, *, tolerate: bool) -> bool:
        """Whether the next file was begun behind the very frame that we read last."""
        following = self.headers[place + 1]
        if following.previous == self.previous or tolerate:
            return True
        entry = self.files.entries[place + 1]
        reason = "the file does not follow the one before it"
        damage = Damage(path=entry.path, offset=0, lsn=following.first_lsn, reason=reason)
        raise damage.error()

    def _stopped(
        self, content: memoryview, offset: int, place: int, *, tolerate: bool
    ) -> int | None:
        """Decide what a place without a whole frame means; the offset to go on from, or None."""
        entry, header = self.files.entries[place], self.headers[place]
        base = header.first_lsn - FILE_HEADER_SIZE
        found = self._headers_behind(content, offset, base)
        durable = max([self.durable_upto, *(upto for _, upto in found), self._said_later(place)])
        if base + offset >= durable and self._torn(content, offset):
            self.cut = [later.path for later in self.files.entries[place + 1 :]]
            self.files.keep(place + 1)
            self.headers = self.headers[: place + 1]
            return None
        reason = "a damaged frame" if self._torn_free(content, offset) else "synced frames are gone"
        damage = Damage(path=entry.path, offset=offset, lsn=base + offset, reason=reason)
        if not tolerate:
            raise damage.error()
        self.damage.append(damage)
        if found:
            return found[0][0]
        self.end_lsn = self.files.end_of(place) or self.end_lsn
        return None

    def _headers_behind(self, content: memoryview, offset: int, base: int) -> list[tuple[int, int]]:
        """Offset and durable_upto of every frame header behind a bad place."""
        words = np.frombuffer(content, dtype="<u8", count=len(content) // 8)
        first = offset // 8 + 1
        lsns = words[first + 2 :]
        places = np.arange(first, first + len(lsns), dtype="<u8") * np.uint64(8)
        hits = places[lsns == places + np.uint64(base % 2**64)]
        found = []
        for hit in hits.tolist():
            header = codec.HEADER.unpack(
                bytes(content[hit : hit + HEADER_SIZE]).ljust(HEADER_SIZE, b"\0")
            )
            size, check, durable = header[0], header[1], header[7]
            rest = content[hit + 8 : hit + HEADER_SIZE]
            if codec.header_ok(check, rest, self._header_seed, size):
                found.append((hit, durable))
        return found

    def _said_later(self, place: int) -> int:
        """What the files behind this one say was durable."""
        term = self.headers[place].term
        said = 0
        for header, entry in zip(
            self.headers[place + 1 :], self.files.entries[place + 1 :], strict=True
        ):
            said = max(said, header.durable_upto)
            if header.term > term:
                said = max(said, header.first_lsn)
            content = memoryview(entry.file.pread(entry.file.size(), 0))
            base = header.first_lsn - FILE_HEADER_SIZE
            start = FILE_HEADER_SIZE - 8
            said = max([said, *(upto for _, upto in self._headers_behind(content, start, base))])
        return said

    def _torn(self, content: memoryview, offset: int) -> bool:
        """Whether the frame at a place was never completely written."""
        if offset + HEADER_SIZE > len(content) or not any(content[offset : offset + 8]):
            return True
        return not self._torn_free(content, offset)

    def _torn_free(self, content: memoryview, offset: int) -> bool:
        """Whether every sector of the frame at a place has been written."""
        head = content[offset : offset + HEADER_SIZE]
        if len(head) < HEADER_SIZE or not any(head[:8]):
            return False
        size, check = codec.FIRST.unpack_from(head)
        if not codec.header_ok(check, head[8:], self._header_seed, size):
            size = HEADER_SIZE
        first = offset - offset % codec.SECTOR
        return all(
            any(content[start : start + codec.SECTOR])
            for start in range(first, offset + size, codec.SECTOR)
        )

    def _find_files(self) -> None:
        disk, directory = self.files.disk, self.files.directory
        for name in disk.list_dir(directory):
            first_lsn = first_lsn_of(name)
            if first_lsn is None:
                continue
            path = f"{directory}/{name}"
            file = disk.open_read(path)
            header = self._header_of(file, path, first_lsn)
            if header is None or (self.headers and header.term < self.headers[-1].term):
                self.cut.append(path)
                file.close()
                continue
            self.headers.append(header)
            self.files.add(WalFile(first_lsn, header.term, header.file_size, path, file))
        if self.headers:
            self.end_lsn = self.headers[0].first_lsn

    def _header_of(self, file: ReadFile, path: str, first_lsn: int) -> codec.FileHeader | None:
        """The file's header, or None when the file was never begun."""
        start = file.pread(FILE_HEADER_SIZE, 0)
        header = codec.decode_file_header(start)
        if isinstance(header, int):
            raise NewerFormat(
                f"{path} has WAL format {header}; this version reads {codec.FORMAT_VERSION}"
            )
        if header is None:
            base = first_lsn - FILE_HEADER_SIZE
            content = memoryview(file.pread(file.size(), 0))
            said = [upto for _, upto in self._headers_behind(content, 0, base)]
            if any(content[: codec.SECTOR]) or max(said, default=0) > first_lsn:
                raise Corrupt("the header of a WAL file is damaged", path=path)
            return None
        mine = (header.store_id, header.shard, header.first_lsn)
        if mine != (self._store_id, self.files.shard, first_lsn):
            raise Corrupt("the file belongs to another place or store", path=path)
        return header


def in_order(logs: Sequence[ShardLog]) -> list[tuple[ShardLog, int]]:
    """Every file of every shard in the order in which their records follow each other."""
    places = [(log, place) for log in logs for place in range(len(log.headers))]
    return sorted(
        places,
        key=lambda at: (
            at[0].headers[at[1]].term,
            at[0].files.shard,
            at[0].headers[at[1]].first_lsn,
        ),
    )
