"""The files of one table: added, merged, hidden in, swept, by commits to a manifest of its own.

The manifest is that of a topic (``lake/manifest/manifest.py``), under an id that no topic has. So
files do
not overlap in seqs, a commit is there whole or not at all, and whoever does not know whether his
commit happened makes it again, which then changes nothing.

**Nothing is lost and nothing is twice.** A file answers for the seqs behind the one before it.
``add`` therefore takes only rows behind the last seq of the newest manifest: what a crash, or a
reply that was lost, makes come again is not taken again. Rows that are not yet in a file that a
manifest lists stay with whoever calls.

**A snapshot keeps its files** with ``pin``: in this process a file stays as long as a snapshot
names it; for others, ``lake.grace_s`` after it has left.
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

from strandline.config.memory_budget import Share
from strandline.config.settings import LakeSettings
from strandline.errors import Conflict, Invalid, NotFound, UnknownTopic
from strandline.lake.file_upload import FolderSpool
from strandline.lake.gc import Swept
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import Change, Ledger
from strandline.lake.topic_names import is_marked
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import Schema
from strandline.views.table.files import writer
from strandline.views.table.files.cache import ColumnCache
from strandline.views.table.files.compaction import Merging
from strandline.views.table.files.compaction_planner import ROWS_MAX, MergeRules, next_merge
from strandline.views.table.files.file_snapshot import Pinned
from strandline.views.table.files.gc import sweep_table
from strandline.views.table.files.row_order import in_order
from strandline.views.table.files.writer import Writing
from strandline.views.table.snapshot import SEQ
from strandline.views.table.upcast import upcast

STEP_ROWS = 1024 * 1024
"""Rows that one step of a merge writes, about: how long others may have to wait for it."""

ADD_TRIES = 3


class _Version:
    """A manifest that is in use, and by how many. Counted under the lock of its segments."""

    def __init__(self, manifest: Manifest | None, hold: ExitStack) -> None:
        self.manifest = manifest
        self.hold = hold
        self.users = 1


class Segments:
    """The files of one table. Safe from many threads."""

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
        share: Share,
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
        """Raises when the lake is not the store's."""
        self._ledger = Ledger(objects, store_id, table_id, clock, disk.random_id)
        self._writing = Writing(
            objects=objects,
            spool=FolderSpool(disk, spool),
            store_id=store_id,
            table_id=table_id,
            zone_rows=zone_rows,
        )
        self._rules = MergeRules(flush_rows=flush_rows, merge_files=merge_files, rows_max=rows_max)
        self._merge: Merging | None = None
        # Taken before ``_changing``, which is held while something is committed, not while files
        # are written: nobody waits for an upload but who comes with another.
        self._adding = threading.Lock()
        self._merging = threading.Lock()
        self._cache = ColumnCache(share)
        self._changing = threading.RLock()
        self._counting = threading.Lock()  # held for moments
        self._released: deque[_Version] = deque()
        self._version = _Version(None, ExitStack())
        self._is_unsure = False
        """A commit failed, and nobody knows whether it happened: read what is there."""

    @property
    def manifest(self) -> Manifest | None:
        """The newest one known; None when there is none yet."""
        return self._version.manifest

    @property
    def files(self) -> tuple[LakeFile, ...]:
        manifest = self.manifest
        return manifest.files if manifest is not None else ()

    @property
    def flushed(self) -> int:
        """The last seq that files answer for."""
        manifest = self.manifest
        return manifest.last_seq if manifest is not None else 0

    def all_are_rows(self, first_seq: int, last_seq: int) -> bool:
        """Whether files have a row for every seq from here to there."""
        manifest, next_seq = self.manifest, first_seq
        for file in manifest.files_between(first_seq, last_seq) if manifest is not None else ():
            if file.first_seq > next_seq or file.rows <= file.last_seq - file.first_seq:
                return False
            next_seq = file.last_seq + 1
        return next_seq > last_seq

    @property
    def hidden(self) -> BitMap64:
        """Seqs that are hidden though a file may hold them. Not to be changed."""
        manifest = self.manifest
        return manifest.deleted or BitMap64() if manifest is not None else BitMap64()

    def exists(self) -> bool:
        """Whether there are, or were, files of this table: asks the object store."""
        self._confirm()
        try:
            self._ledger.load()
        except UnknownTopic:
            return False
        return True

    def was_used(self) -> bool:
        """Whether this id ever had files, also where their manifests are missing."""
        return self.exists() or is_marked(self._objects, self._name, self._ledger.topic_id)

    def load(self, least: int = 0, checksum: str = "") -> None:
        """Read the newest manifest. Where there is none the table has no files yet.

        With the number and checksum of a manifest that was committed before, an older lake and one
        of another history are ``Corrupt``.
        """
        self._confirm()
        with self._changing:
            try:
                newest = self._ledger.load_after(least, checksum) if least else self._ledger.load()
                self._know(newest)
            except UnknownTopic:
                return
            self._is_unsure = False

    def newest_checksum(self) -> str:
        """The checksum of the manifest; empty when there is none, or it is no longer kept."""
        manifest = self.manifest
        return self._ledger.checksum_of(manifest.number) if manifest is not None else ""

    def add(self, table: pa.Table, first_seq: int, last_seq: int, schema: Schema) -> None:
        """Rows up to a seq become a file, those at least that are in no file yet.

        The file answers for all seqs from the last file on. Rows may be in any order.
        """
        with self._adding:
            for tries_left in reversed(range(ADD_TRIES)):
                try:
                    self._add(table, first_seq, last_seq, schema)
                except Conflict:  # another schema has come, or another file: look again
                    if not tries_left:
                        raise
                    self.load()
                else:
                    return

    def hide(self, seqs: BitMap64) -> None:
        """These rows are gone: also for others, and from files at the next merge."""
        if seqs:
            with self._changing:
                self._create()
                self._commit(lambda each: each.with_deleted(seqs))

    def set_floor(self, floor: int) -> None:
        """Rows below are gone, and files that lie all below leave."""
        with self._changing:
            self._create()
            at_us = self._clock.now_us()
            self._commit(lambda each: each.with_floor(floor, at_us=at_us))

    def set_schema(self, schema: Schema) -> None:
        """Files from here on have these fields."""
        with self._changing:
            self._create()
            self._commit(lambda each: each.with_schema(schema))

    def drop(self) -> None:
        """The table is gone: every file leaves, and none can be added."""
        with self._changing:
            if self.manifest is None or self._is_unsure:
                self.load()
            if self.manifest is not None:
                at_us = self._clock.now_us()
                self._commit(lambda each: each.with_dropped(at_us=at_us))

    def compact_once(self, schema: Schema, *, purge: bool = False) -> bool:
        """One bounded step of merging files; False when there is nothing to merge.

        With ``purge`` every file that has hidden rows is written anew, however few they are. A
        merge that somebody else has overtaken is given up, and counts as a step.
        """
        with self._merging:
            if self._merge is None and not self._begin_merge(schema, purge=purge):
                return False
            try:
                if not self._merge_on():
                    self._end_merge()
            except BaseException:
                self._give_up_merge()
                raise
            return True

    def sweep(self, *, orphans: bool = False) -> Swept | None:
        """Delete what no version and no snapshot needs any more; None when there is nothing."""
        if self.manifest is None or self.readonly:
            return None
        self._count_released()
        swept, newest = sweep_table(
            self._ledger,
            self._settings,
            now_us=self._clock.now_us(),
            term=self._term(),
            orphans=orphans,
        )
        with self._changing:
            self._know(newest)
        return swept

    def pin(self) -> Pinned:
        """The files of this moment, which stay as long as they are held."""
        self._count_released()
        with self._counting:
            version = self._version
            version.users += 1
        release = partial(self._released.append, version)
        return Pinned(self._objects, version.manifest, self._cache, release)

    def close(self) -> None:
        """Let go of memory, and of a merge under way. Snapshots go on."""
        with self._merging:
            self._give_up_merge()
        self._cache.close()

    def _add(self, table: pa.Table, first_seq: int, last_seq: int, schema: Schema) -> None:
        with self._changing:
            self._create()
            if self._known().dropped:
                raise Conflict(f"{self._name!r} was deleted: its files take no more rows")
            table, schema = self._in_newest(table, schema)
            before = self._known().last_seq
        if last_seq <= before:
            return
        first_seq = before + 1 if before else first_seq
        fresh = pc.greater_equal(table[SEQ], pa.scalar(first_seq, pa.uint64()))
        file = self._write(table.filter(fresh), schema, first_seq, last_seq)
        self._commit_files(lambda each: each.with_added([file]), [file])

    def _begin_merge(self, schema: Schema, *, purge: bool) -> bool:
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
        self._merge = Merging(self._writing, pinned, files, self._known().schema, attempt)
        return True

    def _merge_on(self) -> bool:
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
            self.load()  # somebody else was first: begin with what he made of it
        self._give_up_merge()
        self._cache.forget({each.content for each in merge.files})

    def _give_up_merge(self) -> None:
        if self._merge is not None:
            self._merge.close()
            self._merge = None

    def _in_newest(self, table: pa.Table, schema: Schema) -> tuple[pa.Table, Schema]:
        """Rows in the newest schema of the manifest, which is theirs if that is newer."""
        newest = self._known().schema
        if schema.version > newest.version:
            self._commit(lambda each: each.with_schema(schema))
            newest = self._known().schema
        if schema.fields == newest.fields:
            return table, newest
        names = [*table.column_names[:3], *newest.columns()]
        return upcast(table, schema, newest, names), newest

    def _write(self, table: pa.Table, schema: Schema, first_seq: int, last_seq: int) -> LakeFile:
        attempt = self._disk.random_id().hex()
        return writer.write_file(
            self._writing, in_order(table), schema, first_seq, last_seq, attempt=attempt
        )

    def _commit_files(self, change: Change, files: list[LakeFile]) -> None:
        """List new files, or delete them when the manifest refuses them for good."""
        try:
            with self._changing:
                self._commit(change)
        except (Conflict, Invalid):
            for file in files:
                writer.discard(self._writing, file)
            raise

    def _create(self) -> None:
        if self.readonly:
            raise Invalid(f"the files of {self._name!r} are open for reading alone")
        if self.manifest is None:
            self._know(self._ledger.create(self._name, epoch=self._epoch, term=self._term()))
        elif self._is_unsure:
            self.load()

    def _commit(self, change: Change) -> None:
        self._is_unsure = True  # from here on until it is known what came of it
        self._know(self._ledger.commit(change, term=self._term()))
        self._is_unsure = False

    def _known(self) -> Manifest:
        manifest = self.manifest
        assert manifest is not None
        return manifest

    def _know(self, manifest: Manifest) -> None:
        """This is the newest manifest. It is pinned as long as it is, or a snapshot has it."""
        old = self._version
        if old.manifest is not None and old.manifest.number >= manifest.number:
            return
        hold = ExitStack()
        try:
            pinned = hold.enter_context(self._ledger.pin(manifest.number))
        except NotFound:  # others went on, and swept, since it was read
            pinned = hold.enter_context(self._ledger.pin())
        with self._counting:
            self._version = _Version(pinned, hold)
        self._released.append(old)
        self._count_released()

    def _count_released(self) -> None:
        """Let go of versions that nobody has any more.

        A finalizer may come at any moment, in the middle of any lock: it only says what it had.
        """
        while self._released:
            with self._counting:
                version = self._released.popleft() if self._released else None
                if version is None:
                    return
                version.users -= 1
                is_last = not version.users
            if is_last:
                version.hold.close()
