"""A store whose older records are in a simulated object store."""

from __future__ import annotations

import strandline
from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    WalSettings,
)
from strandline.log.topic.topic import Topic
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects

PATH = "/data"
BATCH = 100


class ColdWorld:
    """Every batch of a hundred becomes a segment; all but the newest move into the lake."""

    def __init__(self, *, seed: int = 1, **lake: object) -> None:
        self.disk = SimDisk(seed=seed)
        self.clock = SimClock()
        self.objects = SimObjects(clock=self.clock)
        self.settings = Settings(
            wal=WalSettings(file_size_first=64 * 1024, file_size_max=256 * 1024),
            segment=SegmentSettings(seal_records=BATCH, own_bytes_min=1, block_records=32),
            space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
            lake=LakeSettings(
                **{"hot_segments": 1, "zone_rows": 25, "file_bytes": 1, **lake}  # a file a segment
            ),
        )
        self.store = self.open()

    def open(self, *, readonly: bool = False) -> Store:
        return strandline.open(
            PATH,
            readonly=readonly,
            disk=self.disk,
            clock=self.clock,
            objects=self.objects,
            settings=self.settings,
            start_jobs=False,
        )

    def reopen(self) -> Store:
        self.store.close()
        self.store = self.open()
        return self.store

    def kill(self) -> Store:
        """The machine goes on, the process does not."""
        self.disk = self.disk.kill()
        self.store = self.open()
        return self.store

    def fill(self, topic: Topic, batches: int, *, step_s: float = 0.001) -> None:
        """Batches of records that say their own seq, a moment between one record and the next."""
        for _ in range(batches):
            first = topic.head_seq + 1
            for seq in range(first, first + BATCH):
                topic.append(b"%d" % seq, tag="odd" if seq % 2 else "even", key=b"k%d" % seq)
                self.clock.advance(step_s)
            self.store.checkpoint()

    def cold_topic(self, batches: int = 5, **options: object) -> Topic:
        """A topic of which all but the last hundred records are in the lake."""
        topic = self.store.topic("t", **options)
        self.fill(topic, batches)
        self.store.relocate()
        return topic

    def data_keys(self) -> list[str]:
        return [info.key for info in self.objects.list("topics") if "/data/" in info.key]


def seqs_of(topic: Topic, after: int = 0, limit: int = 70) -> list[int]:
    """All seqs from a cursor on, each record checked against its seq."""
    found: list[int] = []
    while True:
        page = topic.read(after, limit)
        for record in page.records:
            assert record.data == b"%d" % record.seq
            assert record.key == b"k%d" % record.seq
            assert record.tag == ("odd" if record.seq % 2 else "even")
        found += [record.seq for record in page.records]
        if page.caught_up:
            return found
        after = page.next
