"""Opens a store, connects its parts, starts and stops its jobs. Rules are in other modules.

Opening for writing: lock, identity, recovery (``log/recovery/recover.py``), repairs after the last
writer (``log/recovery/after_recovery.py``), a new term, the jobs. Closing is the reverse: stop the
jobs, flush what waits in memory, sync, put a clean close on the log, release the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from strandline.assembly import (
    StoreParts,
    make_checkpoint_store,
    make_handoff_job,
    make_inbox,
    make_lake_jobs,
    make_routers,
    make_views,
    make_writer,
    translating_errors,
)
from strandline.backup.backups import BackupInfo, Backups, Location
from strandline.backup.create import synced_reach
from strandline.config.memory_limits import within_budget
from strandline.config.settings import Settings, TopicConfig, check_settings, topic_config
from strandline.errors import Closed, Invalid
from strandline.lake.gc import GcResult
from strandline.lake.lake import Lake
from strandline.log.checkpoint.checkpoint_job import Checkpointer
from strandline.log.checkpoint.sealer import Sealer
from strandline.log.files import system_file
from strandline.log.files.disk_space import SpaceWatch
from strandline.log.files.layout import Layout, checked_path
from strandline.log.files.pins import Pins
from strandline.log.health import Health, health_of
from strandline.log.progress import Progress, silent
from strandline.log.recovery import after_recovery
from strandline.log.recovery.clean_close import end_shard
from strandline.log.recovery.recover import StoreState, recover, recover_beside_writer
from strandline.log.repair.scrub_job import ScrubProgress
from strandline.log.retention.retention_floors import enforce_all
from strandline.log.state.topic_state import TopicState, WaitHandle
from strandline.log.state.totals import Totals, totals_of
from strandline.log.topic.topic import Topic
from strandline.log.wal.committer import Committer
from strandline.log.wal.reader import Reader
from strandline.log.wal.shard import Shard
from strandline.log.wal.stats import LogStatistics
from strandline.platform import process
from strandline.platform.background_jobs import TRANSIENT_ERRORS, BackgroundJob
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, Lock, OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.system_errors import as_unavailable
from strandline.routers.routers import TICK_S as ROUTERS_S
from strandline.store_views import StoreViews

SHARDS_MAX = 64
_TICK_S = 1.0
_INBOX_S = 0.1


class Store(StoreViews):
    """An opened data directory. Safe from many threads; use it as a context manager."""

    _state: StoreState

    def __init__(
        self,
        path: str,
        *,
        readonly: bool = False,
        settings: Settings | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        objects: Objects | None = None,
        progress: Progress = silent,
        start_jobs: bool = True,
    ) -> None:
        self.path = checked_path(path)
        self.readonly = readonly
        self._settings = within_budget(check_settings(Settings() if settings is None else settings))
        self._disk = disk or OsDisk()
        self._clock = clock or SystemClock()
        self._layout = Layout(self.path)
        self._objects = objects or open_objects(
            self._settings.lake.url or self._layout.lake,
            settings=self._settings.lake.objects,
            disk=self._disk,
        )
        self._lake = Lake(self._objects, self._settings.lake)
        self._base = StoreParts(
            self._layout, self._disk, self._clock, self._settings, self._lake, self._objects
        )
        self._lock: Lock | None = None
        self._closed = False
        self._forked = False
        self._closing, self._checkpointing = threading.Lock(), threading.Lock()
        self._jobs: list[BackgroundJob] = []
        self._failures: list[str] = []
        self._shards: list[Shard] = []
        self._routers = make_routers(
            self._base, self, lambda: self._state.catalog, readonly=readonly
        )
        self._opened = ExitStack()
        self._opened.callback(self._lake.close)
        try:
            if readonly:
                self._open_for_reading(progress)
            else:
                self._open_for_writing(progress, start_jobs=start_jobs)
        except BaseException as error:
            self._closed = True
            self._opened.close()  # as a killed process would: nothing is written to the log
            if isinstance(error, (OSError, MemoryError)):
                raise as_unavailable(error, f"the store {self.path}", "opened") from error
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The identity of this store, in hex: the same for every opening."""
        return self._state.store_id.hex()

    def topic(self, name: str, **options: object) -> Topic:
        """The topic of this name, created with these options if there is none."""
        self._check()
        state = self._state.catalog.find(name)
        if state is None:
            if self.readonly:
                state = self._state.catalog.get(name)
            else:
                config = topic_config(TopicConfig(), options)
                state = self._state.catalog.create(name, config, exist_ok=True)
        elif options and topic_config(state.config, options) != state.config:
            raise Invalid(
                f"topic {name!r} has other options than given: use alter() to change them"
            )
        return self._handle(state)

    def has_topic(self, topic_id: int) -> bool:
        """Whether a topic of this id exists."""
        return self._state.catalog.by_id(topic_id) is not None

    def totals(self) -> Totals:
        """Counts and sizes of all topics together."""
        self._check()
        return totals_of(self._state.catalog.states())

    def quarantined_files(self) -> list[str]:
        """Files that an opening or a repair took out of use and that still exist."""
        self._check()
        return self._layout.quarantined_files(self._disk)

    def log_statistics(self) -> list[LogStatistics]:
        """What was written to the log since the store was opened, by shard."""
        return [shard.statistics() for shard in self._shards]

    def topic_count(self, *, internal: bool = True) -> int:
        """The number of topics, with or without the store's own (``strandline.*``)."""
        return self._state.catalog.count(internal=internal)

    def create_topic(self, name: str, **options: object) -> Topic:
        """Create a topic; TopicExists when the name is taken."""
        self._check_writable()
        config = topic_config(TopicConfig(), options)
        return self._handle(self._state.catalog.create(name, config, exist_ok=False))

    def existing_topic(self, name: str) -> Topic:
        """The topic of this name; UnknownTopic when there is none."""
        self._check()
        return self._handle(self._state.catalog.get(name))

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool:
        """Delete a topic with all its records; False when there is none."""
        self._check_writable()
        # Companion topics of its views first: a new topic of this name must not find them.
        for companion in self._views.companions(name, if_empty=if_empty):
            self._state.catalog.drop(companion, if_empty=False)
        dropped = self._state.catalog.drop(name, if_empty=if_empty)
        self._routers.delete_of_topic(name)
        self._views.registry.forget_dropped()
        return dropped

    def topics(self, prefix: str = "") -> list[str]:
        """Names of the topics, sorted."""
        self._check()
        if not isinstance(prefix, str):
            raise Invalid(f"prefix is text, not {type(prefix).__name__}")
        return self._state.catalog.names(prefix)

    def notify_next_topic(self, gate: WaitHandle) -> None:
        """Release a gate once, when the next topic is created. Never blocks."""
        self._state.catalog.waiters.append(gate)

    @property
    def committers(self) -> list[Committer]:
        """The committers of the shards, for measuring how much waits for durability."""
        return [shard.committer for shard in self._shards]

    def newer_topics(self, topic_id: int) -> list[Topic]:
        """Topics that were created after the one of this id, newest first."""
        self._check()
        return [self._handle(state) for state in self._state.catalog.newer(topic_id)]

    def checkpoint(self) -> None:
        """Move everything in the log into segments now, seal what is worth it, save views."""
        self._check_writable()
        with translating_errors("a checkpoint"):
            with self._checkpointing:
                self._checkpointer.checkpoint()
                self._sealer.run_once()
            self._views.registry.save_and_maintain()

    @property
    def lake_objects(self) -> Objects:
        """The object store of the lake, for pipelines."""
        return self._objects

    def relocate(self, progress: Progress = silent) -> None:
        """Move sealed segments beyond the hot bound into the lake now."""
        self._check_writable()
        with translating_errors("the lake"):
            self._relocator.run_once(progress)

    def sweep(self, *, orphans: bool = False) -> dict[str, GcResult]:
        """Delete from the lake what has been unused for the grace period; the result by topic.

        With ``orphans`` also delete objects that no manifest names, which takes a listing.
        """
        self._check_writable()
        with translating_errors("the lake"):
            return self._relocator.sweep(orphans=orphans)

    def scrub(self) -> ScrubProgress:
        """Check every segment and lake file now, repair what can be; return the findings."""
        self._check_writable()
        with translating_errors("a check of all files"):
            return self._scrubber.run_all()

    def ingest_pending(self) -> int:
        """Ingest all pending deliveries and view handoffs now; return how many of both."""
        self._check_writable()
        with translating_errors("the inbox"):
            count = self._inbox.run_once() + self._handoff_job.run_once()
            self._checkpoint_if_due()
            return count

    def backup(self, to: Location, *, progress: Progress = silent) -> BackupInfo:
        """Back the store up into a folder or object store, while appends continue.

        Everything appended before the call is in it. What an earlier backup has is not copied.
        """
        self._check()
        if not self.readonly:
            self.checkpoint()
        reach = None if self.readonly else partial(synced_reach, self._shards, self._clock)
        with Backups(to, disk=self._disk, clock=self._clock) as backups:
            return backups.create(self.path, lake=self._objects, progress=progress, reach=reach)

    def sync(self) -> None:
        """Make everything appended so far durable, whatever its durability setting."""
        self._check_writable()
        for shard in self._shards:
            shard.flush()
            shard.committer.sync_now()

    def refresh(self) -> None:
        """Read-only: load what the writer has done since. Handles stay valid."""
        if not self.readonly:
            raise Invalid("refresh is for a store that is open read-only")
        self._check()
        old, self._state = self._state, self._recover(self._state.store_id, silent)
        for state in old.catalog.states():
            self._state.catalog.transfer_state(state)
        old.close()

    def health(self) -> Health:
        """The health of the store now."""
        writing = None if self.readonly else (self._space, self._scrubber, self._complaints)
        stand_ins = dict(self._lake.replaced_files)
        errors = [shard.writer.failure or shard.writer.rejection for shard in self._shards]
        failures = [*self._failures, *dict.fromkeys(str(error) for error in errors if error)]
        return health_of(self._state, stand_ins, self._jobs, failures, writing, closed=self._closed)

    def _complaints(self) -> list[str]:
        complaints = self._inbox.problems() + self._handoff_job.problems()
        return complaints + self._routers.problems() + self._views.registry.problems

    def close(self) -> None:
        """Flush, sync, and release the store. A second call does nothing."""
        for shard in self._shards:
            shard.committer.refuse_reentry()  # before stopping anything that the step may need
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            if not self.readonly and not self._forked:
                self._close_writing()
        finally:
            self._opened.close()

    def forked(self) -> None:
        """In a forked child: make this copy unusable, because the parent owns the store."""
        self._forked = True
        for shard in self._shards:
            shard.forked()
        self._closed = True
        if self._lock is not None:
            self._lock.release()

    def _open_for_writing(self, progress: Progress, *, start_jobs: bool) -> None:
        disk = self._disk
        owner = f"{process.process_id()} {disk.boot_id()}\n".encode()
        self._lock = system_file.acquire_lock(disk, self.path, owner)
        self._opened.callback(self._lock.release)
        shards = self._settings.wal.shards
        store_id = system_file.ensure(disk, self.path, self._clock.now_us(), shards=shards)
        self._state = self._recover(store_id, progress)
        self._opened.callback(self._close_state)
        self._wire()
        system_file.note_shards(disk, self.path, shards)
        process.register_forkable(self)
        if start_jobs:
            for job in self._jobs:
                self._opened.callback(job.stop)
                job.start()

    def _open_for_reading(self, progress: Progress) -> None:
        store_id = system_file.read(self._disk, self.path)
        self._state = self._recover(store_id, progress)
        self._opened.callback(self._close_state)
        trash = self._state.catalog.lake_trash
        self._views = make_views(self._base, self, None, store_id=store_id, trash=trash)
        self._opened.callback(self._views.registry.abandon)

    def _recover(self, store_id: bytes, progress: Progress) -> StoreState:
        recovery = recover_beside_writer if self.readonly else recover
        disk, layout, settings = self._disk, self._layout, self._settings
        return recovery(disk, layout, store_id, settings, progress=progress, lake=self._lake)

    def _close_state(self) -> None:
        self._state.close()

    def _wire(self) -> None:
        state, layout, disk = self._state, self._layout, self._disk
        wal = self._settings.wal
        if not 1 <= wal.shards <= SHARDS_MAX:
            raise Invalid(f"wal.shards is 1 to {SHARDS_MAX}, not {wal.shards}")
        for directory in (layout.meta, *(layout.shard(number) for number in range(wal.shards))):
            disk.make_dirs(directory)
        for log in state.logs.values():
            after_recovery.secure_tail(disk, log)
            after_recovery.set_aside_cut_files(disk, log)
        self._shards = [
            Shard(make_writer(self._base, state, number)) for number in range(wal.shards)
        ]
        for shard in self._shards:
            self._opened.callback(shard.writer.close)
        state.catalog.attach(self._shards)
        segment = self._settings.segment
        pins = Pins(disk, layout.pins)
        self._checkpoints = roots = make_checkpoint_store(self._base, state, pins)
        self._checkpointer = Checkpointer(
            disk,
            self._clock,
            state.catalog,
            state.library,
            roots,
            segment,
            shard_directory=layout.shard,
            old_shards=[number for number in state.logs if number >= wal.shards],
        )
        catalog, library = state.catalog, state.library
        self._sealer = Sealer(self._clock, catalog, library, roots, self._checkpointer, segment)
        writer, self._relocator, self._scrubber = make_lake_jobs(
            self._base,
            state,
            self._sealer,
            pins=pins,
            reader=self._reader,
            changing=self._checkpointing,
        )
        self._inbox = make_inbox(self._base, self, self.id)
        self._opened.callback(self._inbox.close)
        trash = state.catalog.lake_trash
        self._views = make_views(self._base, self, writer, store_id=state.store_id, trash=trash)
        self._opened.callback(self._views.registry.abandon)
        self._handoff_job = make_handoff_job(self._base, self._views, self.id, self.relocate)
        self._space = SpaceWatch(disk, layout, self._shards, self._settings.space)
        self._space.release_ballast_if_full()
        after_recovery.quarantine_orphans(disk, layout, roots, state)
        after_recovery.declare_lost_tails(state, self._shards)
        self._routers.load()
        self._make_jobs()

    def _make_jobs(self) -> None:
        interval_s = self._settings.wal.sync_interval_ms / 1000
        for shard in self._shards:
            name = f"sync-{shard.number}"
            self._add_job(name, shard.run_once, interval_s, shard.committer.kick, shard)
        for shard in self._shards:
            prepare, kick = shard.writer.prepare_spares, shard.writer.spare_wanted
            self._add_job(f"prepare-{shard.number}", prepare, _TICK_S, kick)
        self._add_job("checkpoint", self._checkpoint_if_due, _TICK_S)
        self._add_job("relocate", self._relocate_if_possible, self._settings.lake.interval_s)
        retain = partial(enforce_all, self._state.catalog, self._reader, self._clock)
        self._add_job("retention", retain, _TICK_S)
        self._add_job("space", self._space.run_once, _TICK_S)
        self._add_job("scrub", self._scrubber.run_once, _TICK_S)
        self._add_job("inbox", self._inbox.run_once, _INBOX_S)
        self._add_job("adopt", self._handoff_job.run_once, _TICK_S)
        self._add_job("routers", self._routers.run_job, ROUTERS_S, self._routers.kick)
        self._add_job("views", self._views.registry.run_once, _TICK_S)

    def _add_job(
        self,
        name: str,
        run_once: Callable[[], object],
        interval_s: float,
        kick: threading.Event | None = None,
        syncs: Shard | None = None,
    ) -> None:
        on_death = partial(self._on_death, syncs)
        job = BackgroundJob(
            name, run_once, self._clock, interval_s=interval_s, on_death=on_death, kick=kick
        )
        job.is_steady = syncs is not None
        self._jobs.append(job)

    def _on_death(self, syncs: Shard | None, reason: str) -> None:
        """Report a dead job in health, and fail the waiters for what it would have synced."""
        self._failures.append(reason)
        if syncs is not None:
            syncs.writer.poison(reason)
            syncs.committer.fail_waiters()

    def _checkpoint_if_due(self) -> None:
        if self._checkpointer.is_due():
            with self._checkpointing:
                self._checkpointer.checkpoint()
                if self._space.level == "ok":
                    self._sealer.run_once()

    def _relocate_if_possible(self) -> None:
        if self._space.level != "hard":  # the spool needs space; the lake may be on the same disk
            self._relocator.run_once()

    def _close_writing(self) -> None:
        syncing = self._jobs[: len(self._shards)]
        for job in self._jobs[len(self._shards) :]:
            job.stop()
        self._close_views()
        with self._checkpointing:  # a job that did not stop in time writes no more checkpoints
            self._checkpoints.close()
        try:
            for shard in self._shards:
                end_shard(shard, self._state.catalog)
            # Also of shards that are no longer used: their log may end last.
            synced = {number: log.end_lsn for number, log in self._state.logs.items()}
            synced |= {shard.number: shard.committer.synced for shard in self._shards}
            self._layout.write_closed(self._disk, synced)
        except TRANSIENT_ERRORS as error:
            # The store is released either way; what was acknowledged is on the log.
            self._failures.append(f"closing: {error}")
        finally:
            for shard in self._shards:
                shard.writer.close()
            for job in syncing:
                job.stop()

    def _handle(self, state: TopicState) -> Topic:
        shard = None if self.readonly else self._state.catalog.shard_of(state)
        return Topic(state, shard, self._reader, self._clock, self._settings.limits, self.queue)

    def _reader(self) -> Reader:
        self._check()
        return self._state.reader()

    def _check(self) -> None:
        if self._forked:
            raise Closed("this store was opened before a fork: open it again in the child")
        if self._closed:
            raise Closed("the store is closed: open it again")

    def _check_writable(self) -> None:
        self._check()
        if self.readonly:
            raise Invalid("the store is open read-only: open it for writing to change it")
