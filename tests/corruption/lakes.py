"""A small store with a lake to damage: two topics whose older records are Parquet files.

Like the stores beside it, it is made once and only ever damaged in copies.
"""

from __future__ import annotations

import functools

import strandline
from strandline.config.settings import (
    LakeSettings,
    SegmentSettings,
    Settings,
    SpaceSettings,
    WalSettings,
)
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.corruption.stores import ROOT, Content, content_of

BATCH = 8


def settings(*, copy_hot: bool = False) -> Settings:
    return Settings(
        wal=WalSettings(file_size_first=4096, file_size_max=4096),
        segment=SegmentSettings(seal_records=BATCH, block_records=4, own_bytes_min=1),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
        lake=LakeSettings(hot_segments=1, zone_rows=5, file_bytes=1, copy_hot=copy_hot),
    )


def opened(
    disk: SimDisk, objects: SimObjects, *, copy_hot: bool = False, readonly: bool = False
) -> Store:
    return strandline.open(
        ROOT,
        readonly=readonly,
        settings=settings(copy_hot=copy_hot),
        disk=disk,
        clock=SimClock(),
        objects=objects,
        start_jobs=False,
    )


@functools.cache
def typed_store() -> tuple[SimDisk, SimObjects]:
    """The same with a schema that changed: files of two versions, and typed columns in all."""
    disk, objects = SimDisk(), SimObjects(clock=SimClock())
    with opened(disk, objects) as store:
        topic = store.topic("typed", schema={"n": "i64", "word": "string"})
        for batch in range(4):
            for number in range(BATCH):
                topic.append(b'{"n": %d, "word": "w%d"}' % (number, batch), tag=f"t{number}")
            store.checkpoint()
            store.relocate()
            if batch == 2:
                topic.alter(schema={"n": "f64", "word": ["w0", "w3"]})
        topic.delete(match="t3")
        store.relocate()
    return disk.kill(), objects.fork()


@functools.cache
def lake_store(*, copy_hot: bool = False) -> tuple[SimDisk, SimObjects]:
    """A disk and a lake, closed cleanly. Shared: only ever damage a copy."""
    disk, objects = SimDisk(), SimObjects(clock=SimClock())
    with opened(disk, objects, copy_hot=copy_hot) as store:
        for name in ("old", "young"):
            topic = store.topic(name)
            for batch in range(3 if name == "old" else 2):
                for number in range(BATCH):
                    topic.append(b"%s %d %d" % (name.encode(), batch, number), tag=f"t{number}")
                store.checkpoint()
        store.topic("old").delete(match="t5")
        store.relocate()
        store.topic("old").delete(match="t3")
        store.topic("old").append(b"in the log")
        store.relocate()
    return disk.kill(), objects.fork()


def copy_of(world: tuple[SimDisk, SimObjects]) -> tuple[SimDisk, SimObjects]:
    return world[0].kill(), world[1].fork()


@functools.cache
def expected(*, copy_hot: bool = False) -> Content:
    """What an undamaged copy holds."""
    with opened(*copy_of(lake_store(copy_hot=copy_hot)), copy_hot=copy_hot) as store:
        return content_of(store)


def keys_of(objects: SimObjects) -> list[str]:
    return sorted(objects.snapshot())


def put_in_place(objects: SimObjects, key: str, content: bytes) -> None:
    """Change an object as no client could."""
    kept = objects.snapshot()
    stored = kept[key]
    kept[key] = type(stored)(content, stored.number, stored.modified_us)
    objects.restore(kept)
