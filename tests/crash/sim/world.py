"""The world of the simulated crash tests: a store on a simulated disk, and its model.

``World`` does to the store what a test asks and writes down, for each topic, the states that
it went through. After a crash the topic must be in one of them: the newest that was promised, or a
later one that was on its way. So the oracle is a list, and a test that finds anything else has
found a bug: a lost, a resurrected, a half or a mixed record.

Who survives what:

    fsync             every acknowledged state, power loss or kill
    disk              kill: every acknowledged state; power loss: what the last sync covered
    memory            what the last sync covered
    ephemeral         nothing, but seqs are not given out twice

Everything follows from a seed, which every failure names.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest

import strandline
from strandline.config.settings import SegmentSettings, Settings, SpaceSettings, WalSettings
from strandline.errors import StrandlineError
from strandline.log.topic.topic import Topic
from strandline.records import Tombstone
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk
from strandline.testing.sim_objects import SimObjects
from tests.crash.sim.lineage import Entry, Lineage, Version

PATH = "/data"
LONG = os.environ.get("STRANDLINE_CRASH") == "long"
KIB = 1024


class Found(NamedTuple):
    """A topic as its reader sees it from the beginning."""

    head: int
    epoch: int
    live: dict[int, Entry]
    tombstones: list[Tombstone]


def seeds(quick: int, long: int) -> list[object]:
    """Seeds for every run, and many more for ``make crash``."""
    more = range(quick, long if LONG else quick)
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.crash) for seed in more)]


def settings(shards: int = 1, **segment: object) -> Settings:
    """Small files, so that little work is enough to rotate, seal and merge."""
    return Settings(
        wal=WalSettings(shards=shards, file_size_first=8 * KIB, file_size_max=32 * KIB),
        segment=SegmentSettings(**{"seal_records": 60, "shared_files_max": 3, **segment}),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
    )


def read_all(topic: Topic, after: int = 0) -> Found:
    """Every page from a cursor on, with what the reader is told of losses."""
    live: dict[int, Entry] = {}
    tombstones = []
    while True:
        page = topic.read(after, limit=64)
        if page.tombstone is not None:
            tombstones.append(page.tombstone)
        for record in page.records:
            assert record.seq not in live, f"seq {record.seq} came twice"
            assert not live or record.seq > max(live), f"seq {record.seq} came out of order"
            live[record.seq] = Entry(record.data, record.key, record.tag)
        if page.caught_up:
            return Found(page.head_seq, page.epoch, live, tombstones)
        assert page.next > after, f"a page after {after} does not move on"
        after = page.next


def read_store(store: Store) -> dict[str, Found]:
    return {name: read_all(store.existing_topic(name)) for name in store.topics()}


class World:
    """A store on a simulated disk, with a model of every topic. Single-threaded."""

    def __init__(
        self, seed: int, *, options: Settings | None = None, objects: SimObjects | None = None
    ) -> None:
        """Without objects the lake is a folder of the simulated disk, and crashes with it."""
        self.seed = seed
        self.objects = objects
        self.rng = random.Random(seed)
        self.disk = SimDisk(seed=seed)
        self.clock = SimClock()
        self.settings = options or settings()
        self.lineages: dict[str, Lineage] = {}
        self.configs: dict[str, dict[str, object]] = {}
        self.given: dict[tuple[str, int, int], Entry] = {}
        self.states = 0
        self._numbers = itertools.count(1)
        self.store = self.opened(self.disk)

    def opened(self, disk: SimDisk, options: Settings | None = None) -> Store:
        self.clock.advance(0.001)
        return strandline.open(
            PATH,
            disk=disk,
            clock=self.clock,
            settings=options or self.settings,
            objects=self.objects,
            start_jobs=False,
        )

    def topic(self, name: str) -> Topic:
        return self.store.existing_topic(name)

    def create(self, name: str, **config: object) -> Topic:
        lineage = self.lineages.setdefault(name, Lineage())
        self.configs[name] = config
        self.clock.advance(0.001)
        lineage.add(Version(0, {}))
        topic = self.store.create_topic(name, **config)
        self._promise(name)
        lineage.epochs.add(topic.epoch)
        return topic

    def drop(self, name: str) -> None:
        self.lineages[name].add(None)
        self.store.delete_topic(name)
        # A delete of a topic waits for the disk whatever the class, and so does all before it.
        self.lineages[name].settle(kept=True, durable=True)

    def entry(self, *, size: int | None = None) -> Entry:
        """A payload that no other record has, of a random shape."""
        number = b"%d:" % next(self._numbers)
        rng = self.rng
        shape = rng.random()
        if size is None:
            size = rng.choice((0, 5, 40, 90, 300, 500, 700, 1500, 5000))
            size = 40_000 if shape > 0.98 else size
        zeros = bytes(size)
        data = number + (zeros if 0.3 < shape < 0.6 else rng.randbytes(size) if size else b"")
        key = rng.choice((None, None, b"", b"key-%d" % rng.randrange(5)))
        return Entry(data, key, rng.choice((None, "eu", "eu-west", "us")))

    def append(self, name: str, entries: Sequence[Entry]) -> None:
        """One record as a single frame, several as a batch."""
        self.propose(name, entries)
        topic = self.topic(name)
        if len(entries) == 1:
            entry = entries[0]
            appended = topic.append(entry.data, key=entry.key, tag=entry.tag)
        else:
            appended = topic.append_many(
                [entry.data for entry in entries],
                keys=[entry.key for entry in entries],
                tags=[entry.tag for entry in entries],
            )
        self._note_given(topic, appended.first_seq, entries)
        self._promise(name)

    def append_pipelined(self, names: Sequence[str]) -> None:
        """Place one record in each topic, then wait for all of them: one sync for several."""
        waiting = []
        for name in names:
            entry = self.entry()
            self.propose(name, [entry])
            soon = self.topic(name).append_nowait(entry.data, key=entry.key, tag=entry.tag)
            waiting.append((name, entry, soon))
        for name, entry, soon in waiting:
            self._note_given(self.topic(name), soon.wait().first_seq, [entry])
        for name in names:
            self._promise(name)

    def delete(self, name: str, *, before: int | None = None, match: str | None = None) -> None:
        newest = self._newest(name)
        bound = newest.head + 1 if before is None else before

        def gone(seq: int, entry: Entry) -> bool:
            return seq < bound and (match is None or _matches(entry.tag, match))

        self.lineages[name].add(newest.without(gone))
        self.topic(name).delete(before=before, match=match)
        self._promise(name)

    def alter(self, name: str, durability: str) -> None:
        """Change the class; until that is done the topic may be of either."""
        old = self.configs[name]
        self.configs[name] = old | {"durability": "either"}
        self.topic(name).alter(durability=durability)
        self.configs[name] = old | {"durability": durability}
        self.lineages[name].volatile = set()
        self.lineages[name].settle(kept=True, durable=True)

    def sync(self) -> None:
        self.store.sync()
        self._all_durable()

    def checkpoint(self) -> None:
        self.store.checkpoint()
        self._all_durable()

    def relocate(self) -> None:
        """Move what is due into the lake."""
        self.store.relocate()

    def reopen(self, options: Settings | None = None) -> None:
        """A clean close, and the next opening."""
        self.settings = options or self.settings
        self.store.close()
        self._all_durable()
        self.store = self.opened(self.disk)
        for name, lineage in self.lineages.items():
            if self.durability(name) == "ephemeral" and lineage.newest is not None:
                found = read_all(self.topic(name))
                self._check_topic(self.store, name, found, lineage, lineage.durable)
                lineage.become(Version(found.head, found.live))

    def branch(self) -> World:
        """Another future of this world, with a disk of its own after ``advance``."""
        other = copy.copy(self)
        other.rng = random.Random(self.seed)
        other.lineages = {name: lineage.copy() for name, lineage in self.lineages.items()}
        other.given = dict(self.given)
        return other

    def go_on(self, disk: SimDisk, *, power_loss: bool) -> None:
        """Let the world continue on a disk after a crash, as the recovery finds it."""
        found, store = self.check(disk, power_loss=power_loss)
        self.disk, self.store = disk, store
        for name, lineage in self.lineages.items():
            topic = found.get(name)
            lineage.become(None if topic is None else Version(topic.head, topic.live))
            if topic is not None:
                lineage.epochs.add(topic.epoch)

    def check(self, disk: SimDisk, *, power_loss: bool) -> tuple[dict[str, Found], Store]:
        """Open a disk after a crash and compare every topic with what it may be."""
        self.states += 1
        try:
            store = self.opened(disk)
            found = read_store(store)
            unknown = set(found) - set(self.lineages)
            assert not unknown, f"topics came from nowhere: {unknown}"
            for name, lineage in self.lineages.items():
                first = lineage.durable if power_loss else lineage.kept
                self._check_topic(store, name, found.get(name), lineage, first)
        except (AssertionError, OSError, StrandlineError) as error:
            after = "power loss" if power_loss else "kill"
            where = f"seed {self.seed}, {after} at call {self.disk.calls_total}"
            raise AssertionError(f"{where}: {error}") from error
        return found, store

    def check_again(self, disk: SimDisk, rng: random.Random) -> None:
        """Recover after a power loss, recover that, and recover that: always the same."""
        first, _ = self.check(disk, power_loss=True)
        sealed = sealed_files(disk)
        for _ in range(2):
            disk = disk.kill() if rng.random() < 0.3 else disk.crash(rng)
            again = read_store(self.opened(disk))
            assert _states(again) == _states(first), f"seed {self.seed}: recovery moved on"
            assert sealed_files(disk) == sealed, f"seed {self.seed}: recovery changed segments"

    def propose(self, name: str, entries: Sequence[Entry]) -> None:
        """An append is on its way: from here on it may survive."""
        config = self.configs[name]
        caps = [config.get(cap, 0) for cap in ("cap_records", "cap_bytes")]
        newest = self._newest(name)
        self.lineages[name].add(newest.appended(entries).evicted(*caps))
        if self.durability(name) == "ephemeral":
            seqs = range(newest.head + 1, newest.head + len(entries) + 1)
            self.lineages[name].volatile.update(seqs)
        self.clock.advance(0.000_01)

    def withdraw(self, name: str) -> None:
        """The append was refused: it must not come back."""
        self.lineages[name].versions.pop()

    def durability(self, name: str) -> object:
        return self.configs[name].get("durability", "disk")

    def newest(self, name: str) -> Version | None:
        return self.lineages[name].newest

    def _check_topic(
        self, store: Store, name: str, found: Found | None, lineage: Lineage, first: int
    ) -> None:
        possible = lineage.versions[first:]
        if found is None:
            assert None in possible, f"topic {name} is gone"
            return
        volatile = lineage.volatile
        matching = [
            version
            for version in possible
            if version is not None and version.head <= found.head
            if found.live in (version.live, version.without(lambda seq, _: seq in volatile).live)
        ]
        assert matching, f"topic {name}: " + _difference(found, possible)
        version = matching[-1]
        if self.durability(name) == "fsync":
            heads = {version.head for version in matching}
            assert found.head in heads, f"topic {name} has head {found.head}, not one of {heads}"
        else:
            self._check_loss_reported(store, name, found, version, lineage)

    def _check_loss_reported(
        self, store: Store, name: str, found: Found, version: Version, lineage: Lineage
    ) -> None:
        """Every acknowledged seq that is gone must be told to whoever has read up to before it."""
        told = lineage.versions[lineage.told]
        if told is None or told.head <= version.head:
            return
        assert found.epoch not in lineage.epochs, f"topic {name} lost its tail and kept its epoch"
        topic = store.existing_topic(name)
        for cursor in (version.head, (version.head + told.head) // 2, told.head - 1):
            lost = [seq for seq in told.live if seq > cursor and seq not in found.live]
            gap = topic.read(cursor).tombstone
            silent = [seq for seq in lost if not gap or not gap.gap_from <= seq <= gap.gap_to]
            assert not silent, f"topic {name}: a reader at {cursor} is not told of {silent}: {gap}"

    def _note_given(self, topic: Topic, first_seq: int, entries: Sequence[Entry]) -> None:
        for seq, entry in enumerate(entries, first_seq):
            place = (topic.name, topic.epoch, seq)
            assert place not in self.given, f"{place} was given out twice"
            self.given[place] = entry

    def _newest(self, name: str) -> Version:
        newest = self.lineages[name].newest
        assert newest is not None, f"the test uses topic {name}, which does not exist"
        return newest

    def _promise(self, name: str) -> None:
        durability = self.durability(name)
        kept = durability in ("fsync", "disk")
        self.lineages[name].settle(kept=kept, durable=durability == "fsync")

    def _all_durable(self) -> None:
        for name, lineage in self.lineages.items():
            if self.durability(name) != "ephemeral":
                lineage.settle(kept=True, durable=True)


def sealed_files(disk: SimDisk) -> dict[str, bytes]:
    """Every segment file with its content."""
    folders = [f"{PATH}/segments/{name}" for name in disk.list_dir(f"{PATH}/segments")]
    paths = [f"{folder}/{name}" for folder in folders for name in disk.list_dir(folder)]
    return {path: disk.read(path) for path in paths if path.endswith(".seg")}


def _states(found: dict[str, Found]) -> dict[str, Version]:
    return {name: Version(topic.head, topic.live) for name, topic in found.items()}


def _matches(tag: str | None, match: str) -> bool:
    if tag is None:
        return False
    return tag.startswith(match[:-1]) if match.endswith("*") else tag == match


def _difference(found: Found, possible: Sequence[Version | None]) -> str:
    """What is wrong with a topic, against the oldest state that it may be in."""
    heads = [None if version is None else version.head for version in possible]
    text = f"head {found.head}, {len(found.live)} live; possible heads {heads}"
    version = possible[0]
    if version is not None:
        missing = sorted(set(version.live) - set(found.live))
        extra = sorted(set(found.live) - set(version.live))
        wrong = [
            seq
            for seq in version.live.keys() & found.live.keys()
            if version.live[seq] != found.live[seq]
        ]
        text += f"; against the oldest: missing {missing}, extra {extra}, different {wrong}"
    return text
