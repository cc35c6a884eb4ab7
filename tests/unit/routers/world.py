"""A store on a simulated disk whose routers forward when a test says so."""

from __future__ import annotations

import strandline
from strandline.config.settings import Settings, SpaceSettings, WalSettings
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

SETTINGS = Settings(
    wal=WalSettings(file_size_first=8192, file_size_max=65536),
    space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
)


class RouterWorld:
    """A store without jobs. Single-threaded."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.disk = SimDisk(seed=1)
        self.clock = SimClock()
        self.settings = settings
        self.store = self.opened()

    def opened(self, *, readonly: bool = False) -> Store:
        self.clock.advance(0.001)
        return strandline.open(
            "/data",
            disk=self.disk,
            clock=self.clock,
            settings=self.settings,
            readonly=readonly,
            start_jobs=False,
        )

    def forward(self) -> int:
        """Let all routers do their work."""
        return self.store.routers.run_once()

    def data(self, topic: str) -> list[bytes]:
        return self.store.existing_topic(topic).read(0, 10_000).data

    def reopen(self) -> None:
        self.store.close()
        self.store = self.opened()

    def kill(self) -> None:
        """The process dies; what it wrote is there."""
        self.disk = self.disk.kill()
        self.store = self.opened()
