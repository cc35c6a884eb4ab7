"""The files of one table, changed by commits to the table's own manifest.

The manifest is like that of a topic (``lake/manifest/manifest.py``), under an id that no topic has.
So files do not overlap in seqs, a commit is atomic, and a commit with an unknown result is
repeated, which changes nothing if the first one happened.

**No row is lost or duplicated.** A file covers the seqs after the previous file. ``add`` therefore
writes only rows after the last seq of the newest manifest: rows that are added again after a crash,
or after a lost response, are left out. The caller keeps rows until a manifest lists their file.

**A snapshot keeps its files** with ``pin``: in this process a file stays until no snapshot refers
to it; for other processes, ``lake.grace_s`` after it left the manifest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from strandline.config.memory_budget import MemoryShare
from strandline.config.settings import LakeSettings
from strandline.errors import Conflict, Invalid, NotFound, UnknownTopic
from strandline.lake.file_upload import FolderSpool
from strandline.lake.gc import GcResult
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestChange, ManifestCommitter
from strandline.lake.topic_names import has_marker
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.views.table.files import writer
from strandline.views.table.files.cache import ColumnCache
from strandline.views.table.files.compaction import FileMerge
from strandline.views.table.files.compaction_planner import ROWS_MAX, MergeRules, next_merge
from strandline.views.table.files.file_snapshot import PinnedFiles
from strandline.views.table.files.gc import sweep_table
from strandline.views.table.files.row_order import sort_rows
from strandline.views.table.files.writer import FileTarget
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast

STEP_ROWS = 1024 * 1024
"""Approximate rows that one step of a merge writes: limits how long other threads wait."""

ADD_TRIES = 3


class _Version:
    """A manifest in use with the number of its users, which ``_users_lock`` protects."""

    def __init__(self, manifest: Manifest | None, hold: ExitStack) -> None:
        self.manifest = manifest
        self.hold = hold
        self.users = 1


class TableFiles:
    """The files of one table. Safe to call from many threads."""

    def __init__(  # noqa: PLR0913 - parts and settings, by name
        self,
        objects: Objects,
        disk: Disk,
        clock: Clock,
        settings: LakeSettings,
        *,
        store_id: bytes,
        table_id: int,
        name: str,
        epoch: int,
        term: Callable[[], int | None],
        spool: str,
        share: MemoryShare,
        confirm: Callable[[], None] = lambda: None,
        zone_rows: int = 8192,
        flush_rows: int = 262_144,
        merge_files: int = 8,
        rows_max: int = ROWS_MAX,
        readonly: bool = False,
    ) -> None:
        self.readonly = readonly
        self._objects = objects
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._name = name
        self._epoch = epoch
        self._term = term
        self._confirm = confirm
        """Raises an error if the lake is that of another store."""
        self._ledger = ManifestCommitter(objects, store_id, table_id, clock, disk.random_id)
        self._writing = FileTarget(
            objects=objects,
            spool=FolderSpool(disk, spool),
            store_id=store_id,
            table_id=table_id,
            zone_rows=zone_rows,
        )
        self._rules = MergeRules(flush_rows=flush_rows, merge_files=merge_files, rows_max=rows_max)
        self._merge: FileMerge | None = None
        # Lock order: ``_add_lock`` or ``_merge_lock``, then ``_commit_lock``, which is held for a
        # commit, not while files are written: only an upload waits for another upload.
        self._add_lock = threading.Lock()
        self._merge_lock = threading.Lock()
        self._cache = ColumnCache(share)
        self._commit_lock = threading.RLock()
        self._users_lock = threading.Lock()  # held only for short operations
        self._released: deque[_Version] = deque()
        self._version = _Version(None, ExitStack())
        self._is_unsure = False
        """A commit failed and may have happened: read the manifest before the next one."""

    @property
    def manifest(self) -> Manifest | None:
        """The newest manifest that was read; None if there is none yet."""
        return self._version.manifest

    @property
    def files(self) -> tuple[LakeFile, ...]:
        manifest = self.manifest
        return manifest.files if manifest is not None else ()

    @property
    def flushed(self) -> int:
        """The last seq that files cover."""
        manifest = self.manifest
        return manifest.last_seq if manifest is not None else 0

    def all_are_rows(self, first_seq: int, last_seq: int) -> bool:
        """Whether files have a row for every seq of a range."""
        manifest, next_seq = self.manifest, first_seq
        for file in manifest.files_between(first_seq, last_seq) if manifest is not None else ():
            if file.first_seq > next_seq or file.rows <= file.last_seq - file.first_seq:
                return False
            next_seq = file.last_seq + 1
        return next_seq > last_seq

    @property
    def hidden(self) -> BitMap64:
        """Seqs of deleted rows that a file may still have. Must not be changed."""
        manifest = self.manifest
        return manifest.deleted or BitMap64() if manifest is not None else BitMap64()

    def exists(self) -> bool:
        """Whether the object store has a manifest of this table."""
        self._confirm()
        try:
            self._ledger.load()
        except UnknownTopic:
            return False
        return True

    def was_used(self) -> bool:
        """Whether this id ever had files, even if their manifests are missing."""
        return self.exists() or has_marker(self._objects, self._name, self._ledger.topic_id)

    def load(self, least: int = 0, checksum: str = "") -> None:
        """Read the newest manifest. Without one, the table has no files yet.

        With the number and checksum of a manifest that was committed before, an older lake and one
        of another history raise ``Corrupt``.
        """
        self._confirm()
        with self._commit_lock:
            try:
                newest = self._ledger.load_after(least, checksum) if least else self._ledger.load()
                self._update(newest)
            except UnknownTopic:
                return
            self._is_unsure = False

    def newest_checksum(self) -> str:
        """The checksum of the manifest; empty if there is none, or its checksum is not known."""
        manifest = self.manifest
        return self._ledger.checksum_of(manifest.number) if manifest is not None else ""

    def add(self, table: pa.Table, first_seq: int, last_seq: int, schema: Schema) -> None:
        """Write rows up to a seq to a file, except those that are in a file already.

        The file covers all seqs after the last file. Rows may be in any order.
        """
        with self._add_lock:
            for tries_left in reversed(range(ADD_TRIES)):
                try:
                    self._add(table, first_seq, last_seq, schema)
                except Conflict:  # a newer schema, or another file: read the manifest
                    if not tries_left:
                        raise
                    self.load()
                else:
                    return

    def hide(self, seqs: BitMap64) -> None:
        """Hide deleted rows, also in other processes; the next merge removes them from files."""
        if seqs:
            with self._commit_lock:
                self._create()
                self._commit(lambda each: each.with_deleted(seqs))

    def set_floor(self, floor: int) -> None:
        """Hide rows below a floor, and remove files that are entirely below it."""
        with self._commit_lock:
            self._create()
            at_us = self._clock.now_us()
            self._commit(lambda each: each.with_floor(floor, at_us=at_us))

    def set_schema(self, schema: Schema) -> None:
        """Set the schema of all further files."""
        with self._commit_lock:
            self._create()
            self._commit(lambda each: each.with_schema(schema))

    def drop(self) -> None:
        """Drop the table: remove all files; no file can be added afterwards."""
        with self._commit_lock:
            if self.manifest is None or self._is_unsure:
                self.load()
            if self.manifest is not None:
                at_us = self._clock.now_us()
                self._commit(lambda each: each.with_dropped(at_us=at_us))

    def compact_once(self, schema: Schema, *, purge: bool = False) -> bool:
        """One bounded step of merging files; False if there is nothing to merge.

        With ``purge`` every file that has hidden rows is rewritten, however few they are. A merge
        that conflicts with another writer's commit is cancelled, and counts as a step.
        """
        with self._merge_lock:
            if self._merge is None and not self._start_merge(schema, purge=purge):
                return False
            try:
                if not self._merge_step():
                    self._end_merge()
            except BaseException:
                self._cancel_merge()
                raise
            return True

    def sweep(self, *, orphans: bool = False) -> GcResult | None:
        """Delete objects that no version and no snapshot needs; None without a manifest."""
        if self.manifest is None or self.readonly:
            return None
        self._release_unused()
        swept, newest = sweep_table(
            self._ledger,
            self._settings,
            now_us=self._clock.now_us(),
            term=self._term(),
            orphans=orphans,
        )
        with self._commit_lock:
            self._update(newest)
        return swept

    def pin(self) -> PinnedFiles:
        """The current files, which are not deleted until the pin is closed."""
        self._release_unused()
        with self._users_lock:
            version = self._version
            version.users += 1
        release = partial(self._released.append, version)
        return PinnedFiles(self._objects, version.manifest, self._cache, release)

    def close(self) -> None:
        """Release memory and cancel a merge in progress. Snapshots stay valid."""
        with self._merge_lock:
            self._cancel_merge()
        self._cache.close()

    def _add(self, table: pa.Table, first_seq: int, last_seq: int, schema: Schema) -> None:
        with self._commit_lock:
            self._create()
            if self._newest().dropped:
                raise Conflict(f"{self._name!r} was deleted: no rows can be added to its files")
            table, schema = self._upcast_to_newest(table, schema)
            before = self._newest().last_seq
        if last_seq <= before:
            return
        first_seq = before + 1 if before else first_seq
        is_new = pc.greater_equal(table[SEQ], pa.scalar(first_seq, pa.uint64()))
        file = self._write(table.filter(is_new), schema, first_seq, last_seq)
        self._commit_files(lambda each: each.with_added([file]), [file])

    def _start_merge(self, schema: Schema, *, purge: bool) -> bool:
        if self.readonly:
            return False
        if self._is_unsure:
            self.load()
        rules = msgspec.structs.replace(self._rules, hidden_share=0.0) if purge else self._rules
        files = next_merge(self.files, self.hidden, rules)
        if not files:
            return False
        self.set_schema(schema)
        pinned = self.pin()
        attempt = self._disk.random_id().hex()
        self._merge = FileMerge(self._writing, pinned, files, self._newest().schema, attempt)
        return True

    def _merge_step(self) -> bool:
        assert self._merge is not None
        return self._merge.step(STEP_ROWS)

    def _end_merge(self) -> None:
        merge = self._merge
        assert merge is not None
        file = merge.finish()
        old, at_us = [each.name() for each in merge.files], self._clock.now_us()
        try:
            self._commit_files(
                lambda each: each.with_replaced(old, [file], at_us=at_us, purged=merge.purged),
                [file],
            )
        except Conflict:
            self.load()  # another writer committed first: continue from its manifest
        self._cancel_merge()
        self._cache.forget({each.content for each in merge.files})

    def _cancel_merge(self) -> None:
        if self._merge is not None:
            self._merge.close()
            self._merge = None

    def _upcast_to_newest(self, table: pa.Table, schema: Schema) -> tuple[pa.Table, Schema]:
        """Rows in the newest schema: the manifest's, or their own if that is newer."""
        newest = self._newest().schema
        if schema.version > newest.version:
            self._commit(lambda each: each.with_schema(schema))
            newest = self._newest().schema
        if schema.fields == newest.fields:
            return table, newest
        names = [*table.column_names[:3], *newest.columns()]
        return upcast(table, schema, newest, names), newest

    def _write(self, table: pa.Table, schema: Schema, first_seq: int, last_seq: int) -> LakeFile:
        attempt = self._disk.random_id().hex()
        return writer.write_file(
            self._writing, sort_rows(table), schema, first_seq, last_seq, attempt=attempt
        )

    def _commit_files(self, change: ManifestChange, files: list[LakeFile]) -> None:
        """Commit new files to the manifest; delete them if it rejects them for good."""
        try:
            with self._commit_lock:
                self._commit(change)
        except (Conflict, Invalid):
            for file in files:
                writer.discard(self._writing, file)
            raise

    def _create(self) -> None:
        if self.readonly:
            raise Invalid(f"the files of {self._name!r} are open read-only")
        if self.manifest is None:
            self._update(self._ledger.create(self._name, epoch=self._epoch, term=self._term()))
        elif self._is_unsure:
            self.load()

    def _commit(self, change: ManifestChange) -> None:
        self._is_unsure = True  # until the result of the commit is known
        self._update(self._ledger.commit(change, term=self._term()))
        self._is_unsure = False

    def _newest(self) -> Manifest:
        manifest = self.manifest
        assert manifest is not None
        return manifest

    def _update(self, manifest: Manifest) -> None:
        """Use the newest manifest. It is pinned until it is replaced and no snapshot has it."""
        old = self._version
        if old.manifest is not None and old.manifest.number >= manifest.number:
            return
        hold = ExitStack()
        try:
            pinned = hold.enter_context(self._ledger.pin(manifest.number))
        except NotFound:  # other writers committed and collected garbage since it was read
            pinned = hold.enter_context(self._ledger.pin())
        with self._users_lock:
            self._version = _Version(pinned, hold)
        self._released.append(old)
        self._release_unused()

    def _release_unused(self) -> None:
        """Release versions without users.

        A finalizer may run at any moment, while its thread holds any lock. So it acquires no lock:
        it only appends the version to ``_released``.
        """
        while self._released:
            with self._users_lock:
                version = self._released.popleft() if self._released else None
                if version is None:
                    return
                version.users -= 1
                is_last = not version.users
            if is_last:
                version.hold.close()
