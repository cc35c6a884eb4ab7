"""Creates a backup: pins the newest root, copies missing objects, and writes the descriptor last.

    1 pin the store's files, then read the newest root (``log/files/pins.py``)
    2 read the log after it, up to the end of the backup (``store_reader.py``)
    3 copy the log, the segments that the root lists, and its lake files
    4 create the descriptor, and with it the backup

A failure anywhere leaves the older backups unchanged, and objects that no descriptor names: the
next attempt uses them. Damaged data is not copied: frames, segments and lake files are verified by
their own checksums during the copy.

A pin also holds the files of a writer in another process. A process without permission to write to
the store's folder cannot pin; then files may be deleted during the backup, which begins again with
the next root, and most of what it needs is copied already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from strandline.backup import catalog, object_keys
from strandline.backup.descriptor import BackupDescriptor, BackupObject, LakeTopicManifest, LogPiece
from strandline.backup.store_reader import BackupReach, LogRange, LogRangeReader
from strandline.backup.uploader import BackupUploader, digest, ranges
from strandline.errors import Corrupt, Invalid, NotFound, ObjectExists, Unavailable
from strandline.lake import object_keys as lake_keys
from strandline.lake.cold_index import ColdIndex
from strandline.lake.manifest import fencing, manifest_codec
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_history import ManifestHistory
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files import system_file
from strandline.log.files.checkpoint_codec import StoreCheckpoint
from strandline.log.files.layout import Layout
from strandline.log.files.pins import Pins
from strandline.log.progress import Progress
from strandline.log.segments.codec import block_checksum
from strandline.log.segments.reader import BlockCache, FilePool, Segment, SegmentInfo
from strandline.log.wal.codec import store_seed
from strandline.log.wal.shard import Shard
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk, ReadFile
from strandline.platform.objectstore.protocol import CHUNK_SIZE, Objects

_ATTEMPTS_MAX = 8
_MANIFEST_ATTEMPT = "0" * 32  # in manifests: the same version is the same bytes


def create_backup(
    disk: Disk,
    directory: str,
    objects: Objects,
    *,
    lake: Objects,
    clock: Clock,
    progress: Progress = lambda what, done, total: None,
    reach: Callable[[], BackupReach] | None = None,
) -> BackupDescriptor:
    """Back up a store. ``reach`` returns the end of the backup, in the store's own process."""
    layout = Layout(directory)
    about = system_file.describe(disk, directory)
    for _ in range(_ATTEMPTS_MAX):
        root_number = _newest_root(disk, layout)
        try:
            with _pinned(disk, layout):
                limit = (lambda: BackupReach(clock.now_us())) if reach is None else reach
                attempt = _Attempt(disk, layout, about, objects, lake, clock, progress)
                return attempt.run(limit)
        except ObjectExists:
            continue  # another backup got the number: build on that one
        except (FileNotFoundError, NotFound, Corrupt):
            if _newest_root(disk, layout) == root_number:
                raise
    raise Unavailable("checkpoints or other backups are faster than this one: try again")


def synced_reach(shards: Sequence[Shard], clock: Clock) -> BackupReach:
    """The synced ends of all shards of a store at one time."""
    with contextlib.ExitStack() as stack:
        for shard in shards:  # in the order of their numbers: no other code holds two
            stack.enter_context(shard.writer.lock)
        until_us = max([clock.now_us(), *(shard.writer.last_ts for shard in shards)])
        ends = {shard.number: shard.writer.end_lsn for shard in shards}
    for shard in shards:
        shard.committer.wait_synced(ends[shard.number])
    return BackupReach(until_us, ends)


@contextlib.contextmanager
def _pinned(disk: Disk, layout: Layout) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no permission, a read-only disk, or a full one
            stack.enter_context(Pins(disk, layout.pins).hold())
        yield


def _newest_root(disk: Disk, layout: Layout) -> int:
    return max(root_file.numbers_in(disk, layout.meta), default=0)


class _Attempt:
    """One attempt of a backup."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        about: system_file.System,
        objects: Objects,
        lake: Objects,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._about = about
        self._store_id = bytes.fromhex(about.store_id)
        self._objects = objects
        self._lake = lake
        self._clock = clock
        self._progress = progress
        self._done = self._total = 0

    def run(self, reach: Callable[[], BackupReach]) -> BackupDescriptor:
        made_us = self._clock.now_us()
        previous, number = self._previous()
        root, _ = root_file.load(self._disk, self._layout.meta, self._store_id)
        log = LogRangeReader(self._disk, self._layout, root, reach(), previous)
        try:
            cold = list(self._cold_parts(root))
            self._total = sum(info.file_size for info in root.segments)
            self._total += sum(each.end_lsn - each.first_lsn for each in log.ranges)
            self._total += sum(manifest.size for manifest in cold)
            known = {} if previous is None else {each.key: each for each in previous.objects()}
            copier = BackupUploader(self._objects, known, now_us=made_us, tell=self._report)
            # The log first: the writer extends and removes it meanwhile.
            fresh = [self._piece(copier, log_range) for log_range in log.ranges]
            shared = _still_needed(previous, root) if previous is not None and log.continues else []
            backup = BackupDescriptor(
                number=number,
                attempt=self._disk.random_id().hex(),
                store_id=self._about.store_id,
                store_created_us=self._about.created_us,
                made_us=made_us,
                timeline=previous.timeline if previous is not None and log.continues else number,
                exact_us=root.last_ts if root.number else self._about.created_us,
                until_us=log.until_us,
                copied_bytes=0,
                root_number=root.number,
                root=self._root(copier, root),
                shards=log.shards,
                topics=log.topics,
                log=[*shared, *fresh],
                segments=[self._segment(copier, info) for info in root.segments],
                manifests=[self._manifest(copier, manifest) for manifest in cold],
                lake=[self._lake_file(copier, each, file) for each in cold for file in each.files],
            )
        finally:
            log.close()
        backup = msgspec.structs.replace(backup, copied_bytes=copier.copied_bytes)
        catalog.add_backup(self._objects, backup)
        return backup

    def _previous(self) -> tuple[BackupDescriptor | None, int]:
        """The newest backup, if it can be read, and the number of the new one."""
        numbers = catalog.backup_numbers(self._objects)
        if not numbers:
            return None, 1
        try:
            previous = catalog.read_backup(self._objects, numbers[-1])
        except Corrupt:
            return None, numbers[-1] + 1  # `verify` reports it; the new backup is independent
        if previous.store_id != self._about.store_id:
            raise Invalid(
                f"{self._objects.name} has backups of store {previous.store_id}, and this is store "
                f"{self._about.store_id}: use another location"
            )
        return previous, numbers[-1] + 1

    def _report(self, size: int) -> None:
        self._done += size
        self._progress("backup", min(self._done, self._total), self._total)

    def _root(self, copier: BackupUploader, root: StoreCheckpoint) -> BackupObject | None:
        if not root.number:
            return None
        data = self._disk.read(root_file.path_of(self._layout.meta, root.number))
        content = digest([data])
        return copier.copy(
            object_keys.root_key(root.number, content), content, len(data), lambda: [data]
        )

    def _piece(self, copier: BackupUploader, log_range: LogRange) -> LogPiece:
        size = log_range.end_lsn - log_range.first_lsn

        def chunks() -> Iterator[bytes]:
            return _chunks(log_range.file, log_range.offset, size)

        content = digest(chunks())
        key = object_keys.piece_key(
            log_range.shard, log_range.first_lsn, log_range.end_lsn, content
        )
        return LogPiece(
            shard=log_range.shard,
            first_lsn=log_range.first_lsn,
            end_lsn=log_range.end_lsn,
            term=log_range.term,
            ts_first=log_range.ts_first,
            ts_last=log_range.ts_last,
            object=copier.copy(key, content, size, chunks),
        )

    def _segment(self, copier: BackupUploader, info: SegmentInfo) -> BackupObject:
        key = object_keys.segment_key(info)
        known = copier.find(key)
        if known is not None:
            return known
        pool = FilePool(self._disk)
        try:
            path = f"{self._layout.segments}/{info.name()}"
            file = self._disk.open_read(path)
            try:
                _verify_segment(info, self._layout.segments, pool, file, self._store_id)
                content = digest(_chunks(file, 0, info.file_size))
                return copier.copy(
                    key, content, info.file_size, lambda: _chunks(file, 0, info.file_size)
                )
            finally:
                file.close()
        finally:
            pool.close()

    def _cold_parts(self, root: StoreCheckpoint) -> Iterator[Manifest]:
        """The manifests of a root, without their removed files."""
        for entry in root.topics:
            cold = ColdIndex.decode(entry.cold)
            if cold is None:
                continue
            history = ManifestHistory(self._lake, self._store_id, entry.id)
            try:
                manifest = history.read(cold.manifest).manifest
            except NotFound:
                owner = fencing.identity_of(self._lake)
                if owner != self._store_id:
                    name = "no store" if owner is None else f"store {owner.hex()}"
                    raise Invalid(
                        f"{self._lake.name} is not the lake of this store, "
                        f"{self._about.store_id}, but of {name}: pass the lake of this store"
                    ) from None
                raise
            names = {cold.file(index).name() for index in range(len(cold))}
            if names != {file.name() for file in manifest.files}:
                raise Corrupt(
                    "a checkpoint and the lake name other files",
                    path=f"{self._lake.name}/{lake_keys.manifest_key(entry.id, cold.manifest)}",
                )
            yield msgspec.structs.replace(manifest, oldest=manifest.number, removed=(), term=0)

    def _manifest(self, copier: BackupUploader, manifest: Manifest) -> LakeTopicManifest:
        data, _ = manifest_codec.encode(
            manifest, None, store_id=self._store_id, attempt=_MANIFEST_ATTEMPT, full=True
        )
        content = digest([data])
        key = object_keys.manifest_key(manifest.topic_id, manifest.number, content)
        copied = copier.copy(key, content, len(data), lambda: [data])
        return LakeTopicManifest(topic_id=manifest.topic_id, number=manifest.number, object=copied)

    def _lake_file(
        self, copier: BackupUploader, manifest: Manifest, file: LakeFile
    ) -> BackupObject:
        source = lake_keys.data_key(manifest.topic_id, file.name())
        key = object_keys.lake_key(manifest.topic_id, file.name())

        def chunks() -> Iterator[bytes]:
            return ranges(self._lake, source, file.size)

        try:
            return copier.copy(key, file.content, file.size, chunks)
        except Corrupt as error:
            if digest(chunks()) == file.content:
                raise
            reason = "a lake file is not what was written"
            raise Corrupt(reason, path=f"{self._lake.name}/{source}") from error


def _still_needed(previous: BackupDescriptor, root: StoreCheckpoint) -> list[LogPiece]:
    """The log pieces of the last backup that replay of this backup's root needs."""
    return [piece for piece in previous.log if piece.end_lsn > root.replay_lsn(piece.shard)]


def _chunks(file: ReadFile, offset: int, size: int) -> Iterator[bytes]:
    end = offset + size
    while offset < end:
        chunk = file.pread(min(CHUNK_SIZE, end - offset), offset)
        if not chunk:
            raise Corrupt("a file is cut off", path=file.path, offset=offset)
        yield chunk
        offset += len(chunk)


def _verify_segment(
    info: SegmentInfo, directory: str, pool: FilePool, file: ReadFile, store_id: bytes
) -> None:
    """Check every block of a segment, so that damage is found now and not at a restore."""
    seed = store_seed(store_id)
    segment = Segment(info, directory, pool, BlockCache(0), store_id=store_id, seed=seed)
    index = segment.index()
    for offset, size, checksum in zip(
        index.offset.tolist(), index.stored_size.tolist(), index.checksum.tolist(), strict=True
    ):
        if block_checksum(file.pread(size, offset), seed, offset) != checksum:
            raise Corrupt("a block fails its checksum", path=file.path, offset=offset)
