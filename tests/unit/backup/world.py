"""A store that is backed up, and what it looked like after every step."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

import strandline
from strandline.backup.backups import BackupInfo, Backups
from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    TopicConfig,
    WalSettings,
)
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

PATH = "/data"
KIB = 1024


class Topic(NamedTuple):
    """A topic as its reader sees it."""

    config: TopicConfig
    head_seq: int
    earliest_seq: int
    records: tuple[tuple[int, int, bytes, str | None], ...]


class Seen(NamedTuple):
    """A moment: when it was, where each shard's log ended, and every topic."""

    at_us: int
    ends: dict[int, int]
    topics: dict[str, Topic]

    @property
    def position(self) -> str:
        return ",".join(f"{shard}:{lsn}" for shard, lsn in self.ends.items())


def look(store: Store) -> dict[str, Topic]:
    """Every topic of a store."""
    found = {}
    for name in store.topics():
        topic = store.existing_topic(name)
        records = []
        page = topic.read(0, 1000)
        records += page.records
        while not page.caught_up:
            page = topic.read(page.next, 1000)
            records += page.records
        facts = topic.statistics()
        found[name] = Topic(
            topic.config,
            facts.head_seq,
            facts.earliest_seq,
            tuple((each.seq, each.ts, each.data, each.tag) for each in records),
        )
    return found


class BackupWorld:
    """A store on a simulated disk, whose backups go to a simulated object store."""

    def __init__(
        self, *, shards: int = 1, retained_bytes: int = 1 << 30, lake: bool = False
    ) -> None:
        self.disk = SimDisk(seed=1)
        self.clock = SimClock()
        self.place = SimObjects(name="sim://backups", clock=self.clock)
        self.lake = SimObjects(name="sim://lake", clock=self.clock) if lake else None
        self.settings = Settings(
            wal=WalSettings(
                shards=shards,
                file_size_first=8 * KIB,
                file_size_max=16 * KIB,
                retained_bytes=retained_bytes,
            ),
            segment=SegmentSettings(seal_records=20, own_bytes_min=1, block_records=8),
            space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
            lake=LakeSettings(hot_segments=1, zone_rows=8, file_bytes=1),
        )
        self.store = self.open()
        self.seen: list[Seen] = []

    def open(
        self, path: str = PATH, *, disk: SimDisk | None = None, lake: Objects | None = None
    ) -> Store:
        return strandline.open(
            path,
            disk=disk or self.disk,
            clock=self.clock,
            settings=self.settings,
            objects=lake if path != PATH else self.lake,
            start_jobs=False,
        )

    def use_shards(self, shards: int) -> None:
        """The next opening has so many."""
        wal = msgspec.structs.replace(self.settings.wal, shards=shards)
        self.settings = msgspec.structs.replace(self.settings, wal=wal)

    def fill(self) -> strandline.Topic:
        """A topic with four segments of its own."""
        topic = self.store.topic("t", durability="fsync")
        for _ in range(4):
            for _ in range(20):
                topic.append(b"record %d" % topic.head_seq, tag="red")
            self.clock.advance(0.001)
            self.store.checkpoint()
        return topic

    def tick(self) -> None:
        """Let a moment pass, and write down what there is."""
        self.store.sync()
        ends = {shard.number: shard.writer.end_lsn for shard in self.store._shards}
        self.seen.append(Seen(self.clock.now_us(), ends, look(self.store)))
        self.clock.advance(0.001)

    def backup(self, place: Objects | None = None) -> BackupInfo:
        made = self.store.backup(place or self.place)
        self.clock.advance(0.001)
        return made

    @property
    def backups(self) -> Backups:
        return Backups(self.place, disk=self.disk, clock=self.clock)

    def restored(self, path: str, **options: object) -> dict[str, Topic]:
        """What is in a store that was restored on a disk of its own."""
        disk = SimDisk(seed=2)
        Backups(self.place, disk=disk, clock=self.clock).restore(path, **options)
        with self.open(path, disk=disk) as store:
            return look(store)
