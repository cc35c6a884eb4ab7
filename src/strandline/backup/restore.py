"""Restores a store from a backup, as it was at a restore point.

    1 choose the backups, the root and where to cut the log (``restore_point.py``, ``pitr_cut.py``)
    2 write segments, checkpoint, log and lake into an empty directory, each object verified
    3 read the store as an opening does; begin a new epoch of every topic on its log, and close it
    4 write SYSTEM: only now it is a store

A failure or crash before 4 leaves a directory with a marker file, which cannot be opened.

The store has the id of the original, and seqs above the restore point will be used again. So every
topic gets a new epoch: a reader that passes the epoch of its cursor gets the same tombstone as for
a topic that was deleted and created again. The log is cut in its own files and holds nothing from
after the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from xxhash import xxh3_128

from strandline.backup import catalog, log_frames, object_keys, restore_point
from strandline.backup.catalog import BackupCatalog
from strandline.backup.descriptor import BackupDescriptor, BackupObject, LogPiece
from strandline.backup.pitr_cut import RestorePlan, plan_latest, plan_point
from strandline.backup.uploader import fetch
from strandline.config.settings import LakeSettings, Settings
from strandline.errors import Corrupt, Invalid, Locked, NotFound
from strandline.lake import object_keys as lake_keys
from strandline.lake import topic_names
from strandline.lake.lake import Lake
from strandline.lake.manifest import fencing, manifest_codec
from strandline.lake.manifest.manifest import Manifest
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files import system_file
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.recovery.recover import StoreState, recover
from strandline.log.recovery.replay import RESTORED
from strandline.log.wal import control_messages
from strandline.log.wal.codec import FileHeader, encode_file_header
from strandline.log.wal.log_files import ShardFiles
from strandline.log.wal.shard import Shard
from strandline.log.wal.writer import Writer
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects

_FILE_SLACK = 512  # zeros after the frames of a file, as at the end of any log


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The restored store."""

    path: str
    backup: int
    """The last backup whose log was used."""
    root_backup: int
    """The backup whose checkpoint was used."""
    positions: dict[int, int]
    """The lsn up to which the log was used, by shard."""
    topics: int
    records: int
    """Records that were replayed from the log; the others are in segments and in the lake."""


def restore(
    objects: Objects,
    directory: str,
    *,
    disk: Disk,
    clock: Clock,
    backup: int | None = None,
    at: restore_point.RestoreTarget | None = None,
    lake: Objects | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Restored:
    """Restore a store into an empty directory; without ``at``, as of the end of a backup."""
    layout = Layout(directory)
    if disk.list_dir(directory):
        raise Invalid(f"{directory} is not empty: use a new directory, or empty this one")
    source = _Source(objects, progress)
    chosen = _plan(catalog.read_catalog(objects), source, backup, at)
    disk.make_dirs(directory)
    lock = disk.lock(layout.lock, b"restore\n")
    if lock is None:
        raise Locked(f"another process restores into {directory}: wait for it")
    try:
        disk.durable_replace(f"{directory}/{system_file.RESTORING}", b"")
        target = lake or FolderObjects(layout.lake, disk)
        return _Restorer(disk, clock, layout, chosen, source, target).run()
    finally:
        lock.release()


def _plan(
    backups: BackupCatalog,
    source: _Source,
    backup: int | None,
    at: restore_point.RestoreTarget | None,
) -> RestorePlan:
    if at is None:
        newest = restore_point.find_backup(backups, backup, source.objects.name)
        return plan_latest(backups.chain(newest.number))
    if backup is not None:
        restore_point.find_backup(backups, backup, source.objects.name)
    point = restore_point.parse(at)
    for chain in restore_point.chains(backups, point, backup):
        chosen = plan_point(chain, point, source.piece)
        if chosen is not None:
            return chosen
    raise restore_point.uncovered_error(backups, point)


class _Source:
    """Reads objects of a backup, verified during the read."""

    def __init__(self, objects: Objects, progress: Progress) -> None:
        self.objects = objects
        self.total = 0
        self._done = 0
        self._progress = progress
        self._last_piece: tuple[str, bytes] = ("", b"")

    def read(self, entry: BackupObject) -> bytes:
        """All bytes of an object."""
        parts: list[bytes] = []
        self.stream(entry, parts.clear, parts.append)
        return b"".join(parts)

    def piece(self, piece: LogPiece) -> bytes:
        """The frames of a piece; the last one is cached, because it is requested again."""
        if self._last_piece[0] != piece.object.key:
            self._last_piece = (piece.object.key, self.read(piece.object))
        return self._last_piece[1]

    def stream(
        self, entry: BackupObject, begin: Callable[[], object], write: Callable[[bytes], object]
    ) -> None:
        """Copy an object into ``write``. Only the second bad response is damage, which raises."""
        for _ in range(2):
            begin()
            hasher = xxh3_128()
            try:
                for chunk in fetch(self.objects, entry):
                    hasher.update(chunk)
                    write(chunk)
            except (NotFound, Invalid) as error:
                raise self._damaged(entry, "is missing or too short") from error
            if hasher.hexdigest() == entry.content:
                self._done += entry.size
                self._progress("restore", min(self._done, self.total), self.total)
                return
        raise self._damaged(entry, "is not what was written")

    def _damaged(self, entry: BackupObject, problem: str) -> Corrupt:
        return Corrupt(f"an object of a backup {problem}", path=f"{self.objects.name}/{entry.key}")


class _Restorer:
    """Restores into one directory."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        layout: Layout,
        plan: RestorePlan,
        source: _Source,
        lake: Objects,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._layout = layout
        self._plan = plan
        self._source = source
        self._lake = lake
        self._store_id = bytes.fromhex(plan.root.store_id)

    def run(self) -> Restored:
        backup = self._plan.root
        self._source.total = sum(each.size for each in self._needed())
        root = self._read_root(backup)
        self._write_segments(root, backup)
        self._write_log()
        if root.number:
            # The restored lake is a new one.
            root = msgspec.structs.replace(root, lake_trash=[], lake=None)
            content = root_file.encode(root)
            self._disk.make_dirs(self._layout.meta)
            self._disk.durable_replace(root_file.path_of(self._layout.meta, root.number), content)
        self._write_lake(backup)
        restored = self._begin_new_epochs()
        system_file.write(
            self._disk, self._layout.directory, self._store_id, backup.store_created_us
        )
        self._disk.remove(f"{self._layout.directory}/{system_file.RESTORING}")
        return restored

    def _needed(self) -> Iterator[BackupObject]:
        backup = self._plan.root
        for each in backup.objects():
            if not each.key.startswith("wal/"):
                yield each
        for pieces in self._plan.log.values():
            yield from (piece.object for piece in pieces)

    def _read_root(self, backup: BackupDescriptor) -> StoreCheckpoint:
        if backup.root is None:
            return root_file.empty_checkpoint(self._store_id)
        root = root_file.decode(self._source.read(backup.root), backup.root.key)
        root_file.check_identity(root, backup.root_number, self._store_id, backup.root.key)
        return root

    def _write_segments(self, root: StoreCheckpoint, backup: BackupDescriptor) -> None:
        known = {each.key: each for each in backup.segments}
        for info in root.segments:
            entry = known.get(object_keys.segment_key(info))
            if entry is None:
                raise Corrupt("a backup lacks a segment", path=object_keys.segment_key(info))
            path = f"{self._layout.segments}/{info.name()}"
            self._disk.make_dirs(path.rpartition("/")[0])
            self._write_file(path, entry)

    def _write_file(self, path: str, entry: BackupObject) -> None:
        file = _RestartableFile(self._disk, path)
        try:
            self._source.stream(entry, file.begin, file.write)
            file.commit()
        finally:
            file.abandon()

    def _write_log(self) -> None:
        for shard, end_lsn in self._plan.ends.items():
            directory = self._layout.shard(shard)
            self._disk.make_dirs(directory)
            files = ShardFiles(self._disk, directory, shard)
            previous = 0
            for piece in self._plan.log.get(shard, []):
                content = self._source.piece(piece)[: end_lsn - piece.first_lsn]
                header = FileHeader(
                    shard=shard,
                    store_id=self._store_id,
                    first_lsn=piece.first_lsn,
                    term=piece.term,
                    file_size=0,
                    previous=previous,
                    durable_upto=piece.first_lsn,
                    page_cache=0,
                    created_us=piece.ts_first,
                )
                self._disk.durable_replace(files.path(piece.first_lsn), _wal_file(header, content))
                for mark in log_frames.frame_spans(content, piece.first_lsn):
                    previous = mark.first_word

    def _write_lake(self, backup: BackupDescriptor) -> None:
        """Write the lake of the root: data files, manifests, markers; its identity comes last."""
        if not backup.manifests:
            return
        self._check_lake_is_new()
        known = {each.key: each for each in backup.lake}
        for topic in backup.manifests:
            data = self._source.read(topic.object)
            place = manifest_codec.ManifestKey(self._store_id, topic.topic_id, topic.number)
            manifest = manifest_codec.apply_object(None, data, place).manifest
            self._write_lake_files(manifest, known)
            self._lake.create(lake_keys.manifest_key(topic.topic_id, topic.number), data)
            topic_names.create_marker(self._lake, manifest.name, topic.topic_id)
        fencing.claim_lake(self._lake, self._store_id, self._clock)

    def _check_lake_is_new(self) -> None:
        if next(iter(self._lake.list()), None) is not None:
            raise Invalid(
                f"{self._lake.name} is not empty: give the restored lake a location of its own"
            )

    def _write_lake_files(self, manifest: Manifest, known: dict[str, BackupObject]) -> None:
        for file in manifest.files:
            entry = known.get(object_keys.lake_key(manifest.topic_id, file.name()))
            if entry is None or entry.content != file.content:
                raise Corrupt("a backup lacks a lake file", path=file.name())
            key = lake_keys.data_key(manifest.topic_id, file.name())
            self._lake.put_stream(key, self._verified(entry))

    def _verified(self, entry: BackupObject) -> Iterable[bytes]:
        """Chunks of an object, verified at the end, where damage raises."""
        hasher = xxh3_128()
        for chunk in fetch(self._source.objects, entry):
            hasher.update(chunk)
            yield chunk
        if hasher.hexdigest() != entry.content:
            reason = "an object of a backup is not what was written"
            raise Corrupt(reason, path=f"{self._source.objects.name}/{entry.key}")

    def _begin_new_epochs(self) -> Restored:
        settings = Settings()
        lake = Lake(self._lake, LakeSettings())
        try:
            state = recover(self._disk, self._layout, self._store_id, settings, lake=lake)
            try:
                return self._write_epochs(state, settings)
            finally:
                state.close()
        finally:
            lake.close()

    def _write_epochs(self, recovered: StoreState, settings: Settings) -> Restored:
        """Append every topic's new epoch and a clean end to the log."""
        ends = {shard: log.end_lsn for shard, log in recovered.logs.items()}
        for number, end_lsn in self._plan.ends.items():
            if ends.get(number, 0) != end_lsn:
                raise Corrupt("the restored log is too short", path=self._layout.shard(number))
        log = recovered.logs.get(0)
        directory = self._layout.shard(0)
        self._disk.make_dirs(directory)
        writer = Writer(
            log.files if log else ShardFiles(self._disk, directory, 0),
            self._clock,
            settings.wal,
            store_id=self._store_id,
            term=recovered.term + 1,
            end_lsn=log.end_lsn if log else 0,
            previous=log.previous if log else 0,
            last_ts=recovered.last_ts,
        )
        shard = Shard(writer)
        with writer.lock:
            for state in recovered.catalog.states():
                epoch = max(state.epoch + 1, writer.stamp())
                ephemeral = state.config.durability == "ephemeral"
                ceiling = state.ceiling if ephemeral else state.next_seq - 1
                message = control_messages.TailLost(state.next_seq, ceiling, epoch, RESTORED)
                writer.place_control(state.id, message)
            writer.place_last(control_messages.ClosedCleanly())
        shard.committer.sync_now()
        ends[0] = shard.committer.synced
        writer.close()
        self._layout.write_closed(self._disk, ends)
        plan = self._plan
        return Restored(
            path=self._layout.directory,
            backup=plan.backup,
            root_backup=plan.root.number,
            positions=plan.ends,
            topics=len(recovered.catalog),
            records=recovered.records,
        )


class _RestartableFile:
    """A file whose writing can begin again."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file = disk.create(path)

    def begin(self) -> None:
        self._file.abandon()
        self._file = self._disk.create(self._path)

    def write(self, chunk: bytes) -> None:
        self._file.write([chunk])

    def commit(self) -> None:
        self._file.commit()

    def abandon(self) -> None:
        self._file.abandon()


def _wal_file(header: FileHeader, content: bytes) -> bytes:
    """Encode a WAL file with these frames."""
    start = encode_file_header(header)
    size = len(start) + len(content) + _FILE_SLACK
    start = encode_file_header(msgspec.structs.replace(header, file_size=size))
    return b"".join([start, content, bytes(_FILE_SLACK)])
