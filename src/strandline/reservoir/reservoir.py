"""A reservoir: opens, wires, checkpoints, closes. The rules are in the modules of their names.

A checkpoint rewrites files with little live data, uploads or bundles the waiting pages, waits for
all files, creates the version's object, then deletes what is old. Before the object exists nothing
is visible; after it everything is. A failed checkpoint loses nothing: call it again.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from strandline.config.settings import ReservoirSettings, check_reservoir_settings
from strandline.errors import Closed, Conflict, Corrupt, Fenced, NotFound, Unavailable
from strandline.platform.background_jobs import BackgroundJob
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import compaction, gc_policy, object_keys, recovery, takeover
from strandline.reservoir.cache.cache import FileCache
from strandline.reservoir.checkpoint_writer import PendingCheckpoint, check_meta
from strandline.reservoir.data_files.data_file_builder import DataFile
from strandline.reservoir.data_files.data_file_table import FileEntry
from strandline.reservoir.data_files.page_table import PageLocation
from strandline.reservoir.data_files.upload_queue import UploadQueue
from strandline.reservoir.page_reader import PageReader
from strandline.reservoir.pool import CLOSED, ReservoirPool
from strandline.reservoir.recovery import Listing
from strandline.reservoir.request_metering import CountedObjects, Requests
from strandline.reservoir.session import Session

EVICTION_INTERVAL_S = 5.0


class ReservoirRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the reservoir when it was opened."""

    version: int
    """The version that was opened; 0 for none."""
    passed_over: tuple[str, ...]
    """Unreadable newer versions, with reasons. If there are any, this opening deletes nothing."""
    missing: tuple[int, ...]
    """Missing files with live pages; reading those pages fails."""
    left_over: int
    """Number of objects of interrupted writers, deleted at opening."""


class ReservoirStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and counts of a reservoir."""

    version: int
    pages: int
    files: int
    file_bytes: int
    dead_bytes: int
    garbage_files: int
    waiting_bytes: int
    kept_bytes: int
    """Bytes of small files in memory that are stored too, so that a merge needs no request."""
    damaged_files: tuple[int, ...]
    """Files that a compaction could not copy; they stay unchanged."""


class Reservoir:
    """An open reservoir. Safe from many threads; each session is owned by one thread."""

    def __init__(
        self,
        objects: Objects,
        *,
        settings: ReservoirSettings | None = None,
        at: int | None = None,
        readonly: bool = False,
        cache_folder: str | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        start_jobs: bool = True,
        after_checkpoint: Callable[[], None] | None = None,
    ) -> None:
        """``after_checkpoint`` is called after each checkpoint, and must not fail."""
        self._after_checkpoint = after_checkpoint
        self._objects = objects = CountedObjects(objects)
        self._settings = check_reservoir_settings(settings or ReservoirSettings())
        self._clock = clock or SystemClock()
        self._disk = disk or OsDisk()
        self._readonly = readonly
        self._sessions = itertools.count(1)
        self._damaged: set[int] = set()
        self._job: BackgroundJob | None = None
        self._closed = False
        opened = takeover.open_state(
            objects,
            at=at,
            readonly=readonly,
            settings=self._settings,
            new_id=self._disk.random_id,
            clock=self._clock,
        )
        self._state, self._checkpointer, recovered = opened
        self._cache = self._open_cache(cache_folder)
        self._reader = PageReader(objects, self._cache, whole=readonly)
        self._uploads = UploadQueue(
            self._store,
            waiting_max=self._settings.uploads_waiting_max,
            at_once=self._settings.uploads_at_once,
        )
        self._pool = ReservoirPool(self._state, self._reader, self._uploads, self._settings)
        self._quarantined = bool(recovered.passed_over)
        if readonly:
            self._pool.failure = Conflict("this reservoir is open for reading only")
        try:
            missing = tuple(takeover.missing_files(objects, recovered))
            left_over = 0 if readonly or self._quarantined else self._sweep(recovered.listed)
        except BaseException:
            self.close()
            raise
        self.recovered = ReservoirRecovery(
            version=recovered.version,
            passed_over=recovered.passed_over,
            missing=missing,
            left_over=left_over,
        )
        if start_jobs and self._cache is not None:
            self._job = self._start_eviction()
        self._shorten_recovery()

    @property
    def id(self) -> str:
        return self._state.reservoir_id.hex()

    @property
    def version(self) -> int:
        """The newest checkpoint."""
        return self._state.version

    @property
    def meta(self) -> bytes:
        """The ``meta`` of the newest checkpoint."""
        return self._state.meta

    @property
    def cache(self) -> FileCache | None:
        return self._cache

    def __len__(self) -> int:
        """Committed pages."""
        return len(self._pool)

    def session(self) -> Session:
        """A new session for the calling thread."""
        self._check_open()
        return Session(self._pool, next(self._sessions))

    def read(self, page_id: int) -> bytes | None:
        """A committed page, None when there is none."""
        return self._pool.read(page_id)

    def place(self, page_id: int) -> PageLocation | None:
        """The place of a committed page, None when it is in no file."""
        with self._pool.lock:
            return self._state.pages.find(page_id)

    def page_ids(self, first: int, next: int) -> list[int]:
        """Committed pages from one id up to another."""
        with self._pool.lock:
            ids, _ = self._state.pages.all_pages()
            waiting = self._pool.waiting_ids()
        low, high = np.searchsorted(ids, np.array([first, next], ids.dtype)).tolist()
        return sorted({*ids[low:high].tolist(), *(n for n in waiting if first <= n < next)})

    def checkpoint(self, meta: bytes = b"") -> int:
        """Make all committed pages durable, with ``meta``; return the new version."""
        pool = self._pool
        with pool.committing:
            self._check_open()
            pool.check()
            check_meta(meta)
            self._create_pending()
            version = pool.next_version
            self._compact(version)
            self._flush_if_many()
            self._rewrite_new_files(version)
            self._leave_dead_files(version)
            self._uploads.finish()
            # No failure is allowed from here to the pending object: the table has bundle pages.
            with pool.all_or_nothing("a checkpoint"):
                bundle = pool.bundle(version) if pool.waiting_ids() else None
                with pool.lock:
                    self._checkpointer.pending = self._checkpointer.encode(
                        version, meta=meta, now_us=self._clock.now_us(), bundle=bundle
                    )
                    self._state.pages.checkpointed()
                    self._state.files.checkpointed()
                    pool.next_version, pool.placed = version + 1, 0
            self._create_pending()
            if self._after_checkpoint is not None:
                self._after_checkpoint()
            return version

    def reset(self) -> None:
        """Delete every page. Durable with the next checkpoint."""
        with self._pool.committing, self._pool.lock:
            ids, _ = self._state.pages.all_pages()
            every = [*ids.tolist(), *self._pool.waiting_ids()]
        self._pool.commit([], {}, every)

    def clean(self) -> int:
        """Delete objects that were set aside for a damaged version; return their number."""
        with self._pool.committing:
            self._pool.check()
            listed = recovery.listing(self._objects)
            self._state.kept_term, self._quarantined = 0, False
            return self._sweep(listed)

    def statistics(self) -> ReservoirStatistics:
        with self._pool.lock:
            live = list(self._state.files.live.values())
            pages, garbage_files = len(self._state.pages), len(self._state.files.garbage)
        return ReservoirStatistics(
            version=self._state.version,
            pages=pages,
            files=len(live),
            file_bytes=sum(entry.ref.size for entry in live),
            dead_bytes=sum(entry.dead_bytes for entry in live),
            garbage_files=garbage_files,
            waiting_bytes=self._pool.waiting_bytes,
            kept_bytes=self._pool.stored_small_bytes,
            damaged_files=tuple(sorted(self._damaged)),
        )

    def requests(self) -> Requests:
        """The requests to the object store since the opening, which is included."""
        return self._objects.requests()

    def close(self) -> None:
        """Release all resources. Pages that are in no checkpoint are lost."""
        if self._closed:
            return
        self._closed = True
        self._pool.close()
        if self._job is not None:
            self._job.stop()
        self._uploads.close()
        self._reader.close()
        if self._cache is not None:
            self._cache.close()
        self._objects.close()

    def __enter__(self) -> Reservoir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _shorten_recovery(self) -> None:
        """Write a snapshot after many openings without one."""
        if not self._readonly and self._checkpointer.is_snapshot_overdue():
            with contextlib.suppress(Unavailable):  # it only makes the next opening faster
                self.checkpoint(self.meta)

    def _open_cache(self, folder: str | None) -> FileCache | None:
        if folder is None:
            return None
        cache = FileCache(
            f"{folder}/{self._state.reservoir_id.hex()}",
            self._disk,
            self._objects,
            bytes_max=self._settings.cache_bytes,
            downloads_max=self._settings.downloads_at_once,
            direct=self._settings.cache_direct_io,
        )
        try:
            cache.adopt(entry.ref for entry in self._state.files.live.values())
        except BaseException:
            cache.close()
            raise
        return cache

    def _start_eviction(self) -> BackgroundJob:
        assert self._cache is not None
        job = BackgroundJob(
            "reservoir-cache",
            self._cache.run_once,
            self._clock,
            interval_s=EVICTION_INTERVAL_S,
            on_death=lambda reason: None,  # a cache that is too full only costs space
        )
        job.start()
        return job

    def _store(self, blob: DataFile) -> None:
        key = object_keys.file_key(blob.file_id)
        if self._objects.real_folder is not None:
            self._objects.put_stream(key, blob.chunks())
        else:  # create, not put: create is one request, put is one request for each part
            self._objects.create(key, blob.content())
        self._stored(blob)

    def _stored(self, blob: DataFile) -> None:
        if self._cache is not None:
            self._cache.add(blob.entry.ref, list(blob.chunks()))
        self._pool.stored(blob.file_id)

    def _flush_if_many(self) -> None:
        """Upload waiting pages, unless nothing else changed: then the checkpoint bundles them."""
        self._pool.send_full()
        if self._pool.placed:
            self._pool.flush()

    def _leave_dead_files(self, version: int) -> None:
        """Drop files without live pages from the tables of the checkpoint of this version."""
        pool, state = self._pool, self._state
        with pool.lock:
            dead = gc_policy.dead_files(state, version)
            unlisted = gc_policy.unlisted_files(state, version)
            state.files.move_to_garbage(dead, version)
            state.files.withdraw(unlisted)
            pool.abandoned += unlisted
        pool.drop_stored([*dead, *unlisted])

    def _compact(self, version: int) -> None:
        settings, state = self._settings, self._state
        movable = [
            entry
            for entry in state.files.live.values()
            if compaction.is_movable(entry, version, state.snapshot_version) and not entry.is_dead
        ]
        self._rewrite(
            compaction.choose_files(
                [entry for entry in movable if entry.ref.file_id not in self._damaged],
                file_bytes=settings.file_bytes,
                share=settings.compact_share,
                waiting_bytes=self._pool.waiting_bytes,
            )
        )

    def _rewrite_new_files(self, version: int) -> None:
        """Rewrite new files of this checkpoint; no waiting page can supersede their pages now."""
        chosen = compaction.superseded(self._state.files.live.values(), version)
        if chosen and self._settings.compact_share:
            self._rewrite(chosen)
            self._pool.flush()

    def _rewrite(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            try:
                data = self._pool.content(entry.ref.file_id)
                if data is None:
                    data = compaction.fetch(self._objects, self._cache, entry.ref)
                compaction.move_pages(self._pool, entry.ref, data)
            except (Corrupt, NotFound):
                self._damaged.add(entry.ref.file_id)

    def _create_pending(self) -> None:
        try:
            self._checkpointer.create_pending(self._after_create)
        except Fenced as error:
            self._pool.failure = error
            raise

    def _after_create(self, pending: PendingCheckpoint) -> None:
        if pending.bundle is not None:
            self._stored(pending.bundle)
        if self._quarantined:
            return
        files = gc_policy.old_files(self._state, self._settings.retained_versions)
        abandoned = [
            file_id for file_id in self._pool.abandoned if not self._pool.is_uploading(file_id)
        ]
        versions = gc_policy.old_checkpoints(self._state, pending.dropped)
        if self._delete(versions, [*files, *abandoned]):
            with self._pool.lock:
                self._state.files.forget(files)
                remaining = set(self._pool.abandoned).difference(abandoned)
                self._pool.abandoned = sorted(remaining)

    def _sweep(self, listed: Listing) -> int:
        versions, files = gc_policy.leftover_objects(
            self._state, listed.checkpoints, listed.data_files
        )
        return len(versions) + len(files) if self._delete(versions, files) else 0

    def _delete(self, versions: Iterable[int], files: Iterable[int]) -> bool:
        """Delete objects; False on failure: then later checkpoints and openings find them again."""
        keys = [object_keys.checkpoint_key(version) for version in versions]
        keys += [object_keys.file_key(file_id) for file_id in files]
        try:
            if keys:
                self._objects.delete(keys)
        except Unavailable:
            return False  # the operation itself succeeded, and old files are harmless
        if self._cache is not None:
            self._cache.forget(files)
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(CLOSED)
