"""Writes a store's files into the lake: uploaded (``file_upload.py``), then listed by a manifest.

A file is in the lake when a manifest lists it, not before: what a crash leaves in the spool is
removed at the next opening, and what it leaves in the object store is listed by no manifest and is
deleted by garbage collection.

The first write after an opening checks that the object store creates each name only once and that
the lake belongs to this store, and takes a new term.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pyarrow as pa

from strandline.config.settings import LakeSettings
from strandline.errors import Invalid
from strandline.lake import object_keys
from strandline.lake.file_upload import FolderSpool, LakeUploader
from strandline.lake.gc import GcResult, collect_garbage
from strandline.lake.manifest import fencing
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import ManifestChange, ManifestCommitter
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.probe import probe
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import NO_SCHEMA, Schema


class LakeWriter:
    """The write side of a lake. Safe from many threads."""

    def __init__(
        self,
        objects: Objects,
        disk: Disk,
        clock: Clock,
        settings: LakeSettings,
        *,
        store_id: bytes,
        spool: str,
        confirm: Callable[[], None],
        needs_probe: bool = True,
        must_exist: bool = False,
    ) -> None:
        """``confirm`` rejects a lake that is not the store's (``lake_identity.py``).

        ``needs_probe``: probe the object store; not needed for the store's own folder.

        ``must_exist``: the store has moved records already, so an empty location is the wrong one.
        """
        self._objects = objects
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._store_id = store_id
        self._confirm = confirm
        self._spool = spool
        self._needs_probe = needs_probe
        self._must_exist = must_exist
        self._uploads = LakeUploader(
            objects,
            FolderSpool(disk, spool),
            store_id=store_id,
            random_id=disk.random_id,
            zone_rows=settings.zone_rows,
            zone_bytes=settings.zone_bytes,
        )
        self._committers: dict[int, ManifestCommitter] = {}
        self._term = 0
        self._term_lock = threading.Lock()

    def empty_spool(self) -> None:
        """Remove the files that a crash left in the spool."""
        for name in self._disk.list_dir(self._spool):
            self._disk.remove(f"{self._spool}/{name}")

    def newest(self, topic_id: int, *, name: str, epoch: int) -> Manifest:
        """The newest manifest of a topic; created if there is none."""
        return self._committer(topic_id).create(name, epoch=epoch, term=self.term())

    def load(self, topic_id: int) -> Manifest:
        """The newest manifest of a topic that is in the lake."""
        self._confirm()
        return self._committer(topic_id).load()

    def write_full(self, topic_id: int) -> Manifest:
        """Commit the known version as a full manifest, for readers that cannot read the chain."""
        return self._committer(topic_id).commit(
            lambda manifest: manifest, term=self.term(), full=True
        )

    def commit(self, topic_id: int, change: ManifestChange) -> Manifest:
        return self._committer(topic_id).commit(change, term=self.term())

    def write(
        self,
        topic_id: int,
        tables: Iterable[pa.Table],
        first_seq: int,
        last_seq: int,
        schema: Schema = NO_SCHEMA,
    ) -> LakeFile:
        """Write a file with these rows, which covers these seqs; it is uploaded and verified."""
        self.term()
        return self._uploads.write(topic_id, tables, first_seq, last_seq, schema)

    def discard(self, topic_id: int, file: LakeFile) -> None:
        """Delete a written file that no manifest will list."""
        self._uploads.discard(topic_id, file)

    def delete_data(self, topic_id: int) -> None:
        """Delete all data files that are left of a topic that was dropped from the lake."""
        keys = [info.key for info in self._objects.list(f"{object_keys.data_folder(topic_id)}/")]
        self._objects.delete(keys)

    def collect_garbage(self, topic_id: int, *, orphans: bool = False) -> GcResult:
        """Delete what no retained manifest of a topic needs."""
        return collect_garbage(
            self._committer(topic_id),
            now_us=self._clock.now_us(),
            manifest_retention_s=self._settings.manifest_retention_s,
            grace_s=self._settings.grace_s,
            term=self.term(),
            orphans=orphans,
        )

    def _committer(self, topic_id: int) -> ManifestCommitter:
        committer = self._committers.get(topic_id)
        if committer is None:
            committer = ManifestCommitter(
                self._objects, self._store_id, topic_id, self._clock, self._disk.random_id
            )
            committer = self._committers.setdefault(topic_id, committer)
        return committer

    def term(self) -> int:
        """The term of this opening of the store, taken at the first use."""
        with self._term_lock:
            if not self._term:
                if self._needs_probe:
                    probe(self._objects)
                self._confirm()
                if self._must_exist and fencing.identity_of(self._objects) is None:
                    raise Invalid(
                        f"{self._objects.name} holds no lake, but this store has moved records "
                        "into one: check lake.url, or restore the objects that were there"
                    )
                fencing.claim_lake(self._objects, self._store_id, self._clock)
                self._confirm()  # a lake that was created just now is the store's from here on
                self._term = fencing.open_term(
                    self._objects, self._store_id, self._clock, attempt=self._disk.random_id()
                )
            return self._term
