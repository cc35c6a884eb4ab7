"""Watches free space: rejects appends before the disk is full, and accepts them again later.

Below the soft mark sealing and merging stop; below the hard mark appends are rejected and the
ballast file is removed, so that recovery and deletes have space. The start and the end of
rejections for lack of space, here or by the disk itself (a quota), are logged; and so are slow
syncs (``log/files/sync_watch.py``).
"""

from __future__ import annotations

import contextlib
import logging

from strandline.config.settings import SpaceSettings
from strandline.errors import DiskFull
from strandline.log.files.layout import Layout
from strandline.log.files.sync_watch import SyncWatch, slow_syncs
from strandline.log.wal.shard import Shard
from strandline.platform.disk import Disk

_LOG = logging.getLogger("strandline")


class SpaceWatch:
    """The state of free space. Owned by the space job; any thread may read ``level``."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        shards: list[Shard],
        settings: SpaceSettings,
    ) -> None:
        self.level = "ok"
        self.free = 0
        self._disk = disk
        self._layout = layout
        self._shards = shards
        self._settings = settings
        self._is_rejecting = False
        self._syncs = SyncWatch(shards)

    def complaints(self) -> list[str]:
        """The problems of the disk: little space, or slow syncs."""
        complaints = [str(slow) for slow in slow_syncs(self._shards)]
        if self.level != "ok":
            complaints.append(f"disk space is {self.level}: {self.free} bytes are free")
        return complaints

    def run_once(self) -> None:
        """Read the free space, and start or stop rejecting appends."""
        self._syncs.run_once()
        self.free = self._disk.free_bytes(self._layout.directory)
        old_level, self.level = self.level, self._level()
        if self.level == "hard":
            self._release_ballast()
            rejection = DiskFull(
                f"{self.free} bytes are free, less than free_bytes_hard "
                f"({self._settings.free_bytes_hard}): appends are rejected until space is freed; "
                "reads and deletes continue"
            )
            for shard in self._shards:
                shard.writer.set_rejection(rejection)
        elif old_level == "hard":
            for shard in self._shards:
                shard.writer.set_rejection(None)
        if self.level == "ok":
            self._ensure_ballast()
        self._log_changes()

    def _log_changes(self) -> None:
        rejections = [shard.writer.rejection for shard in self._shards if shard.writer.rejection]
        if bool(rejections) == self._is_rejecting:
            return
        self._is_rejecting = bool(rejections)
        if rejections:
            _LOG.error("appends are rejected: %s", rejections[0])
        else:
            _LOG.warning("appends are accepted again: %d bytes are free", self.free)

    def release_ballast_if_full(self) -> None:
        """At opening: remove the ballast at once if what recovery has to write may not fit."""
        if self._disk.free_bytes(self._layout.directory) < self._settings.free_bytes_hard:
            self._release_ballast()

    def _level(self) -> str:
        if self.free < self._settings.free_bytes_hard:
            return "hard"
        return "soft" if self.free < self._settings.free_bytes_soft else "ok"

    def _release_ballast(self) -> None:
        with contextlib.suppress(OSError):
            self._disk.remove(self._layout.ballast)

    def _ensure_ballast(self) -> None:
        if self._settings.ballast_bytes and not self._disk.exists(self._layout.ballast):
            with contextlib.suppress(OSError):
                self._disk.prepare(self._layout.ballast, self._settings.ballast_bytes)
