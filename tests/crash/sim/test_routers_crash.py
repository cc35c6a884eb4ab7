"""Promise: through any crash a router leaves nothing out, and with exactly-once repeats nothing.

A source and its destinations live through appends, forwards, deletes, caps, checkpoints and syncs.
Power is cut, or the process killed, before calls of the disk; the next process forwards what is
left to forward. Then:

- what passes the filter and is in the source is in the destination;
- with exactly-once it is there once, and in the order of the source;
- no seq of a destination shows another record than somebody has seen there before the crash.
"""

from __future__ import annotations

import random

import pytest

from strandline.config.settings import SegmentSettings, Settings, SpaceSettings, WalSettings
from strandline.records import Record
from strandline.store import Store
from strandline.testing.crash_choices import Newest, Oldest
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from tests.crash.sim.watch import power_losses
from tests.crash.sim.world import seeds
from tests.unit.routers.world import RouterWorld

STEPS = 40
TAGS = ("eu", "eu-west", "us", None)
DESTS = ("all", "some", "chained")


def _settings(shards: int) -> Settings:
    return Settings(
        wal=WalSettings(shards=shards, file_size_first=8192, file_size_max=32768),
        segment=SegmentSettings(seal_records=40, shared_files_max=3),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
    )


class RoutedWorld(RouterWorld):
    """A source with routers, and all that was ever seen in their destinations."""

    def __init__(self, seed: int, *, guarantee: str, durability: str, shards: int) -> None:
        super().__init__(_settings(shards))
        self.rng = random.Random(seed)
        self.guarantee = guarantee
        self.capped = seed % 2 == 1
        self.number = 0
        self.seen: dict[str, dict[int, bytes]] = {dest: {} for dest in DESTS}
        self.crashes = 0
        self.deleted: set[bytes] = set()
        """Of the source: a power loss may take a delete back, but not what was left out for it."""
        dest = self.rng.choice(("fsync", "disk", durability))
        # With several logs a topic in the middle may lose what has gone on already, and is given it
        # again: then these are new records there.
        self.in_order = shards == 1 or dest == "fsync"
        self.store.topic("source", durability=durability)
        options = {"guarantee": guarantee}
        for name in DESTS:
            self.store.topic(name, durability=dest)
        self.store.routers.put("a", source="source", dest="all", **options)
        self.store.routers.put("b", source="source", dest="some", filter="eu*", **options)
        self.store.routers.put("c", source="some", dest="chained", **options)

    def live(self) -> None:
        """Some steps, with a look at the destinations after each."""
        for _ in range(STEPS):
            self.clock.advance(self.rng.choice((0.0001, 0.001, 0.7)))
            getattr(self, "_" + self.rng.choice(CHOICES))()
            if self.rng.random() < 0.04:
                self._crash()
            for dest in DESTS:
                note_seen(self.store, dest, self.seen[dest])

    def _crash(self) -> None:
        """Go on with what a crash has left: there will be more of them."""
        hook, self.disk.on_call = self.disk.on_call, None
        disk = self.disk.kill()
        if self.rng.random() < 0.7:
            (disk,) = power_losses(self.disk, self.rng, 1)
        self.disk, self.store = disk, self.opened_on(disk)
        self.disk.on_call = hook

    def opened_on(self, disk: SimDisk) -> Store:
        self.disk = disk
        return self.opened()

    def _append(self) -> None:
        count = self.rng.choice((1, 1, 2, 7))
        self.number += count
        data = [b"%06d" % number for number in range(self.number - count, self.number)]
        tags = [self.rng.choice(TAGS) for _ in data]
        source = self.store.topic("source")
        if count == 1:
            source.append(data[0], tag=tags[0])
        else:
            source.append_many(data, tags=tags)

    def _forward(self) -> None:
        self.forward()

    def _checkpoint(self) -> None:
        self.store.checkpoint()

    def _sync(self) -> None:
        self.store.sync()

    def _delete(self) -> None:
        source = self.store.topic("source")
        self.deleted |= {record.data for record in read_all(self.store, "source")}
        if self.rng.random() < 0.5:
            source.delete(match="us")
        else:
            source.delete(before=max(1, source.head_seq - self.rng.randrange(6)))
        self.deleted -= {record.data for record in read_all(self.store, "source")}

    def _append_directly(self) -> None:
        """A destination may have records of its own."""
        self.store.topic("all").append(b"own", tag=None)

    def _cap_copies(self) -> None:
        if self.capped:
            self.store.topic("chained").alter(cap_records=self.rng.choice((0, 0, 0, 5)))

    def _relocate(self) -> None:
        self.store.relocate()

    def _retain(self) -> None:
        self.store.topic("source").enforce_retention()
        self.store.topic("chained").enforce_retention()

    def _change(self) -> None:
        kept = self.rng.choice((True, False))
        options = {"guarantee": self.guarantee, "filter": "eu*", "preserve_node": kept}
        self.store.routers.put("b", source="source", dest="some", **options)

    def _delete_copies(self) -> None:
        self.store.topic("some").delete(match="eu-west")

    def _cap(self) -> None:
        if self.capped:
            self.store.topic("source").alter(cap_records=self.rng.choice((0, 3, 50)))

    def check(self, disk: SimDisk) -> None:
        """What a crash has left goes on, and is what it has to be."""
        self.crashes += 1
        after = RouterWorld.__new__(RouterWorld)
        after.disk, after.settings = disk, self.settings
        after.clock = SimClock(wall_us=self.clock.now_us())
        after.store = after.opened()
        for dest in DESTS:
            note_seen(after.store, dest, dict(self.seen[dest]))
        after.forward()
        found = {dest: note_seen(after.store, dest, dict(self.seen[dest])) for dest in DESTS}
        if self.guarantee == "exactly_once":
            for dest, data in found.items():
                if dest == "chained" and not self.in_order:
                    continue
                copies = [each for each in data if each != b"own"]
                assert copies == sorted(set(copies)), f"{dest}: records twice, or out of order"
        if not self.capped:
            # A cap may take records before they are forwarded, which is told; and give them back
            # when a power loss takes those that pushed them out.
            source = read_all(after.store, "source")
            source = [record for record in source if record.data not in self.deleted]
            assert {record.data for record in source} <= set(found["all"])
            # Copies of "eu-west" are deleted here and there.
            wanted = {record.data for record in source if record.tag == "eu"}
            assert wanted <= set(found["some"])
            assert wanted <= set(found["chained"])
        after.store.close()


CHOICES = ("append",) * 8 + ("forward",) * 6 + ("checkpoint", "sync", "delete", "delete_copies")
CHOICES += ("cap", "append_directly", "cap_copies", "relocate", "retain", "change")


def read_all(store: Store, name: str) -> list[Record]:
    """Every record of a topic, on both sides of its gaps."""
    after, found = 0, []
    topic = store.existing_topic(name)
    while True:
        page = topic.read(after, 100)
        found += page.records
        after = page.next
        if page.caught_up:
            return found


def note_seen(store: Store, dest: str, seen: dict[int, bytes]) -> list[bytes]:
    """Compare a destination with what was seen there, and add what is new; all its data."""
    records = read_all(store, dest)
    for record in records:
        before = seen.setdefault(record.seq, record.data)
        assert before == record.data, f"{dest} has shown {before!r} as {record.seq}"
    return [record.data for record in records]


@pytest.mark.parametrize("seed", seeds(4, 80))
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("durability", ["fsync", "disk", "memory"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_nothing_is_left_out_or_repeated_whenever_it_crashes(guarantee, durability, shards, seed):
    world = RoutedWorld(seed, guarantee=guarantee, durability=durability, shards=shards)
    rng = random.Random(seed + 77)

    def crash(operation: str, path: str) -> None:
        del path
        if rng.random() >= (0.1 if "sync" in operation else 0.02):
            return
        world.disk.on_call = None
        kept = world.disk.kill()
        for disk in (kept, *power_losses(world.disk, rng, 2)):
            world.check(disk)
        world.disk.on_call = crash

    world.disk.on_call = crash
    world.live()
    world.disk.on_call = None
    world.check(world.disk.kill())

    assert world.crashes > 1
    assert any(world.seen.values())


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_crash_before_every_call_of_a_forward_leaves_nothing_out(guarantee):
    world = RoutedWorld(5, guarantee=guarantee, durability="disk", shards=1)
    for _ in range(5):
        world._append()
    world.store.sync()

    def crash(operation: str, path: str) -> None:
        del operation, path
        world.disk.on_call = None
        for disk in (world.disk.kill(), world.disk.crash(Oldest()), world.disk.crash(Newest())):
            world.check(disk)
        world.disk.on_call = crash

    world.disk.on_call = crash
    world.forward()
    world.clock.advance(2)
    world._append()
    world.forward()
    world.store.checkpoint()
    world.disk.on_call = None

    assert world.crashes > 20
