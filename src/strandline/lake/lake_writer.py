"""Brings a store's files into the lake: uploaded (``file_upload.py``), then listed by a manifest.

A file is in the lake when a manifest lists it, not before: what a crash leaves in the spool is
removed at the next opening, and what it leaves in the object store is named by no manifest and is
swept.

The first write after an opening asks three things of the object store: whether it keeps the promise
that a name is given once, whether the lake is this store's, and for a new term.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pyarrow as pa

from strandline.config.settings import LakeSettings
from strandline.errors import Invalid
from strandline.lake import object_keys
from strandline.lake.file_upload import FolderSpool, Uploads
from strandline.lake.gc import Swept, sweep
from strandline.lake.manifest import fencing
from strandline.lake.manifest.file_entry import LakeFile
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_commit import Change, Ledger
from strandline.platform.clock import Clock
from strandline.platform.disk import Disk
from strandline.platform.objectstore.probe import probe
from strandline.platform.objectstore.protocol import Objects
from strandline.schema import NO_SCHEMA, Schema


class Intake:
    """The writing side of a lake. Safe from many threads."""

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
        doubted: bool = True,
        expected: bool = False,
    ) -> None:
        """``confirm`` refuses a lake that is not the store's (``lake_identity.py``).

        ``doubted`` stores are probed; a folder of our own making is not.

        ``expected`` lakes are there already: an empty place is then the wrong one.
        """
        self._objects = objects
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._store_id = store_id
        self._confirm = confirm
        self._spool = spool
        self._doubted = doubted
        self._expected = expected
        self._uploads = Uploads(
            objects,
            FolderSpool(disk, spool),
            store_id=store_id,
            random_id=disk.random_id,
            zone_rows=settings.zone_rows,
            zone_bytes=settings.zone_bytes,
        )
        self._ledgers: dict[int, Ledger] = {}
        self._term = 0
        self._beginning = threading.Lock()

    def empty_spool(self) -> None:
        """Remove what a crash left there."""
        for name in self._disk.list_dir(self._spool):
            self._disk.remove(f"{self._spool}/{name}")

    def newest(self, topic_id: int, *, name: str, epoch: int) -> Manifest:
        """The newest manifest of a topic, which is made when there is none."""
        return self._ledger(topic_id).create(name, epoch=epoch, term=self.term())

    def load(self, topic_id: int) -> Manifest:
        """The newest manifest of a topic that is in the lake."""
        self._confirm()
        return self._ledger(topic_id).load()

    def write_full(self, topic_id: int) -> Manifest:
        """A full manifest of what is known, for readers who cannot read what is there."""
        return self._ledger(topic_id).commit(lambda manifest: manifest, term=self.term(), full=True)

    def commit(self, topic_id: int, change: Change) -> Manifest:
        return self._ledger(topic_id).commit(change, term=self.term())

    def write(
        self,
        topic_id: int,
        tables: Iterable[pa.Table],
        first_seq: int,
        last_seq: int,
        schema: Schema = NO_SCHEMA,
    ) -> LakeFile:
        """A new file with these rows, which answers for these seqs, in the store and verified."""
        self.term()
        return self._uploads.write(topic_id, tables, first_seq, last_seq, schema)

    def discard(self, topic_id: int, file: LakeFile) -> None:
        """Delete a file that was written and that no manifest will ever list."""
        self._uploads.discard(topic_id, file)

    def clear(self, topic_id: int) -> None:
        """Delete all that is left of a topic that was dropped from the lake, but its manifests."""
        left = [info.key for info in self._objects.list(f"{object_keys.data_folder(topic_id)}/")]
        self._objects.delete(left)

    def sweep(self, topic_id: int, *, orphans: bool = False) -> Swept:
        """Delete what no retained manifest of a topic needs any more."""
        return sweep(
            self._ledger(topic_id),
            now_us=self._clock.now_us(),
            keep_s=self._settings.keep_s,
            grace_s=self._settings.grace_s,
            term=self.term(),
            orphans=orphans,
        )

    def _ledger(self, topic_id: int) -> Ledger:
        ledger = self._ledgers.get(topic_id)
        if ledger is None:
            ledger = Ledger(
                self._objects, self._store_id, topic_id, self._clock, self._disk.random_id
            )
            ledger = self._ledgers.setdefault(topic_id, ledger)
        return ledger

    def term(self) -> int:
        """The term of this opening of the store, asked for when it is first needed."""
        with self._beginning:
            if not self._term:
                if self._doubted:
                    probe(self._objects)
                self._confirm()
                if self._expected and fencing.identity_of(self._objects) is None:
                    raise Invalid(
                        f"{self._objects.name} holds no lake, but this store has moved records "
                        "into one: check lake.url, or bring back what was there"
                    )
                fencing.check_identity(self._objects, self._store_id, self._clock)
                self._confirm()  # one that was made just now is the store's from here on
                self._term = fencing.open_term(
                    self._objects, self._store_id, self._clock, attempt=self._disk.random_id()
                )
            return self._term
