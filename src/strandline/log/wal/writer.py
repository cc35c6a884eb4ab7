"""One shard's writer: places frames at the end of the log, in files prepared in advance.

Placing is one atomic step under the writer's lock: the caller calls ``acquire``, assigns seqs,
places, publishes, and calls ``release``. The lock is that of ``log/wal/spin_lock.py``.

Safety:
- A frame is stored with its first eight bytes last (see ``log/wal/codec.py``).
- A failed write of a frame leaves the end of the log where it was and zeros after it, and the next
  frame begins a new file: a power loss may restore bytes of the failed frame, and they must not mix
  with another. When even the zeros cannot be written the shard is poisoned.
- A placement that raises has placed nothing, or has poisoned the shard: also when Ctrl-C raises.
- ``limit`` is the one check on the fast path: a poisoned, closed or full writer has a limit below
  every offset, and the slow path raises the reason. So has one whose lock a sync waits for.
- Rotation renames a prepared file into place without waiting for the disk. The committer syncs old
  file, directory and new file in that order before anything in the new one counts as durable. Only
  the first file of a term is synced at once: it shows the next opening that the log continued after
  the last clean close, and that acknowledged records may be lost.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from strandline.config.settings import WalSettings
from strandline.errors import Closed, DiskFull, StoreFailed, StrandlineError, TooLarge
from strandline.log.wal import block, codec, control_messages
from strandline.log.wal.elapsed_clock import ElapsedClock
from strandline.log.wal.log_files import (
    BLOCK_AT,
    LOCATION_SHARD_BITS,
    MASKED_BLOCK_AT,
    ShardFiles,
    WalFile,
)
from strandline.log.wal.spin_lock import SpinLock
from strandline.platform.clock import Clock
from strandline.platform.disk import Buffer, LogFile
from strandline.platform.system_errors import as_unavailable

_MAPPED_SIZE_MAX = 32 * 1024  # larger frames go through write: fewer page faults
_CHECK = struct.Struct("<Q")
# Bound once: each attribute lookup less on the fast path saves a few percent of an append.
_TRAILERS = codec.TRAILERS
_pack_rest = codec.REST.pack
_digest = xxh3_64_intdigest


class LockHandover(Exception):
    """Nothing was placed: release the lock, which a sync waits for, and take the slow path."""


class Writer:
    """Appends frames to one shard. Callers hold its lock where the method says so."""

    def __init__(
        self,
        files: ShardFiles,
        clock: Clock,
        settings: WalSettings,
        *,
        store_id: bytes,
        term: int,
        end_lsn: int,
        previous: int,
        last_ts: int,
    ) -> None:
        self.files = files
        self.term = term
        self.durable_upto = end_lsn
        self.last_ts = last_ts
        self._slow_ts = -1
        self._slow_from = (last_ts, 0.0)
        self.failure: StrandlineError | None = None
        self._clock = clock
        self.elapsed = ElapsedClock(clock, last_ts)
        self.monotonic = clock.monotonic
        self.first_lsn = end_lsn
        """The lsn where this opening of the store began to write."""
        self.rotations = 0
        self.frames = 0
        """Frames that were stored."""
        self._settings = settings
        self._store_id = store_id
        self.seed = codec.store_seed(store_id)
        self._header_seed = codec.shard_seed(store_id, files.shard)
        self._single_word = codec.kind_word(codec.SINGLE, 0, 0, term)
        self._place_bits = files.shard << LOCATION_SHARD_BITS
        self.lock = SpinLock(self._set_limit)
        self.acquire = self.lock.acquire
        self.acquire_first = self.lock.acquire_first
        self.release = self.lock.release
        self._file: LogFile | None = None
        self._dirty: list[LogFile] = []
        self._names_dirty = False
        self._base = end_lsn  # of the current file: first lsn minus the size of the file header
        self._offset = 0
        self._limit = -1
        self._file_limit = -1
        self._refusal: StrandlineError | None = None
        self._full: DiskFull | None = None
        """Why the last new file could not be created, until one can be."""
        self._ended = False
        self._queued: list[tuple[int, control_messages.Message]] = []
        self._page_cache = files.page_cache()
        self._previous = previous
        self._next_size = settings.file_size_first
        self.spare_wanted = threading.Event()
        self._spares: list[tuple[str, int]] = []
        self._spare_numbers = itertools.count(1)

    @property
    def end_lsn(self) -> int:
        """The lsn just after the last frame."""
        return self._base + self._offset

    @property
    def has_file(self) -> bool:
        """Whether this writer has begun a file; before that, nothing is written."""
        return self._file is not None

    @property
    def next_file_size(self) -> int:
        """The size of the next prepared file."""
        return self._next_size

    def stamp(self) -> int:
        """The commit time: the wall clock, but never before an earlier commit's. Lock held."""
        now = self._clock.now_us()
        if now <= self.last_ts:
            return self.stamp_slow()
        self.last_ts = now
        return now

    def stamp_slow(self) -> int:
        """The commit time while the wall clock is behind the last one. Lock held.

        It advances at half the real speed: so the wall clock catches up with it, and periods that
        are counted from it (ttl, idempotency) end late, but neither early nor never.
        """
        now_s = self._clock.monotonic()
        if self._slow_ts != self.last_ts:  # the first call since the wall clock was ahead
            self._slow_from = (self.last_ts, now_s)
        first, since_s = self._slow_from
        self._slow_ts = self.last_ts = max(self.last_ts, first + int((now_s - since_s) * 500_000))
        return self.last_ts

    def place_single(self, topic_id: int, seq: int, sizes: int, payload: bytes, ts: int) -> int:
        """Place one record; returns its location. Lock held."""
        body = payload + _TRAILERS[len(payload) & 7]
        size = 72 + len(body)
        offset = self._offset
        if offset + size > self._limit or size > 512:
            self._make_room(size)
            check = _digest(body, self.seed)
            lsn = self.end_lsn
            self._store_frame(codec.SINGLE, 0, check, (topic_id, seq, sizes), [body], size, ts)
            return self._place_bits | lsn
        lsn = self._base + offset
        rest = _pack_rest(
            self._single_word,
            lsn,
            self.durable_upto,
            ts,
            _digest(body, self.seed),
            topic_id,
            seq,
            sizes,
        )
        first = size | (_digest(rest, self._header_seed + size) & 0xFFFF_FFFF) << 32
        self._mapping[offset + 8 : offset + size] = rest + body
        self._words[offset >> 3] = first
        self._previous = first
        self._offset = offset + size
        self.frames += 1
        return self._place_bits | lsn

    def place_draft(self, draft: block.Draft, topic_id: int, first_seq: int, ts: int) -> int:
        """Place one batch as a frame of its own; returns the block's location. Lock held."""
        header, checksum = draft.finish(self.seed, topic_id, first_seq, ts)
        return self._place_batch([header, *draft.buffers], [draft.size], [checksum], ts)[0]

    def place_drafts(self, drafts: Sequence[tuple[block.Draft, int, int, int]]) -> list[int]:
        """Place batches (draft, topic id, first seq, ts) as one commit. Lock held."""
        buffers: list[Buffer] = []
        checksums = []
        for draft, topic_id, first_seq, ts in drafts:
            header, checksum = draft.finish(self.seed, topic_id, first_seq, ts)
            buffers += [header, *draft.buffers]
            checksums.append(checksum)
        sizes = [entry[0].size for entry in drafts]
        return self._place_batch(buffers, sizes, checksums, self.stamp())

    def place_control(self, topic_id: int, *messages: control_messages.Message) -> int:
        """Place control messages as one commit; returns the lsn after it. Lock held."""
        ts = self.stamp()
        blocks = [
            block.control(self.seed, topic_id, ts, control_messages.encode(m)) for m in messages
        ]
        buffers = [content for content, _ in blocks]
        sizes = [len(content) for content in buffers]
        self._place_batch(list(buffers), sizes, [check for _, check in blocks], ts, essential=True)
        return self.end_lsn

    def set_rejection(self, reason: StrandlineError | None) -> None:
        """Reject records from now on (None: accept them again). Control messages are accepted."""
        self.acquire()
        self.set_rejection_locked(reason)
        self.release()

    @property
    def rejection(self) -> StrandlineError | None:
        """Why records are rejected although the shard works; None when they are accepted."""
        return self._refusal or self._full

    def set_rejection_locked(self, reason: StrandlineError | None) -> None:
        """As ``refuse``, with the lock held."""
        self._refusal = reason
        self._set_limit()

    def place_last(self, message: control_messages.Message) -> None:
        """Place the last message: nothing may follow it. Records are rejected, lock held."""
        self.place_control(0, message)
        self._ended = True

    def begin_term(self) -> None:
        """Before a record stays in memory: reject it, or begin the term on disk. Lock held."""
        if self._limit < 0:
            self._make_room(0)

    def enqueue_control(self, topic_id: int, message: control_messages.Message) -> None:
        """Queue a message to be placed before anything else. Lock held."""
        self._queued.append((topic_id, message))
        self._set_limit()

    def flush_control(self) -> None:
        """Place the queued messages. After DiskFull the next placement places the rest of them."""
        self.acquire()
        try:
            self._place_queued()
        finally:
            self.release()

    def suppress_page_cache_id(self) -> None:
        """Begin files without the identity of the page cache, until ``restore_page_cache_id``."""
        self._page_cache = 0

    def restore_page_cache_id(self) -> None:
        """End the file that was begun meanwhile; the next one has the identity again."""
        self._page_cache = self.files.page_cache()
        self._leave_file()

    def poison(self, reason: str) -> None:
        """Fail the shard: nothing more is written or acknowledged on it. Final."""
        if self.failure is None:
            self.failure = StoreFailed(f"{reason}: close and reopen the store")
        self._set_limit()

    def close(self) -> None:
        """Reject everything from now on."""
        if self.failure is None:
            self.failure = Closed("the store is closed: open it again")
        self._set_limit()

    def take_dirty(self) -> tuple[int, list[LogFile], bool]:
        """Take the end of the log, the files to sync in order, whether to sync names. Lock held."""
        dirty, self._dirty = self._dirty, []
        if self._file is not None:
            dirty.append(self._file)
        names_dirty, self._names_dirty = self._names_dirty, False
        return self.end_lsn, dirty, names_dirty

    def restore_dirty(self, files: list[LogFile], *, names_dirty: bool) -> None:
        """Return what ``take_dirty`` took, when it was not synced: the round was interrupted."""
        self.acquire()
        self._dirty[:0] = files
        self._names_dirty |= names_dirty
        self.release()

    def prepare_spares(self) -> None:
        """Prepare the next files: one run of the job, without the lock. A busy writer gets two."""
        count = 2 if self._next_size >= self._settings.file_size_max else 1
        while self.failure is None and self._file is not None and len(self._spares) < count:
            path, size = self._next_spare(), self._next_size
            self.files.disk.prepare(path, size)
            self._spares.append((path, size))
            self._full = None

    def _place_batch(
        self,
        buffers: list[Buffer],
        sizes: list[int],
        checksums: list[int],
        ts: int,
        *,
        essential: bool = False,
    ) -> list[int]:
        buffers.append(codec.TRAILERS[0])
        size = codec.HEADER_SIZE + sum(sizes) + 8
        if self._offset + size > self._limit:
            self._make_room(size, essential=essential)
        location = self._place_bits | (self.end_lsn + codec.HEADER_SIZE)
        check = _digest(b"".join(map(_CHECK.pack, checksums)), self.seed)
        mask = self._store_frame(codec.BATCH, len(sizes), check, (0, 0, 0), buffers, size, ts)
        location |= MASKED_BLOCK_AT if mask else BLOCK_AT
        try:
            return list(itertools.accumulate(sizes[:-1], initial=location))
        except BaseException as error:
            self.poison(f"a placement was interrupted ({error!r})")
            raise

    def _store_frame(
        self,
        kind: int,
        count: int,
        check: int,
        single: tuple[int, int, int],
        buffers: list[Buffer],
        size: int,
        ts: int,
    ) -> int:
        """Store a frame of any size at the end of the log; returns the mask it needed."""
        offset = self._offset
        mask, buffers = self._without_zero_sectors(buffers, offset + codec.HEADER_SIZE, size)
        word = codec.kind_word(kind, mask, count, self.term)
        rest = _pack_rest(word, self._base + offset, self.durable_upto, ts, check, *single)
        first = size | (_digest(rest, self._header_seed + size) & codec.LOW32) << 32
        file = self._file
        assert file is not None
        try:
            if size <= _MAPPED_SIZE_MAX:
                file.mapping[offset + 8 : offset + size] = b"".join([rest, *buffers])
            else:
                file.write(offset + 8, [rest, *buffers])
            file.words[offset >> 3] = first
            self._previous = first
            self._offset = offset + size
            self.frames += 1
        except BaseException as error:
            self._roll_back(file, offset, size, error)
            raise
        return mask

    def _without_zero_sectors(
        self, buffers: list[Buffer], file_offset: int, size: int
    ) -> tuple[int, list[Buffer]]:
        if size < codec.SECTOR:
            return 0, buffers
        if not _zero_sector_suspected(buffers, file_offset):
            return 0, buffers
        body = b"".join(buffers)
        for mask in range(256):
            stored = codec.masked(body[:-8], mask) + body[-8:] if mask else body
            if not codec.zero_sector(stored, file_offset):
                return mask, [stored] if mask else buffers
        raise TooLarge("no mask hides the zero sectors of this batch: split it")

    def _roll_back(self, file: LogFile, offset: int, size: int, error: BaseException) -> None:
        """Overwrite a frame that was not completely stored with zeros, or poison the shard."""
        self._offset = offset
        try:
            file.write(offset, [bytes(size)])
        except OSError:
            self.poison(f"a failed write could not be rolled back ({error})")
            assert self.failure is not None
            raise self.failure from error
        except BaseException:
            self.poison(f"the rollback of a failed write was interrupted ({error})")
            raise
        self._leave_file()
        if isinstance(error, OSError):
            raise as_unavailable(error, "the log") from error

    def _leave_file(self) -> None:
        """End the current file: the next frame begins a new one."""
        self._file_limit = min(self._file_limit, self._offset)
        self._set_limit()

    def _make_room(self, size: int, *, essential: bool = False) -> None:
        """The slow path of every placement: raise the reason, or begin a new file."""
        if self.failure is not None:
            raise self.failure
        if self.lock.urgent and self.lock.claims.get(0, [0])[0] is None:
            raise LockHandover
        if self._refusal is not None and (self._ended or not essential):
            raise self._refusal
        if self._queued:
            self._place_queued()
        if self._offset + size <= self._file_limit:
            self._set_limit()
            return
        try:
            self._rotate(size)
        except OSError as error:
            failure = as_unavailable(error, "the log")
            self._full = failure if isinstance(failure, DiskFull) else None
            raise failure from error
        except BaseException as error:
            self.poison(f"the beginning of a file was interrupted ({error!r})")
            raise

    def _place_queued(self) -> None:
        queued, self._queued = self._queued, []
        self._set_limit()
        try:
            while queued:
                self.place_control(*queued[0])
                del queued[0]
        finally:
            self._queued = queued
            self._set_limit()

    def _rotate(self, size: int) -> None:
        needed = size + codec.FILE_HEADER_SIZE
        if self._spares and self._spares[-1][1] >= needed:
            spare, _ = self._spares.pop()
        else:
            # No file was prepared in time: reserve one, so that the append does not write zeros.
            spare = self._next_spare()
            self.files.disk.reserve(spare, max(self._next_size, needed))
        end_lsn = self.end_lsn
        file = self.files.disk.open_log(spare)
        path = self.files.path(end_lsn)
        file_size = file.size()
        header = codec.FileHeader(
            shard=self.files.shard,
            store_id=self._store_id,
            first_lsn=end_lsn,
            term=self.term,
            file_size=file_size,
            previous=self._previous,
            durable_upto=self.durable_upto,
            page_cache=self._page_cache,
            created_us=self.stamp(),
        )
        file.write(0, [codec.encode_file_header(header)])
        # Also when it replaces one that was too small for its first frame.
        first_of_term = self._file is None or self._offset == codec.FILE_HEADER_SIZE
        if first_of_term:
            file.sync()
        self.files.disk.rename(spare, path)
        file.path = path
        if first_of_term:
            self.files.disk.sync_dir(self.files.directory)
        if self._file is not None:
            self._dirty.append(self._file)
        self._names_dirty = True
        self.spare_wanted.set()
        self._file = file
        self._mapping = file.mapping
        self._words = file.words
        self._base = end_lsn - codec.FILE_HEADER_SIZE
        self._offset = codec.FILE_HEADER_SIZE
        self._file_limit = file_size
        self._next_size = min(self._settings.file_size_max, max(self._next_size, file_size) * 2)
        self._full = None
        self._set_limit()
        self.rotations += 1
        self.files.add(WalFile(end_lsn, self.term, file_size, path, file))

    def _next_spare(self) -> str:
        return self.files.spare_path(next(self._spare_numbers))

    def _set_limit(self) -> None:
        slow_path = self.failure is not None or self._refusal is not None or self._queued
        self._limit = -1 if slow_path or self.lock.urgent else self._file_limit


def _zero_sector_suspected(buffers: list[Buffer], file_offset: int) -> bool:
    """Whether a sector begins with sixteen zeros: a cheap test without false negatives."""
    for buffer in buffers:
        first = -file_offset % codec.SECTOR
        sample = bytes(buffer[first :: codec.SECTOR])
        hit = sample.find(0)
        while hit >= 0:
            start = first + hit * codec.SECTOR
            if not any(buffer[start : start + 16]):
                return True
            hit = sample.find(0, hit + 1)
        file_offset += len(buffer)
    return False
