"""Lives of a store with one view: random work, the power cut or the process killed before random
calls of the disk, and what must hold of every disk that is left."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

import strandline
from strandline.config.settings import LakeSettings, SegmentSettings, Settings, ViewSettings
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.views.open_view import ViewKind
from tests.unit.store.world import NO_SPACE_WATCH, SMALL_WAL

PATH = "/data"
NAME = "life"
SETTINGS = Settings(
    wal=SMALL_WAL,
    segment=SegmentSettings(seal_bytes=4096, own_bytes_min=1, block_records=16),
    lake=LakeSettings(hot_segments=1, zone_rows=32, grace_s=0, manifest_retention_s=0),
    views=ViewSettings(memory_bytes=64 << 20),
    space=NO_SPACE_WATCH,
)


class Sort(NamedTuple):
    """A kind of view, and what is done with it in a life."""

    kind: ViewKind
    options: dict[str, object]
    step: Callable[[Any, random.Random, SimClock], None]
    """Do one thing, any thing."""
    share: float = 0.2
    """Of the disk's calls, before which a crash is imagined."""


class Life:
    """One life of a store, and the disks that a crash at some moments of it would have left."""

    def __init__(self, sort: Sort, seed: int, *, durability: str, shards: int) -> None:
        self._sort = sort
        self._chance = random.Random(seed)
        self.clock = SimClock()
        self.disk = SimDisk(seed=seed)
        self._settings = msgspec.structs.replace(
            SETTINGS, wal=msgspec.structs.replace(SMALL_WAL, shards=shards)
        )
        self.store = self._open(self.disk, self.clock)
        self.view = self._open_view(self.store, durability=durability)
        self.left: list[SimDisk] = []

    def live(self, steps: int) -> None:
        """Work, with a crash imagined before some of the disk's calls."""
        chance = self._chance
        self.disk.on_call = self._imagine
        for _ in range(steps):
            self._sort.step(self.view, chance, self.clock)
            drawn = chance.random()
            if drawn < 0.06:
                self.store.checkpoint()
            elif drawn < 0.08:
                self.store.relocate()
            elif drawn < 0.10:
                self.clock.advance(chance.choice((0.5, 5, 120)))
        self.disk.on_call = None
        self.left.append(self.disk.kill())

    def step(self, chance: random.Random) -> None:
        """Do one thing, without an imagined crash."""
        self._sort.step(self.view, chance, self.clock)

    def digest(self) -> str:
        """Of the view as the open store has it in memory."""
        return self._digest(self.store)

    def rebuild(self) -> None:
        """Fold the log again."""
        self._views(self.store).rebuild(self._sort.kind, NAME)

    def end(self) -> None:
        self.store.close()

    def check(self, disk: SimDisk) -> int:
        """What is found on a disk after a crash is what folding its log gives; records of it."""
        clock = SimClock(wall_us=self.clock.now_us())
        store = self._open(disk, clock)
        try:
            self._open_view(store)
            found = self._digest(store)
            self._views(store).rebuild(self._sort.kind, NAME)
            folded = self._digest(store)
            assert found == folded, "the view is not what its log folds into"
            # The life goes on: nothing of the crash hinders it, and it is the same the next time.
            view = self._open_view(store)
            for _ in range(5):
                self._sort.step(view, self._chance, clock)
            store.checkpoint()
            before = self._digest(store)
            head = store.existing_topic(NAME).head_seq
        finally:
            store.close()
        again = self._open(disk, clock)
        try:
            self._open_view(again)
            assert self._digest(again) == before, "the view is another one after a clean close"
        finally:
            again.close()
        return head

    def _imagine(self, operation: str, path: str) -> None:
        del operation, path
        if self._chance.random() < self._sort.share:
            hook, self.disk.on_call = self.disk.on_call, None
            kill = self._chance.random() < 0.3
            self.left.append(self.disk.kill() if kill else self.disk.crash(self._chance))
            self.disk.on_call = hook

    def _digest(self, store: Store) -> str:
        topic = store.existing_topic(NAME)
        return self._views(store).registry.host(self._sort.kind.name, topic).digest()

    def _open_view(self, store: Store, **options: object) -> Any:
        return self._views(store).open(self._sort.kind, NAME, self._sort.options | options)

    def _views(self, store: Store) -> Any:
        return store._views

    def _open(self, disk: SimDisk, clock: SimClock) -> Store:
        return strandline.open(
            PATH, disk=disk, clock=clock, settings=self._settings, start_jobs=False
        )
