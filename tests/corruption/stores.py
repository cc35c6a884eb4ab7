"""Small stores to damage: how they are made, how their files are changed, what they hold.

The store is built on a simulated disk, so that a damaged copy costs a millisecond: ``kill`` gives a
copy of the whole disk, ``durable_replace`` puts other bytes in a file's place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import strandline
from strandline.errors import Corrupt, NewerFormat, NotAStore, StrandlineError
from strandline.settings import SegmentSettings, Settings, SpaceSettings, WalSettings
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

ROOT = "/data"
LONG = os.environ.get("STRANDLINE_CRASH") == "long"
WAL_FILE_SIZE = 4096
REFUSALS = (Corrupt, NewerFormat, NotAStore)

Content = dict[str, object]


def settings(*, compression: str = "none") -> Settings:
    """Small files of every kind: twelve records of a topic are worth a segment of their own."""
    return Settings(
        wal=WalSettings(file_size_first=WAL_FILE_SIZE, file_size_max=WAL_FILE_SIZE),
        segment=SegmentSettings(seal_records=12, block_records=4, compression=compression),
        space=SpaceSettings(free_soft=0, free_hard=0, ballast_bytes=0),
    )


def opened(disk: SimDisk, clock: SimClock, *, readonly: bool = False, **options: str) -> Store:
    return strandline.open(
        ROOT,
        readonly=readonly,
        settings=settings(**options),
        disk=disk,
        clock=clock,
        start_jobs=False,
    )


def fill(disk: SimDisk, clock: SimClock) -> Store:
    """A store with every kind of file in use, still open."""
    with opened(disk, clock) as store:
        _append_first(store, clock)
        store.checkpoint()
        _append_more(store, clock, "second")
    store = opened(disk, clock, compression="zstd")
    store.checkpoint()
    _append_more(store, clock, "third")
    store.sync()
    _append_last(store, clock)
    return store


def closed_store() -> SimDisk:
    """A disk with a store that was closed cleanly."""
    disk = SimDisk()
    fill(disk, SimClock()).close()
    return disk.kill()


def killed_store() -> SimDisk:
    """A disk with a store whose process was killed: part of the log was never synced."""
    disk = SimDisk()
    fill(disk, SimClock())
    return disk.kill()


def paths(disk: SimDisk, folder: str = ROOT) -> list[str]:
    """Every file of the store, sorted."""
    found = []
    for name in disk.list_dir(folder):
        path = f"{folder}/{name}"
        found += paths(disk, path) if disk.is_dir(path) else [path]
    return found


def data_paths(disk: SimDisk) -> list[str]:
    """Every file but the lock."""
    return [path for path in paths(disk) if not path.endswith("/LOCK")]


def snapshot(disk: SimDisk) -> dict[str, bytes]:
    """Path and bytes of every file but the lock."""
    return {path: disk.read(path) for path in data_paths(disk)}


def replaced(disk: SimDisk, path: str, content: bytes) -> SimDisk:
    """A copy of the disk with other bytes in one file."""
    copy = disk.kill()
    copy.durable_replace(path, content)
    return copy


def without(disk: SimDisk, path: str) -> SimDisk:
    """A copy of the disk that lacks one file."""
    copy = disk.kill()
    copy.remove(path)
    return copy


def content_of(store: Store) -> Content:
    """Everything that a reader can see, topic by topic; an error stands for what it hides."""
    return {name: topic_content(store, name) for name in store.topics()}


def topic_content(store: Store, name: str) -> object:
    topic = store.existing_topic(name)
    try:
        numbers = topic.statistics()
        return (numbers.config, numbers.count, numbers.head_seq, numbers.earliest_seq, read(topic))
    except StrandlineError as error:
        return error


def read(topic: strandline.Topic) -> list[object]:
    """Records and tombstones in order."""
    found: list[object] = []
    after = 0
    while True:
        page = topic.read(after, 1000)
        if page.tombstone is not None:
            found.append(page.tombstone)
        found += page.records
        after = page.next
        if page.caught_up:
            return found


def expected(disk: SimDisk) -> Content:
    """What an undamaged copy of the store holds."""
    with opened(disk.kill(), SimClock()) as store:
        found = content_of(store)
    errors = [value for value in found.values() if isinstance(value, StrandlineError)]
    assert not errors
    return found


def judged(disk: SimDisk, path: str, whole: Content) -> str:
    """What came of damage in a file: refused, told, hidden topics, unharmed; or what is wrong."""
    try:
        store = opened(disk, SimClock())
    except REFUSALS as error:
        return "refused" if names(error, path) else f"refused without the file's name: {error}"
    with store:
        found = content_of(store)
        complaints = store.health().reasons
    if found == whole:
        return "told" if complaints else "unharmed"
    if found.keys() != whole.keys():
        return f"topics differ: {sorted(found.keys() ^ whole.keys())}"
    for topic, value in found.items():
        if value == whole[topic]:
            continue
        if not isinstance(value, Corrupt):
            return f"topic {topic} differs in silence: {value}"
        if not names(value, path):
            return f"topic {topic} fails without the file's name: {value}"
    return "read refused"


def names(error: StrandlineError, path: str) -> bool:
    """Whether an error leads to the file, or at least to the folder that lacks it."""
    return path in str(error) or getattr(error, "path", None) == path


def regions(content: bytes) -> Iterator[int]:
    """Offsets worth a flip: every byte that is used or near one, and some of the zeros behind."""
    used = len(content.rstrip(b"\0")) + 96
    yield from range(min(used, len(content)))
    yield from range(used, len(content), 1 if LONG else 61)


def _append_first(store: Store, clock: SimClock) -> None:
    big = store.topic("big", durability="fsync")
    small = store.topic("small")
    other = store.topic("other", durability="memory")
    for number in range(9):
        clock.advance(0.001)
        big.append(b"big record %d" % number, tag="odd" if number % 2 else "even", key=b"k")
    big.append_many([b"in a batch %d" % number for number in range(6)])
    small.append(b"small", node="n1", meta=b"m")
    other.append_many([b"one", b"two"], tags=["a", None], idempotency_key=b"once")
    store.topic("empty")


def _append_more(store: Store, clock: SimClock, word: str) -> None:
    clock.advance(1)
    big, small = store.topic("big"), store.topic("small")
    for number in range(14):
        big.append(b"%s %d " % (word.encode(), number) + b"json" * 20, tag=word)
    small.append_many([b"s-%s" % word.encode()] * 3, tags=[word, "x", None], nodes=["n1", None, "n2"])
    store.topic("other").append_many([bytes(700), b"behind zeros"])


def _append_last(store: Store, clock: SimClock) -> None:
    clock.advance(1)
    small, capped = store.topic("small"), store.topic("capped", cap_records=3)
    for number in range(5):
        capped.append(b"capped %d" % number)
        small.append(b"last %d" % number)
    small.delete(match="x")
    store.topic("other").delete(before=2)
    store.topic("big").alter(ttl_ms=10**9)
    store.topic("gone").append(b"gone")
    store.delete_topic("gone")
    small.append(b"the end" * 100)
