"""Reads a shard's log after a crash: intact frames, the end of the log, and damage.

Frame by frame from the last checkpoint:

1. header and body check: the frame counts.
2. the place is at or above everything known to be synced, and the frame there was never completely
   written (its first eight bytes are zero, or one of its sectors is): a torn write. The log ends
   here, and whatever follows was never acknowledged as durable.
3. anything else is damage. The log is rejected for writing, with file, lsn and reason; a read-only
   opening and ``strandline repair`` continue after it. Stopping at the first bad frame instead
   would silently drop acknowledged records for one flipped bit.

"Known to be synced" is the largest ``durable_upto`` of any frame header in the shard, also after
the bad place: a later frame has what was durable when it was written, and headers can be found
without the frames before them, because each has its own lsn. A file header has the same, and a file
of a later term shows that everything before its first lsn was durable when it was created.

Files are read in order of term, then shard: a topic has one shard per term, so its records come in
order even when the count of shards changed between openings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec
from xxhash import xxh3_64_intdigest

from strandline.errors import Corrupt, UnsupportedFormat, of_another_store
from strandline.log.wal import block, codec
from strandline.log.wal.codec import FILE_HEADER_SIZE, HEADER_SIZE
from strandline.log.wal.log_files import (
    BLOCK_AT,
    LOCATION_SHARD_BITS,
    MASKED_BLOCK_AT,
    ShardFiles,
    WalFile,
    first_lsn_of,
)
from strandline.log.wal.resync import headers_after, is_torn, is_written
from strandline.log.wal.salvage import LogLoss, SalvageResult, examine
from strandline.platform.direct_file import aligned_memory
from strandline.platform.disk import Disk, ReadFile

_CHECK = struct.Struct("<Q")
_WINDOW_SIZE = 1024 * 1024


class SingleFrame(msgspec.Struct, frozen=True, gc=False):
    """A verified frame with one record."""

    location: int
    ts: int
    topic_id: int
    seq: int
    sizes: int
    body: memoryview


class BatchFrame(msgspec.Struct, frozen=True, gc=False):
    """A verified frame with blocks: the location and bytes of each."""

    location: int
    ts: int
    blocks: list[tuple[int, memoryview]]


Frame = SingleFrame | BatchFrame


class LogDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A place of the log that is not what was written, and its losses (``log/wal/salvage.py``)."""

    path: str
    offset: int
    lsn: int
    reason: str
    end_lsn: int = 0
    """The lsn where reading continued; 0 when it stopped."""
    losses: tuple[LogLoss, ...] = ()
    unknown_size: int = 0

    def error(self) -> Corrupt:
        return Corrupt(f"{self.reason} (lsn {self.lsn})", path=self.path, offset=self.offset)


class ScratchMemory:
    """Memory that every read reuses: touching new memory costs more than reading.

    The next read overwrites the frames of the last one.
    """

    def __init__(self) -> None:
        self._memory = memoryview(b"")

    def read(self, file: ReadFile) -> memoryview:
        return self.window(file, 0, file.size())

    def window(self, file: ReadFile, offset: int, size: int) -> memoryview:
        if len(self._memory) < size:
            self._memory = aligned_memory(size)
        return self._memory[: file.pread_into(self._memory[:size], offset)]


class _FreshMemory:
    """New memory for every read, for frames that are kept."""

    def read(self, file: ReadFile) -> memoryview:
        return memoryview(file.pread(file.size(), 0))


class ShardLog:
    """The files of one shard as recovery found them. Owned by one thread."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        shard: int,
        store_id: bytes,
        *,
        tolerate: bool = False,
        names: Sequence[str] | None = None,
        scratch: ScratchMemory | None = None,
    ) -> None:
        self.files = ShardFiles(disk, directory, shard)
        self.headers: list[codec.FileHeader] = []
        self.cut: list[str] = []
        self.damage: list[LogDamage] = []
        self.foreign_files: list[LogDamage] = []
        """Files of another store or shard in the place of ours, whose records are lost."""
        self.end_lsn = 0
        self.previous = 0
        self.last_ts = 0
        self.durable_upto = 0
        self._offset = 0
        self._store_id = store_id
        self._seed = codec.store_seed(store_id)
        self._header_seed = codec.shard_seed(store_id, shard)
        self._tolerate = tolerate
        self._scratch: ScratchMemory | _FreshMemory = scratch or _FreshMemory()
        self._cut_off: set[str] = set()
        self._earlier_headers: list[codec.FileHeader] = []
        self._find_files(disk.list_dir(directory) if names is None else names)

    def scan(self, place: int, start_lsn: int, *, until_lsn: int | None = None) -> Iterator[Frame]:
        """The frames of one file from an lsn on. Raises Corrupt unless damage is tolerated."""
        header = self.headers[place]
        limit = self.files.end_of(place)
        end = self.files.entries[place].size
        if limit is not None:  # after the content when the file in between was never begun
            end = min(end, FILE_HEADER_SIZE + limit - header.first_lsn)
        if until_lsn is not None:
            end = min(end, FILE_HEADER_SIZE + until_lsn - header.first_lsn)
        offset = FILE_HEADER_SIZE + max(0, start_lsn - header.first_lsn)
        base = header.first_lsn - FILE_HEADER_SIZE
        self.durable_upto = max(self.durable_upto, header.durable_upto)
        content = memoryview(b"")
        if isinstance(self._scratch, ScratchMemory):
            yield from self._windows(self._scratch, place, offset, end)
            offset = self._offset
        if limit != base + offset and until_lsn != base + offset:
            content = self._content(place)
            end = min(end, len(content))
        while True:
            yield from self._frames(content, offset, end, base)
            offset = self._offset
            self.end_lsn = base + offset
            if until_lsn is not None and self.end_lsn >= until_lsn:
                return
            if limit == self.end_lsn and self._chained(place):
                return
            salvaged, resumed = self._stopped(content, offset, place, end)
            if salvaged is not None and salvaged.blocks:
                yield BatchFrame(salvaged.location, salvaged.ts, salvaged.blocks)
            if resumed is None:
                return
            if resumed == offset:
                content = self._content(place)
            offset = resumed

    def _windows(
        self, scratch: ScratchMemory, place: int, offset: int, end: int
    ) -> Iterator[Frame]:
        """The frames that fit into a small window of memory, which stays in the CPU caches.

        Where this stops, for whatever reason (``_offset``), the whole file has to be read.
        """
        entry, base = self.files.entries[place], self.headers[place].first_lsn - FILE_HEADER_SIZE
        self._offset = offset
        if entry.file.size() < entry.size:
            return
        while offset + HEADER_SIZE <= end:
            content = scratch.window(entry.file, offset, min(_WINDOW_SIZE, end - offset))
            yield from self._frames(content, 0, len(content), base + offset)
            if not self._offset:
                break
            offset += self._offset
        self._offset = offset

    def _frames(self, content: memoryview, offset: int, end: int, base: int) -> Iterator[Frame]:
        """Intact frames in order, up to the first place without one (``_offset``)."""
        unpack = codec.HEADER.unpack_from
        shard_bits = self.files.shard << LOCATION_SHARD_BITS
        seed, header_seed = self._seed, self._header_seed
        digest = xxh3_64_intdigest
        self._offset = offset
        while offset + HEADER_SIZE <= end:
            header = unpack(content, offset)
            size, check, kind, mask, count, _, lsn, durable, ts, body_check, topic, seq, sizes = (
                header
            )
            following = offset + size
            if lsn != base + offset or size <= HEADER_SIZE or following > end:
                return
            rest = content[offset + 8 : offset + HEADER_SIZE]
            if digest(rest, header_seed + size) & 0xFFFF_FFFF != check:
                return
            body = content[offset + HEADER_SIZE : following]
            if mask:
                body = memoryview(codec.masked(body[:-8], mask) + bytes(body[-8:]))
            if kind == 1:
                if digest(body, seed) != body_check:
                    return
                frame: Frame = SingleFrame(shard_bits | lsn, ts, topic, seq, sizes, body)
            else:
                blocks = self._blocks(body, count, body_check, shard_bits | lsn, mask)
                if blocks is None:
                    return
                frame = BatchFrame(shard_bits | lsn, ts, blocks)
            if durable > self.durable_upto:  # noqa: PLR1730 - max() costs a call per frame
                self.durable_upto = durable
            if ts > self.last_ts:  # noqa: PLR1730 - as above
                self.last_ts = ts
            self.previous = size | check << 32
            self._offset = offset = following
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

    def release_scratch(self) -> None:
        """Release the memory, after the log has been read."""
        self._scratch = _FreshMemory()

    def _content(self, place: int) -> memoryview:
        """All bytes of a file, after a check whether it was truncated."""
        entry, header = self.files.entries[place], self.headers[place]
        content = self._scratch.read(entry.file)
        if len(content) < entry.size:
            # A file gets its size in one step, before its first byte: the loss of the page cache
            # can undo that step only if nothing in the file was synced.
            base = header.first_lsn - FILE_HEADER_SIZE
            found = [upto for _, upto in self._headers_after(content, FILE_HEADER_SIZE - 8, base)]
            synced = max([self.durable_upto, *found, self._durable_later(place)])
            if header.page_cache == self.files.page_cache() or synced > header.first_lsn:
                self._complain(entry.path, len(content), base + len(content), "the file is cut off")
                self._cut_off.add(entry.path)
            content = memoryview(bytes(content).ljust(entry.size, b"\0"))
        return content

    def _complain(self, path: str, offset: int, lsn: int, reason: str) -> None:
        """Raise damage that by itself loses no record, or note it when damage is tolerated."""
        damage = LogDamage(path=path, offset=offset, lsn=lsn, reason=reason, end_lsn=lsn)
        if not self._tolerate:
            raise damage.error()
        self.damage.append(damage)

    def _chained(self, place: int) -> bool:
        """Check that the next file was begun after the frame that was read last; True."""
        following, path = self.headers[place + 1], self.files.entries[place + 1].path
        known = any(damage.path in (path, self.files.entries[place].path) for damage in self.damage)
        if following.previous not in (0, self.previous) and not known:
            reason = "the file does not follow the one before it"
            self._complain(path, 0, following.first_lsn, reason)
        return True

    def _stopped(
        self, content: memoryview, offset: int, place: int, end: int
    ) -> tuple[SalvageResult | None, int | None]:
        """Classify a place without an intact frame; its salvage, and the offset to continue at."""
        entry, header = self.files.entries[place], self.headers[place]
        base = header.first_lsn - FILE_HEADER_SIZE
        found = self._headers_after(content, offset, base)
        durable = max([self.durable_upto, *(upto for _, upto in found), self._durable_later(place)])
        torn = is_torn(content, offset, self._header_seed) and self._ends(place, offset)
        if torn and base + offset >= durable:
            self.cut += [later.path for later in self.files.entries[place + 1 :]]
            self.files.keep_first(place + 1)
            self.headers = self.headers[: place + 1]
            return None, None
        written = is_written(content, offset, self._header_seed)
        reason = "a damaged frame" if written else "synced frames are gone"
        damage = LogDamage(path=entry.path, offset=offset, lsn=base + offset, reason=reason)
        if not self._tolerate:
            raise damage.error()
        head = bytes(content[offset : offset + HEADER_SIZE])
        if entry.file.pread(HEADER_SIZE, offset).ljust(len(head), b"\0") != head:
            return None, offset  # a writer has written here since the file was read
        resumed = next((hit for hit, _ in found if hit < end), None)
        following = resumed or self._last_offset(content, place, durable - base)
        salvaged = self._examine(content[offset:following], base + offset, following - offset)
        self.damage.append(
            msgspec.structs.replace(
                damage,
                end_lsn=base + following,
                losses=tuple(salvaged.losses),
                unknown_size=salvaged.unknown_size,
            )
        )
        if resumed is None:
            self.end_lsn = base + following
        return salvaged, resumed

    def _ends(self, place: int, offset: int) -> bool:
        """Whether the log ends at a place, and not only its file, which was truncated."""
        entry = self.files.entries[place]
        if entry.path not in self._cut_off:
            return True
        return entry.file.pread(8, offset) == bytes(8)

    def _last_offset(self, content: memoryview, place: int, durable_offset: int) -> int:
        """The offset where the frames of a file ended, when none after a bad place is found."""
        limit = self.files.end_of(place)
        if limit is not None:
            return FILE_HEADER_SIZE + limit - self.headers[place].first_lsn
        if self.files.entries[place].path in self._cut_off:
            return len(content)
        used = len(bytes(content).rstrip(b"\0"))
        return max(used + -used % 8, durable_offset)

    def _examine(self, place: memoryview, lsn: int, size: int) -> SalvageResult:
        location = self.files.shard << LOCATION_SHARD_BITS | lsn
        salvaged = examine(place, location, self._seed, self._header_seed)
        salvaged.unknown_size += size - len(place)  # the part after the end of the file
        return salvaged

    def _headers_after(self, content: memoryview, offset: int, base: int) -> list[tuple[int, int]]:
        return headers_after(content, offset, base, self._header_seed)

    def _durable_later(self, place: int) -> int:
        """The largest durable lsn according to the files after this one."""
        term = self.headers[place].term
        synced = 0
        for header, entry in zip(
            self.headers[place + 1 :], self.files.entries[place + 1 :], strict=True
        ):
            synced = max(synced, header.durable_upto)
            if header.term > term:
                synced = max(synced, header.first_lsn)
            content = memoryview(entry.file.pread(entry.file.size(), 0))
            base = header.first_lsn - FILE_HEADER_SIZE
            start = FILE_HEADER_SIZE - 8
            synced = max([synced, *(upto for _, upto in self._headers_after(content, start, base))])
        return synced

    def _find_files(self, names: Sequence[str]) -> None:
        disk, directory = self.files.disk, self.files.directory
        found = []
        for name in names:
            first_lsn = first_lsn_of(name)
            if first_lsn is None:
                continue
            path = f"{directory}/{name}"
            file = disk.open_read(path)
            header = self._header_of(file, path, first_lsn)
            if header is None:
                self._set_aside(path, file)
            else:
                self._earlier_headers.append(header)
                found.append((header, path, file))
        for header, path, file in sorted(found, key=lambda entry: entry[0].first_lsn):
            last = self.headers[-1] if self.headers else None
            if last and (header.term < last.term or header.first_lsn == last.first_lsn):
                self._set_aside(path, file)
                continue
            self.headers.append(header)
            self.files.add(WalFile(header.first_lsn, header.term, header.file_size, path, file))
        if self.headers:
            self.end_lsn = self.headers[0].first_lsn

    def _set_aside(self, path: str, file: ReadFile) -> None:
        self.cut.append(path)
        file.close()

    def _header_of(self, file: ReadFile, path: str, first_lsn: int) -> codec.FileHeader | None:
        """The header of a file, or None when it was never begun, or is not of this shard."""
        start = file.pread(FILE_HEADER_SIZE, 0)
        header = codec.decode_file_header(start)
        if isinstance(header, int):
            raise UnsupportedFormat(
                f"{path} has WAL format {header}; this version reads {codec.FORMAT_VERSION}"
            )
        if header is None:
            base = first_lsn - FILE_HEADER_SIZE
            content = memoryview(file.pread(file.size(), 0))
            found = self._headers_after(content, 0, base)
            durable = max((upto for _, upto in found), default=0)
            if any(content[: codec.SECTOR]) or durable > first_lsn or self._lost_its_size(content):
                self._complain(path, 0, first_lsn, "the header of a WAL file is damaged")
                return self._guessed_header(content, first_lsn, [hit for hit, _ in found])
            return None
        if (header.store_id, header.shard) != (self._store_id, self.files.shard):
            self._complain(path, 0, first_lsn, self._owner_mismatch(header))
            size = max(0, file.size() - FILE_HEADER_SIZE)
            self.foreign_files.append(
                msgspec.structs.replace(self.damage[-1], end_lsn=0, unknown_size=size)
            )
            return None
        if header.first_lsn != first_lsn:
            self._complain(path, 0, first_lsn, "the file belongs to another place")
        return header

    def _owner_mismatch(self, header: codec.FileHeader) -> str:
        if header.store_id == self._store_id:
            return f"the file belongs to shard {header.shard}, not to shard {self.files.shard}"
        return of_another_store("log file", header.store_id, self._store_id)

    def _lost_its_size(self, content: memoryview) -> bool:
        """Whether a file is shorter than any file can be, although the page cache still exists."""
        page_cache = self.files.page_cache()
        known = any(header.page_cache == page_cache for header in self._earlier_headers)
        return known and len(content) < FILE_HEADER_SIZE

    def _guessed_header(
        self, content: memoryview, first_lsn: int, frames: list[int]
    ) -> codec.FileHeader:
        """The header of a file whose own is damaged: the term from its frames, the lsn from its
        name."""
        terms = [codec.HEADER.unpack_from(content, hit)[5] for hit in frames]
        known = max((header.term for header in self._earlier_headers), default=0)
        return codec.FileHeader(
            shard=self.files.shard,
            store_id=self._store_id,
            first_lsn=first_lsn,
            term=max(known, *terms[:1], 0),
            file_size=len(content),
            previous=0,
            durable_upto=0,
            page_cache=0,
            created_us=0,
        )


def in_order(logs: Sequence[ShardLog]) -> list[tuple[ShardLog, int]]:
    """Every file of every shard, in the order of their records."""
    places = [(log, place) for log in logs for place in range(len(log.headers))]
    return sorted(
        places,
        key=lambda at: (
            at[0].headers[at[1]].term,
            at[0].files.shard,
            at[0].headers[at[1]].first_lsn,
        ),
    )
