"""A simulated machine with a store on it, as most unit tests need one."""

from __future__ import annotations

import strandline
from strandline.config.settings import (
    LakeSettings,
    LimitSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    ViewSettings,
    WalSettings,
)
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

PATH = "/data"
SMALL_WAL = WalSettings(file_size_first=64 * 1024, file_size_max=256 * 1024)
NO_SPACE_WATCH = SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0)


class World:
    """A disk, a clock, and the one store that is open for writing on them.

    Without jobs there are no threads, and nothing happens that the test does not ask for.
    """

    def __init__(
        self,
        *,
        wal: WalSettings = SMALL_WAL,
        segment: SegmentSettings | None = None,
        limits: LimitSettings | None = None,
        lake: LakeSettings | None = None,
        views: ViewSettings | None = None,
        space: SpaceSettings = NO_SPACE_WATCH,
        start_jobs: bool = False,
    ) -> None:
        self.disk = SimDisk()
        self.clock = SimClock()
        self.start_jobs = start_jobs
        self.settings = Settings(
            wal=wal,
            segment=segment or SegmentSettings(),
            limits=limits or LimitSettings(),
            lake=lake or LakeSettings(),
            views=views or ViewSettings(),
            space=space,
        )
        self.store = self.open()

    def open(self, *, readonly: bool = False, wal: WalSettings | None = None) -> Store:
        """Another opening of the same directory."""
        settings = self.settings
        if wal is not None:
            settings = Settings(
                wal=wal, segment=settings.segment, lake=settings.lake, space=settings.space
            )
        return strandline.open(
            PATH,
            readonly=readonly,
            disk=self.disk,
            clock=self.clock,
            settings=settings,
            start_jobs=self.start_jobs,
        )

    def reopen(self, *, wal: WalSettings | None = None) -> Store:
        """Close the store cleanly and open it again."""
        self.store.close()
        self.store = self.open(wal=wal)
        return self.store

    def kill(self, *, wal: WalSettings | None = None) -> Store:
        """End the process without a word and open the store in the next one."""
        self.disk.power_off()
        self.disk = self.disk.kill()
        self.store.close()
        self.store = self.open(wal=wal)
        return self.store

    def files(self, folder: str = "") -> list[str]:
        """Paths of every file below a folder of the store."""
        return sorted(_walk(self.disk, f"{PATH}/{folder}".rstrip("/")))


def _walk(disk: SimDisk, path: str) -> list[str]:
    if not disk.is_dir(path):
        return [path]
    return [found for name in disk.list_dir(path) for found in _walk(disk, f"{path}/{name}")]


def read_all(topic: strandline.Topic, **options: object) -> list[strandline.Record]:
    """Every record of a topic that a reader from the beginning gets."""
    found: list[strandline.Record] = []
    page = topic.read(0, 1000, **options)
    found += page.records
    while not page.caught_up:
        page = topic.read(page.next, 1000, **options)
        found += page.records
    return found


def payloads(topic: strandline.Topic) -> list[bytes]:
    return [record.data for record in read_all(topic)]
