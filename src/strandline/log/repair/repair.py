"""Repairs a store: gives up what cannot be read, keeps everything else, so that it opens again.

    1 verify: a store without a problem is not changed
    2 recover what can be read, tolerating damage
    3 search other files and the lake for what is missing (``log/repair/repair_checkpoint.py``,
      ``log/repair/salvage.py``); without a checkpoint the topics are those of the lake's manifests
    4 what is found nowhere becomes a gap of reason "damaged", and its topics get a new epoch
    5 write all that is not in intact segments into new ones, and a checkpoint that lists them
    6 write a report, then move damaged files to ``damaged/``, where they stay, and with them the
      old log and the old checkpoints, which the new one replaces

Nothing is ever deleted. The new checkpoint is written twice, because a store keeps two, and replay
begins above the whole old log. After each step the store can be repaired again, so a crash costs
only another repair. Damage in SYSTEM, CLOSED or one checkpoint needs no new checkpoint: the files
are moved, and SYSTEM is written again. The lake itself is not changed: the scrub job of the opened
store repairs damage there (``log/repair/scrub_job.py``).
"""

from __future__ import annotations

import msgspec
from pyroaring import BitMap64

from strandline.config.settings import Settings
from strandline.errors import Corrupt, Locked, NotAStore
from strandline.lake import verify
from strandline.lake.lake import Lake
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files import store_identity, system_file
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress, silent
from strandline.log.recovery import after_recovery
from strandline.log.recovery.recover import StoreState, recover
from strandline.log.recovery.replay import lose_tail
from strandline.log.repair.rebuild_checkpoint import rebuild_checkpoint
from strandline.log.repair.repair_checkpoint import Rewriter
from strandline.log.repair.verify import VerifyProblem, verify_locked
from strandline.log.state.topic_state import TopicState
from strandline.log.wal import control_messages
from strandline.log.wal.log_files import first_lsn_of
from strandline.platform import process
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, Lock
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects

_IN_META_ONLY = {"system", "closed", "checkpoint"}


class LostRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a topic that a repair gave up."""

    topic: str
    first_seq: int
    last_seq: int
    exact: bool
    """False for an upper bound: so many records at most, perhaps none."""


class MovedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was damaged or replaced, and its new path."""

    path: str
    to: str


class RepairReport(msgspec.Struct, kw_only=True):
    """The problems of a store, the changes of the repair, and the losses."""

    path: str
    dry_run: bool
    problems: list[VerifyProblem]
    lost: list[LostRecords] = []
    moved: list[MovedFile] = []
    written: list[str] = []
    notes: list[str] = []

    @property
    def healthy(self) -> bool:
        """Whether there was nothing to repair."""
        return not self.problems


def repair_store(
    disk: Disk,
    path: str,
    settings: Settings | None = None,
    *,
    dry_run: bool = False,
    progress: Progress = silent,
    clock: Clock | None = None,
    objects: Objects | None = None,
    lake: bool = True,
) -> RepairReport:
    """Repair a store, or with ``dry_run`` report what a repair would do.

    The lake is that of the settings, or ``objects``; with ``lake=False`` nothing is read from it.
    """
    layout = Layout(path)
    settings = settings or Settings()
    if not disk.is_dir(path):
        raise NotAStore(f"{path} is not a store: there is no such directory")
    _check_is_store(disk, layout)
    lock = _lock(disk, layout)
    try:
        verified = verify_locked(disk, layout, settings, progress)
        report = RepairReport(path=path, dry_run=dry_run, problems=verified.problems)
        if not verified.problems:
            return report
        if lake and objects is None:
            url, options = settings.lake.url or layout.lake, settings.lake.objects
            objects = open_objects(url, settings=options, disk=disk)
        source = Lake(objects, settings.lake) if lake and objects is not None else None
        try:
            _Repair(disk, layout, settings, clock or SystemClock(), progress, report, source).run()
        finally:
            if source is not None:
                source.close()
        return report
    finally:
        lock.release()


def _check_is_store(disk: Disk, layout: Layout) -> None:
    """Raise if the directory is not a store, before anything is written into it."""
    try:
        system_file.read(disk, layout.directory)
    except (Corrupt, NotAStore):
        try:
            ids = store_identity.ids_in(disk, layout)
        except NotADirectoryError:
            ids = {}
        if not ids:
            raise


def _lock(disk: Disk, layout: Layout) -> Lock:
    content = f"{process.process_id()} {disk.boot_id()}\n".encode()
    lock = disk.lock(layout.lock, disk.read(layout.lock) if disk.exists(layout.lock) else content)
    if lock is None:
        raise Locked(f"another process has {layout.directory} open: close it there, then repair")
    return lock


class _Repair:
    """One repair. Owned by one thread, which holds the store's lock."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        settings: Settings,
        clock: Clock,
        progress: Progress,
        report: RepairReport,
        lake: Lake | None,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._clock = clock
        self._progress = progress
        self._report = report
        self._lake = lake
        report.lost, report.moved, report.written, report.notes = [], [], [], []

    def run(self) -> None:
        kinds = {problem.kind for problem in self._report.problems}
        store_id = self._identify()
        folder = self._layout.meta
        numbers = checkpoint_file.numbers_in(self._disk, folder)
        root: StoreCheckpoint | None = None
        if numbers:
            try:
                checkpoint_file.load(self._disk, folder, store_id)
            except Corrupt:
                manifests = self._manifests(store_id)
                root = rebuild_checkpoint(self._disk, self._layout, store_id, manifests)
                self._report.notes.append(
                    "no checkpoint can be read: names, settings and deletes of topics are known "
                    "only as far as they are in log and lake"
                )
        old = self._damaged_files()
        if root is not None or not kinds <= _IN_META_ONLY:
            old |= self._log_and_checkpoints()
            self._rewrite(store_id, root)
        self._move(sorted(old))

    def _manifests(self, store_id: bytes) -> dict[int, Manifest]:
        """The newest manifest of every topic in the lake."""
        manifests: dict[int, Manifest] = {}
        if self._lake is None:
            return manifests
        for topic_id in verify.topics_in(self._lake.objects):
            manifest, error = verify.newest_or_error(self._lake.objects, store_id, topic_id)
            if manifest is not None:
                manifests[topic_id] = self._with_holes(manifest)
            else:
                self._report.notes.append(f"the lake's part of topic {topic_id}: {error}")
        return manifests

    def _with_holes(self, manifest: Manifest) -> Manifest:
        """The manifest with the seqs that were deleted before its files were written."""
        deleted = BitMap64(manifest.deleted or ())
        for file in manifest.files:
            if self._lake is None or file.rows == file.last_seq - file.first_seq + 1:
                continue
            reader = self._lake.open_file(manifest.topic_id, file)
            try:
                for place in range(len(reader.zones)):
                    deleted |= reader.zone(place).holes() or BitMap64()
            except Corrupt as error:
                self._report.notes.append(f"the deleted records there are unknown: {error}")
        return msgspec.structs.replace(manifest, deleted=deleted or None)

    def _identify(self) -> bytes:
        """The store's id, after writing a new SYSTEM file if it is damaged or another store's."""
        directory = self._layout.directory
        try:
            store_id = system_file.read(self._disk, directory)
            store_identity.check(self._disk, self._layout, store_id)
            return store_id
        except (Corrupt, NotAStore):
            store_id = store_identity.id_from_other_files(self._disk, self._layout)
        self._report.notes.append("the SYSTEM file is written again from the other files")
        if not self._report.dry_run:
            if self._disk.exists(f"{directory}/SYSTEM"):
                content = self._disk.read(f"{directory}/SYSTEM")
                self._disk.make_dirs(self._layout.damaged)
                self._disk.durable_replace(self._free_name("SYSTEM"), content)
            system_file.write(self._disk, directory, store_id, self._clock.now_us())
            self._report.written.append(f"{directory}/SYSTEM")
        return store_id

    def _rewrite(self, store_id: bytes, root: StoreCheckpoint | None) -> None:
        """Write a checkpoint of everything that can be read."""
        store = recover(
            self._disk,
            self._layout,
            store_id,
            self._settings,
            tolerate=True,
            progress=self._progress,
            root=root,
            lake=self._lake,
        )
        try:
            known = {entry.id: len(entry.gaps) for entry in store.root.topics}
            bad = {problem.path for problem in self._report.problems if problem.kind == "segment"}
            writer = Rewriter(self._disk, self._layout, self._settings, self._clock, store, bad)
            writer.run(dry_run=self._report.dry_run)
            for state in store.catalog.states():
                self._give_up(state, known.get(state.id, 0), store)
            if not self._report.dry_run:
                self._report.written += writer.finish()
        finally:
            store.close()

    def _give_up(self, state: TopicState, known: int, store: StoreState) -> None:
        """Report what a topic lost; a new epoch makes its readers notice that."""
        lost = [gap for gap in state.gaps[known:] if gap.reason == "damaged"]
        lost = [gap for gap in lost if gap.last_seq >= state.floor]
        for gap in sorted(lost, key=lambda gap: gap.first_seq):
            guessed = gap.last_seq >= store.guessed.get(state.id, gap.last_seq + 1)
            self._report.lost.append(
                LostRecords(
                    topic=state.name,
                    first_seq=max(gap.first_seq, state.floor),
                    last_seq=gap.last_seq,
                    exact=not guessed,
                )
            )
        if lost:
            state.epoch = max(state.epoch + 1, self._clock.now_us())
        if after_recovery.may_have_lost(state, store):
            epoch = max(state.epoch + 1, self._clock.now_us())
            lose_tail(
                state, control_messages.TailLost(state.next_seq, state.ceiling, epoch, "lost")
            )
        state.ceiling = state.ceiling_requested = state.next_seq - 1

    def _damaged_files(self) -> set[str]:
        disk = self._disk
        paths = {problem.path for problem in self._report.problems if problem.kind != "system"}
        return {path for path in paths if disk.exists(path) and not disk.is_dir(path)}

    def _log_and_checkpoints(self) -> set[str]:
        disk, layout = self._disk, self._layout
        numbers = checkpoint_file.numbers_in(disk, layout.meta)
        files = {checkpoint_file.path_of(layout.meta, number) for number in numbers}
        for folder in map(layout.shard, layout.shards_on(disk)):
            names = [name for name in disk.list_dir(folder) if first_lsn_of(name) is not None]
            files |= {f"{folder}/{name}" for name in names}
        return files

    def _move(self, paths: list[str]) -> None:
        """Move damaged files to ``damaged/``, with a report beside them."""
        disk, damaged = self._disk, self._layout.damaged
        targets = {path: self._free_name(self._relative(path)) for path in paths}
        self._report.moved = [MovedFile(path=path, to=to) for path, to in targets.items()]
        if self._report.dry_run:
            return
        disk.make_dirs(damaged)
        path = self._free_name("repair.json")
        disk.durable_replace(path, msgspec.json.format(msgspec.json.encode(self._report)) + b"\n")
        self._report.written.append(path)
        for old, new in targets.items():
            disk.rename(old, new)
        for folder in sorted({damaged, *(path.rpartition("/")[0] for path in targets)}):
            disk.sync_dir(folder)

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._layout.directory}/").replace("/", "-")

    def _free_name(self, name: str) -> str:
        """An unused path in the damaged folder."""
        number = 1
        while self._disk.exists(f"{self._layout.damaged}/{number:04d}-{name}"):
            number += 1
        return f"{self._layout.damaged}/{number:04d}-{name}"
