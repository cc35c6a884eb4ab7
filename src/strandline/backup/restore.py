"""Makes a store from a backup, as it was at a moment.

    1 choose the backups, the root and where to cut the log (``restore_point.py``, ``pitr_cut.py``)
    2 write segments, checkpoint, log and lake into an empty directory, each object verified
    3 read the store as an opening would; on its log begin every topic's next life, and close it
    4 write SYSTEM: only now is it a store

A failure or crash before 4 leaves a directory that says so and that nobody opens.

The store has the id of the one that was backed up, and seqs above the moment will be given out
again. So every topic gets an epoch of now, from which its life counts: a reader that passes the
epoch of its cursor is told, as of a topic that was deleted and made again. The log is cut in its
own files, without a trace of what came behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from xxhash import xxh3_128

from strandline.backup import catalog, log_frames, object_keys, restore_point
from strandline.backup.catalog import Shelf
from strandline.backup.descriptor import Descriptor, Object, Piece
from strandline.backup.pitr_cut import Plan, plan, whole
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
from strandline.log.files.checkpoint_codec import Root
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.recovery.recover import Recovered, recover
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

_FILE_SLACK = 512  # zeros behind the frames of a file, as behind any log's end


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was made."""

    path: str
    backup: int
    """The last backup whose log was used."""
    root_backup: int
    """The backup whose checkpoint was used."""
    positions: dict[int, int]
    """By shard the lsn up to which the log was used."""
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
    at: restore_point.At | None = None,
    lake: Objects | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Restored:
    """Make a store in an empty directory; without a moment, as of the end of a backup."""
    layout = Layout(directory)
    if disk.list_dir(directory):
        raise Invalid(f"{directory} is not empty: name a new directory, or empty this one")
    source = _Source(objects, progress)
    found = _plan(catalog.read_all(objects), source, backup, at)
    disk.make_dirs(directory)
    lock = disk.lock(layout.lock, b"restore\n")
    if lock is None:
        raise Locked(f"another process restores into {directory}: wait for it")
    try:
        disk.durable_replace(f"{directory}/{system_file.RESTORING}", b"")
        target = lake or FolderObjects(layout.lake, disk)
        return _Restorer(disk, clock, layout, found, source, target).run()
    finally:
        lock.release()


def _plan(shelf: Shelf, source: _Source, backup: int | None, at: restore_point.At | None) -> Plan:
    if at is None:
        newest = restore_point.named(shelf, backup, source.objects.name)
        return whole(shelf.chain(newest.number))
    if backup is not None:
        restore_point.named(shelf, backup, source.objects.name)
    wanted = restore_point.parse(at)
    for chain in restore_point.chains(shelf, wanted, backup):
        found = plan(chain, wanted, source.piece)
        if found is not None:
            return found
    raise restore_point.refusal(shelf, wanted)


class _Source:
    """Objects of a backup, verified as they come."""

    def __init__(self, objects: Objects, progress: Progress) -> None:
        self.objects = objects
        self.total = 0
        self._done = 0
        self._progress = progress
        self._held: tuple[str, bytes] = ("", b"")

    def read(self, wanted: Object) -> bytes:
        """All bytes of an object."""
        parts: list[bytes] = []
        self.stream(wanted, parts.clear, parts.append)
        return b"".join(parts)

    def piece(self, piece: Piece) -> bytes:
        """The frames of a piece; the last one is remembered, for it is asked for again."""
        if self._held[0] != piece.object.key:
            self._held = (piece.object.key, self.read(piece.object))
        return self._held[1]

    def stream(
        self, wanted: Object, begin: Callable[[], object], write: Callable[[bytes], object]
    ) -> None:
        """Pass an object on. Only a second bad answer is believed, and then nothing else is."""
        for _ in range(2):
            begin()
            hasher = xxh3_128()
            try:
                for chunk in fetch(self.objects, wanted):
                    hasher.update(chunk)
                    write(chunk)
            except (NotFound, Invalid) as error:
                raise self._damaged(wanted, "is missing or too short") from error
            if hasher.hexdigest() == wanted.content:
                self._done += wanted.size
                self._progress("restore", min(self._done, self.total), self.total)
                return
        raise self._damaged(wanted, "is not what was written")

    def _damaged(self, wanted: Object, what: str) -> Corrupt:
        return Corrupt(f"an object of a backup {what}", path=f"{self.objects.name}/{wanted.key}")


class _Restorer:
    """Fills one directory."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        layout: Layout,
        found: Plan,
        source: _Source,
        lake: Objects,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._layout = layout
        self._plan = found
        self._source = source
        self._lake = lake
        self._store_id = bytes.fromhex(found.root.store_id)

    def run(self) -> Restored:
        found = self._plan.root
        self._source.total = sum(each.size for each in self._needed())
        root = self._read_root(found)
        self._write_segments(root, found)
        self._write_log()
        if root.number:
            # What is restored goes into a lake of its own.
            root = msgspec.structs.replace(root, lake_trash=[], lake=None)
            content = root_file.encode(root)
            self._disk.make_dirs(self._layout.meta)
            self._disk.durable_replace(root_file.path_of(self._layout.meta, root.number), content)
        self._write_lake(found)
        made = self._begin_next_lives()
        system_file.write(
            self._disk, self._layout.directory, self._store_id, found.store_created_us
        )
        self._disk.remove(f"{self._layout.directory}/{system_file.RESTORING}")
        return made

    def _needed(self) -> Iterator[Object]:
        found = self._plan.root
        for each in found.objects():
            if not each.key.startswith("wal/"):
                yield each
        for pieces in self._plan.log.values():
            yield from (piece.object for piece in pieces)

    def _read_root(self, found: Descriptor) -> Root:
        if found.root is None:
            return root_file.empty_root(self._store_id)
        root = root_file.decode(self._source.read(found.root), found.root.key)
        root_file.check_place(root, found.root_number, self._store_id, found.root.key)
        return root

    def _write_segments(self, root: Root, found: Descriptor) -> None:
        known = {each.key: each for each in found.segments}
        for info in root.segments:
            wanted = known.get(object_keys.segment_key(info))
            if wanted is None:
                raise Corrupt("a backup lacks a segment", path=object_keys.segment_key(info))
            path = f"{self._layout.segments}/{info.name()}"
            self._disk.make_dirs(path.rpartition("/")[0])
            self._write_file(path, wanted)

    def _write_file(self, path: str, wanted: Object) -> None:
        parts = _Aside(self._disk, path)
        try:
            self._source.stream(wanted, parts.begin, parts.write)
            parts.commit()
        finally:
            parts.abandon()

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
                self._disk.durable_replace(files.path(piece.first_lsn), _file_of(header, content))
                for mark in log_frames.marks(content, piece.first_lsn):
                    previous = mark.first_word

    def _write_lake(self, found: Descriptor) -> None:
        """The lake as the root knows it: data files, manifests, names; whose it is comes last."""
        if not found.manifests:
            return
        self._check_lake_is_new()
        known = {each.key: each for each in found.lake}
        for topic in found.manifests:
            data = self._source.read(topic.object)
            place = manifest_codec.Place(self._store_id, topic.topic_id, topic.number)
            manifest = manifest_codec.follow(None, data, place).manifest
            self._write_lake_files(manifest, known)
            self._lake.create(lake_keys.manifest_key(topic.topic_id, topic.number), data)
            topic_names.mark(self._lake, manifest.name, topic.topic_id)
        fencing.check_identity(self._lake, self._store_id, self._clock)

    def _check_lake_is_new(self) -> None:
        if next(iter(self._lake.list()), None) is not None:
            raise Invalid(f"{self._lake.name} is not empty: give the restored lake its own place")

    def _write_lake_files(self, manifest: Manifest, known: dict[str, Object]) -> None:
        for file in manifest.files:
            wanted = known.get(object_keys.lake_key(manifest.topic_id, file.name()))
            if wanted is None or wanted.content != file.content:
                raise Corrupt("a backup lacks a lake file", path=file.name())
            key = lake_keys.data_key(manifest.topic_id, file.name())
            self._lake.put_stream(key, self._verified(wanted))

    def _verified(self, wanted: Object) -> Iterable[bytes]:
        """Chunks of an object for a stream, which ends with an error if they are not its own."""
        hasher = xxh3_128()
        for chunk in fetch(self._source.objects, wanted):
            hasher.update(chunk)
            yield chunk
        if hasher.hexdigest() != wanted.content:
            reason = "an object of a backup is not what was written"
            raise Corrupt(reason, path=f"{self._source.objects.name}/{wanted.key}")

    def _begin_next_lives(self) -> Restored:
        settings = Settings()
        lake = Lake(self._lake, LakeSettings())
        try:
            found = recover(self._disk, self._layout, self._store_id, settings, lake=lake)
            try:
                return self._close_anew(found, settings)
            finally:
                found.close()
        finally:
            lake.close()

    def _close_anew(self, found: Recovered, settings: Settings) -> Restored:
        """On the log: every topic's next life, and a clean end."""
        ends = {shard: log.end_lsn for shard, log in found.logs.items()}
        for number, end_lsn in self._plan.ends.items():
            if ends.get(number, 0) != end_lsn:
                raise Corrupt("the restored log is too short", path=self._layout.shard(number))
        log = found.logs.get(0)
        directory = self._layout.shard(0)
        self._disk.make_dirs(directory)
        writer = Writer(
            log.files if log else ShardFiles(self._disk, directory, 0),
            self._clock,
            settings.wal,
            store_id=self._store_id,
            term=found.term + 1,
            end_lsn=log.end_lsn if log else 0,
            previous=log.previous if log else 0,
            last_ts=found.last_ts,
        )
        shard = Shard(writer)
        with writer.baton:
            for state in found.catalog.states():
                epoch = max(state.epoch + 1, writer.stamp())
                ephemeral = state.config.durability == "ephemeral"
                ceiling = state.ceiling if ephemeral else state.next_seq - 1
                message = control_messages.TailLost(state.next_seq, ceiling, epoch, RESTORED)
                writer.place_control(state.id, message)
            writer.end(control_messages.ClosedCleanly())
        shard.committer.sync_now()
        ends[0] = shard.committer.synced
        writer.close()
        self._layout.write_closed(self._disk, ends)
        chosen = self._plan
        return Restored(
            path=self._layout.directory,
            backup=chosen.backup,
            root_backup=chosen.root.number,
            positions=chosen.ends,
            topics=len(found.catalog),
            records=found.records,
        )


class _Aside:
    """A file that may be begun again."""

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


def _file_of(header: FileHeader, content: bytes) -> bytes:
    """A WAL file with these frames."""
    start = encode_file_header(header)
    size = len(start) + len(content) + _FILE_SLACK
    start = encode_file_header(msgspec.structs.replace(header, file_size=size))
    return b"".join([start, content, bytes(_FILE_SLACK)])
