"""The backups of a store in one location: the public interface.

    backups = strandline.Backups("s3://bucket/orders")
    backups.list()                                        the backups, with their times
    backups.verify()                                      whether they are complete
    backups.restore("data", at="2026-03-28T14:05:00Z")    a store as of that time
    backups.prune(keep=30)

``store.backup(url)`` creates one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec

from strandline.backup import catalog, prune, restore, restore_point, verify
from strandline.backup.create import create_backup
from strandline.backup.descriptor import BackupDescriptor
from strandline.backup.store_reader import BackupReach
from strandline.backup.uploader import GRACE_S
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress, silent
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.probe import probe
from strandline.platform.objectstore.protocol import Objects
from strandline.platform.system_errors import as_unavailable

Location = str | Objects
"""A url, a folder, or an open object store."""


class BackupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One backup. Every time from ``from_us`` to ``until_us`` can be restored."""

    number: int
    made_us: int
    from_us: int
    """The end of the backup before, if the log between the two still existed."""
    until_us: int
    copied_bytes: int
    size: int
    """Bytes of all its objects, shared ones included."""
    objects: int
    topics: int
    positions: dict[int, int]
    """The lsn at which it ends, by shard."""


class Backups:
    """Backups of one store in one location. Safe from many threads and processes."""

    def __init__(
        self, place: Location, *, disk: Disk | None = None, clock: Clock | None = None
    ) -> None:
        self._disk = disk or OsDisk()
        self._clock = clock or SystemClock()
        self._needs_probe = isinstance(place, str) and "://" in place
        """Whether the object store is still to be probed for the guarantees that backups need."""
        self._owns_objects = isinstance(place, str)
        self.objects = self._open(place)

    def __enter__(self) -> Backups:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def list(self) -> Sequence[BackupInfo]:
        """The backups, oldest first; ``Corrupt`` when one cannot be read."""
        backups = catalog.read_catalog(self.objects)
        for error in backups.broken.values():
            raise error
        return [_info_of(backups.chain(each.number)) for each in backups.backups]

    def windows(self) -> Sequence[restore_point.RestoreWindow]:
        """The times that can be restored, without unreadable backups."""
        return restore_point.windows(catalog.read_catalog(self.objects))

    def create(
        self,
        directory: str,
        *,
        lake: Location | None = None,
        progress: Progress = silent,
        reach: Callable[[], BackupReach] | None = None,
    ) -> BackupInfo:
        """Back up a store that is closed, or open in any process. ``lake``: if it is elsewhere.

        ``reach`` limits the backup; only the store's own process has it: call ``store.backup``.
        """
        if self._needs_probe and not catalog.backup_numbers(self.objects):
            probe(self.objects)
        path = os.path.abspath(directory)
        try:
            backup = create_backup(
                self._disk,
                path,
                self.objects,
                lake=self._open(lake or Layout(path).lake),
                clock=self._clock,
                progress=progress,
                reach=reach,
            )
        except (OSError, MemoryError) as error:
            raise as_unavailable(error, "a backup") from error
        continues = backup.timeline != backup.number
        older = [catalog.read_backup(self.objects, backup.number - 1)] if continues else []
        return _info_of([*older, backup])

    def restore(
        self,
        directory: str,
        *,
        backup: int | None = None,
        at: restore_point.RestoreTarget | None = None,
        lake: Location | None = None,
        progress: Progress = silent,
    ) -> restore.Restored:
        """Restore a store into an empty directory: the newest backup, another, or as of a time.

        Its lake is the folder ``lake`` in it, unless ``lake`` is given, which must be empty.
        """
        try:
            return restore.restore(
                self.objects,
                os.path.abspath(directory),
                disk=self._disk,
                clock=self._clock,
                backup=backup,
                at=at,
                lake=None if lake is None else self._open(lake),
                progress=progress,
            )
        except (OSError, MemoryError) as error:
            raise as_unavailable(error, "the restored store") from error

    def verify(
        self, *, backup: int | None = None, quick: bool = False, progress: Progress = silent
    ) -> verify.BackupReport:
        """Read every object of every backup, or of one. ``quick`` only compares sizes."""
        return verify.verify(self.objects, backup=backup, quick=quick, progress=progress)

    def prune(self, *, keep: int, grace_s: float = GRACE_S) -> prune.Pruned:
        """Delete all but the newest backups, and objects that none of them names."""
        now_us = self._clock.now_us()
        return prune.prune(self.objects, keep=keep, now_us=now_us, grace_s=grace_s)

    def close(self) -> None:
        """Close the object store, unless the caller opened it."""
        if self._owns_objects:
            self.objects.close()

    def _open(self, place: Location) -> Objects:
        return open_objects(place, disk=self._disk) if isinstance(place, str) else place


def _info_of(chain: Sequence[BackupDescriptor]) -> BackupInfo:
    """Information about the last backup of a chain."""
    backup = chain[-1]
    objects = list(backup.objects())
    return BackupInfo(
        number=backup.number,
        made_us=backup.made_us,
        from_us=chain[-2].until_us if len(chain) > 1 else backup.exact_us,
        until_us=backup.until_us,
        copied_bytes=backup.copied_bytes,
        size=sum(each.size for each in objects),
        objects=len(objects),
        topics=sum(not topic.dropped for topic in backup.topics),
        positions={reach.shard: reach.end_lsn for reach in backup.shards},
    )
