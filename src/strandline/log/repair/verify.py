"""Verifies a store: reads all of its files, changes nothing, and reports damage.

Opening a store checks what it needs; this checks the rest, too: every frame of every WAL file,
also those that no checkpoint needs any more, every block of every segment that a kept checkpoint
lists, and that both agree with the checkpoints about which records exist. Last the lake
(``log/repair/verify_lake.py``), if the store has one.

A store that another process is writing to can be verified. It changes meanwhile, so after a problem
everything is verified a second time, and only problems of both times are reported.
"""

from __future__ import annotations

import msgspec

from strandline.config.settings import Settings
from strandline.errors import Corrupt, Invalid, NotAStore, Unavailable
from strandline.lake import object_keys
from strandline.lake.lake import Lake
from strandline.log.files import checkpoint_codec as checkpoint_file
from strandline.log.files import store_identity, system_file
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress, silent
from strandline.log.recovery.recover import StoreState, recover, uncovered
from strandline.log.repair import verify_segment
from strandline.log.repair.verify_lake import check_lake
from strandline.log.segments.segment_set import SegmentSet
from strandline.log.wal import block, control_messages
from strandline.log.wal.codec import store_seed
from strandline.log.wal.log_files import first_lsn_of
from strandline.log.wal.recovery import Frame, LogDamage, ShardLog, SingleFrame
from strandline.platform.disk import Disk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects


class VerifyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file that is not as it was written, or records that are missing."""

    path: str
    kind: str
    """system, closed, checkpoint, wal, segment or lake; or topic, as the result of the others:
    records that can no longer be read."""
    reason: str
    offset: int = 0
    topic: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None


class VerifyNote(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that is not damage."""

    path: str
    text: str


class VerifyReport(msgspec.Struct, kw_only=True):
    """The result of a verification. Nothing was changed."""

    path: str
    store_id: str = ""
    in_use: bool = False
    """Whether another process had the store open for writing."""
    files: int = 0
    bytes_read: int = 0
    frames: int = 0
    blocks: int = 0
    records: int = 0
    """Records in WAL frames and segment blocks, counted wherever they are stored."""
    topics: int = 0
    problems: list[VerifyProblem] = []
    notes: list[VerifyNote] = []

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_store(
    disk: Disk,
    path: str,
    settings: Settings | None = None,
    progress: Progress = silent,
    *,
    objects: Objects | None = None,
    lake: bool = True,
) -> VerifyReport:
    """Read and check a whole store, with its lake: that of the settings, or ``objects``."""
    layout = Layout(path)
    settings = settings or Settings()
    if not disk.is_dir(path):
        raise NotAStore(f"{path} is not a store: there is no such directory")
    if lake and objects is None:
        url, options = settings.lake.url or layout.lake, settings.lake.objects
        objects = open_objects(url, settings=options, disk=disk)
    source = Lake(objects, settings.lake) if lake and objects is not None else None
    in_use, lock = False, None
    if disk.exists(layout.lock):
        lock = disk.lock(layout.lock, disk.read(layout.lock))
        in_use = lock is None
    try:
        report = verify_locked(disk, layout, settings, progress, source)
        if in_use and report.problems:
            again = verify_locked(disk, layout, settings, progress, source)
            again.problems = [found for found in again.problems if found in report.problems]
            report = again
    finally:
        if source is not None:
            source.close()
        if lock is not None:
            lock.release()
    report.in_use = in_use
    return report


def verify_locked(
    disk: Disk,
    layout: Layout,
    settings: Settings,
    progress: Progress = silent,
    lake: Lake | None = None,
) -> VerifyReport:
    """As ``verify_store``, for a caller that holds the lock."""
    return _Verification(disk, layout, settings, progress, lake).run()


class _Verification:
    """One pass over a store. Owned by one thread."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        settings: Settings,
        progress: Progress,
        lake: Lake | None,
    ) -> None:
        self._lake = lake
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._progress = progress
        self._report = VerifyReport(path=layout.directory)
        self._store_id = b""
        self._names: dict[int, str] = {}
        self._closed: dict[int, int] = {}
        self._decoded: list[StoreCheckpoint] = []

    def run(self) -> VerifyReport:
        self._report.problems, self._report.notes = [], []
        try:
            self._identify()
        except NotAStore:
            raise
        except Corrupt as error:
            self._add(error, "system")
            return self._report
        self._read_closed()
        self._read_checkpoints()
        for shard in self._layout.shards_on(self._disk):
            self._read_log(shard)
        self._read_segments()
        self._compare_topics()
        self._note_other_files()
        return self._report

    def _identify(self) -> None:
        try:
            self._store_id = system_file.read(self._disk, self._layout.directory)
            store_identity.check(self._disk, self._layout, self._store_id)
        except Corrupt as error:
            self._add(error, "system")
            self._store_id = store_identity.id_from_other_files(self._disk, self._layout)
        except NotAStore:
            if not store_identity.ids_in(self._disk, self._layout):
                raise
            missing = f"{self._layout.directory}/SYSTEM"
            self._add(Corrupt("the SYSTEM file is missing", path=missing), "system")
            self._store_id = store_identity.id_from_other_files(self._disk, self._layout)
        self._report.store_id = self._store_id.hex()

    def _read_closed(self) -> None:
        try:
            self._closed = self._layout.read_closed(self._disk)
        except Corrupt as error:
            self._add(error, "closed")

    def _read_checkpoints(self) -> None:
        """Read every checkpoint, newest first."""
        folder = self._layout.meta
        for number in reversed(checkpoint_file.numbers_in(self._disk, folder)):
            path = checkpoint_file.path_of(folder, number)
            try:
                content = self._disk.read(path)
                self._count(len(content))
                root = checkpoint_file.decode(content, path)
                checkpoint_file.check_identity(root, number, self._store_id, path)
            except (Corrupt, OSError) as error:
                self._add(error, "checkpoint", path)
                continue
            self._decoded.append(root)
            for entry in root.topics:
                self._names.setdefault(entry.id, entry.name)

    def _read_log(self, shard: int) -> None:
        directory = self._layout.shard(shard)
        try:
            log = ShardLog(self._disk, directory, shard, self._store_id, tolerate=True)
        except OSError as error:
            self._add(error, "wal", directory)
            return
        try:
            synced = [root.durable_lsn(shard) for root in self._decoded]
            log.durable_upto = max([self._closed.get(shard, 0), *synced])
            place = 0
            while place < len(log.headers):
                entry = log.files.entries[place]
                self._count(entry.size)
                for frame in log.scan(place, entry.first_lsn):
                    self._note_frame(frame)
                place += 1
                self._progress(f"log of shard {shard}", place, len(log.headers))
            self._check_reach(log)
        except OSError as error:
            self._add(error, "wal", directory)
        finally:
            log.files.close()
        for damage in log.damage:
            self._add_damage(damage)
        for path in log.cut:
            self._note(path, "is after a torn write and is not part of the log")

    def _note_frame(self, frame: Frame) -> None:
        self._report.frames += 1
        if isinstance(frame, SingleFrame):
            self._report.records += 1
            return
        for _, view in frame.blocks:
            content = block.Block(view)
            self._report.blocks += 1
            self._report.records += content.count
            if content.kind == block.CONTROL:
                message = control_messages.decode(content.control_payload())
                if isinstance(message, control_messages.TopicCreated):
                    self._names.setdefault(content.topic_id, message.name)

    def _check_reach(self, log: ShardLog) -> None:
        """Check that every kept checkpoint has the part of the log that it needs."""
        for root in self._decoded:
            replay_lsn = root.replay_lsn(log.files.shard)
            first = log.headers[0].first_lsn if log.headers else max(replay_lsn, log.durable_upto)
            if first > replay_lsn:
                reason = f"checkpoint {root.number} needs the log from lsn {replay_lsn} on"
                self._add(Corrupt(reason, path=log.files.directory), "wal")

    def _read_segments(self) -> None:
        library = SegmentSet(
            self._disk,
            self._layout.segments,
            self._settings.segment,
            store_id=self._store_id,
            seed=store_seed(self._store_id),
        )
        infos = {
            (info.number, info.footer_checksum): info
            for root in self._decoded
            for info in root.segments
        }
        try:
            for done, info in enumerate(infos.values()):
                segment = library.add(info)
                for error in verify_segment.check_segment(self._disk, segment):
                    self._add(error, "segment", segment.path)
                self._count(info.file_size)
                self._report.records += info.record_count
                self._progress("segments", done + 1, len(infos))
        finally:
            library.close()

    def _compare_topics(self) -> None:
        """Check that every record between a topic's floor and head is in some file."""
        if not self._decoded and checkpoint_file.numbers_in(self._disk, self._layout.meta):
            return
        store = recover(self._disk, self._layout, self._store_id, self._settings, tolerate=True)
        try:
            self._report.topics = len(store.catalog)
            self._read_lake(store)
            known = {entry.id: len(entry.gaps) for entry in store.root.topics}
            for state in store.catalog.states():
                gaps = [*state.gaps[known.get(state.id, 0) :], *uncovered(state)]
                for gap in gaps:
                    if gap.reason == "damaged" and gap.last_seq >= state.floor:
                        self._report.problems.append(
                            VerifyProblem(
                                path=self._layout.directory,
                                kind="topic",
                                reason="records are missing",
                                topic=state.name,
                                first_seq=gap.first_seq,
                                last_seq=gap.last_seq,
                            )
                        )
        finally:
            store.close()

    def _read_lake(self, store: StoreState) -> None:
        """Check the lake, if the store has one."""
        states, ref = store.catalog.states(), store.root.lake
        if self._lake is None or (ref is None and all(state.cold is None for state in states)):
            return
        self._lake.identity.expect(self._store_id, ref)
        cold = [state.cold for state in states if state.cold is not None]
        self._report.files += sum(map(len, cold))
        done, total = 0, sum(sum(files.sizes) for files in cold)
        try:
            self._lake.identity.confirm()
            for step in check_lake(self._lake, self._store_id, states):
                if isinstance(step, int):
                    self._report.bytes_read += step
                    done += step
                    self._progress("lake", min(done, total), total)
                else:
                    self._add(step, "lake")
        except Invalid as error:
            path = f"{self._lake.objects.name}/{object_keys.STORE}"
            self._add(Corrupt(str(error), path=path), "lake")
        except Unavailable as error:
            reason = f"the lake cannot be read ({error}): verify again, or with --no-lake"
            self._add(Corrupt(reason, path=self._lake.objects.name), "lake")

    def _note_other_files(self) -> None:
        """Note files that nothing refers to."""
        layout, disk = self._layout, self._disk
        own = {"SYSTEM", "LOCK", "BALLAST", "CLOSED", "meta", "wal", "segments", "lake", "spool"}
        own |= {"incoming", "pins", "views", "views-spill", "views-cache"}
        for name in disk.list_dir(layout.directory):
            path = f"{layout.directory}/{name}"
            if path in (layout.quarantine, layout.damaged):
                self._note(path, f"has {len(disk.list_dir(path))} files that were set aside")
            elif name not in own:
                self._note(path, "is not a file of the store")
        for name in disk.list_dir(layout.meta):
            if not (name.startswith("checkpoint-") and name.endswith(".bin")):
                self._note(f"{layout.meta}/{name}", "is not a checkpoint")
        for shard in layout.shards_on(disk):
            for name in disk.list_dir(layout.shard(shard)):
                if first_lsn_of(name) is None and not name.startswith("spare-"):
                    self._note(f"{layout.shard(shard)}/{name}", "is not a file of the log")
        listed = {
            f"{layout.segments}/{info.name()}" for root in self._decoded for info in root.segments
        }
        for folder in disk.list_dir(layout.segments):
            for name in disk.list_dir(f"{layout.segments}/{folder}"):
                path = f"{layout.segments}/{folder}/{name}"
                if path not in listed:
                    self._note(path, "is a segment that no checkpoint lists")

    def _add_damage(self, damage: LogDamage) -> None:
        error = damage.error()
        for loss in damage.losses:
            if loss.first_seq and (loss.certain or loss.topic_id in self._names):
                self._add(
                    Corrupt(
                        error.reason,
                        path=damage.path,
                        offset=damage.offset,
                        topic_id=loss.topic_id,
                        first_seq=loss.first_seq,
                        last_seq=loss.last_seq,
                    ),
                    "wal",
                )
                return
        self._add(error, "wal")

    def _add(self, error: Corrupt | OSError, kind: str, path: str = "") -> None:
        if isinstance(error, OSError):
            reason = f"it cannot be read: {error.strerror or error}"
            self._report.problems.append(VerifyProblem(path=path, kind=kind, reason=reason))
            return
        self._report.problems.append(
            VerifyProblem(
                path=error.path,
                kind=kind,
                reason=error.reason,
                offset=error.offset,
                topic=None if error.topic_id is None else self._name(error.topic_id),
                first_seq=error.first_seq,
                last_seq=error.last_seq,
            )
        )

    def _name(self, topic_id: int) -> str:
        return self._names.get(topic_id, f"topic {topic_id}")

    def _note(self, path: str, text: str) -> None:
        self._report.notes.append(VerifyNote(path=path, text=text))

    def _count(self, size: int) -> None:
        self._report.files += 1
        self._report.bytes_read += size
