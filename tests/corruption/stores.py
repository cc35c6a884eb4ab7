"""Small stores to damage: how they are made, how their files are changed, what they hold.

The store is built on a simulated disk, so that a damaged copy costs a millisecond: ``kill`` gives a
copy of the whole disk, ``durable_replace`` puts other bytes in a file's place.
"""

from __future__ import annotations

import functools

import strandline
from strandline.config.settings import SegmentSettings, Settings, SpaceSettings, WalSettings
from strandline.errors import Corrupt, NotAStore, StrandlineError, UnsupportedFormat
from strandline.log.files import checkpoint_codec as root_file
from strandline.log.files import system_file
from strandline.log.repair.inspect import FrameSummary, wal_frames
from strandline.log.repair.salvage import index_of
from strandline.log.wal.codec import FILE_HEADER_SIZE, store_seed
from strandline.store import Store
from strandline.testing.sim_clock import SimClock
from strandline.testing.sim_disk import SimDisk

ROOT = "/data"
WAL_FILE_SIZE = 4096
REFUSALS = (Corrupt, UnsupportedFormat, NotAStore)
NOTICED = ("refused", "read refused", "told")
"""The store did not open; some topics could not be read; all was read and health complains."""

Content = dict[str, object]


def settings(*, compression: str = "none") -> Settings:
    """Small files of every kind: twelve records of a topic are worth a segment of their own."""
    return Settings(
        wal=WalSettings(file_size_first=WAL_FILE_SIZE, file_size_max=WAL_FILE_SIZE),
        segment=SegmentSettings(seal_records=12, block_records=4, compression=compression),
        space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
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


@functools.cache
def closed_store() -> SimDisk:
    """A disk with a store that was closed cleanly. Shared: only ever damage a copy."""
    disk = SimDisk()
    fill(disk, SimClock()).close()
    return disk.kill()


@functools.cache
def killed_store() -> SimDisk:
    """The same after SIGKILL instead: part of the log was never synced."""
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


@functools.cache
def expected(disk: SimDisk) -> Content:
    """What an undamaged copy of the store holds."""
    with opened(disk.kill(), SimClock()) as store:
        found = content_of(store)
    errors = [value for value in found.values() if isinstance(value, StrandlineError)]
    assert not errors
    return found


def judged(disk: SimDisk, path: str, whole: Content, *, other: str = "") -> str:
    """What came of damage in a file: one of ``NOTICED``, "unharmed", or what is wrong.

    With ``other`` that file is damaged, too, and a topic may name either.
    """
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
        if not (names(value, path) or (other and names(value, other))):
            return f"topic {topic} fails without the file's name: {value}"
    return "read refused"


def names(error: StrandlineError, path: str) -> bool:
    """Whether an error leads to the file; to one beside it when a WAL file is not there at all."""
    if path in str(error):
        return True
    return "/wal/" in path and "gone" in str(error) and path.rpartition("/")[0] in str(error)


def wal_paths(disk: SimDisk) -> list[str]:
    """The files of the log, oldest first."""
    return [path for path in data_paths(disk) if "/wal/" in path]


def frames_in(disk: SimDisk, path: str) -> list[FrameSummary]:
    """The frames of an undamaged file of the log."""
    frames = list(wal_frames(disk, path))
    assert all(isinstance(frame, FrameSummary) for frame in frames)
    return frames  # type: ignore[return-value]


def damaged_block(content: bytes, offset: int, filling: bytes) -> bytes:
    """The content with other bytes from an offset on, as long as it was."""
    filling = filling[: len(content) - offset]
    return content[:offset] + filling + content[offset + len(filling) :]


def flipped(content: bytes, offset: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def checked_bytes(disk: SimDisk, path: str) -> set[int]:
    """The bytes of a file that opening and reading the whole store must have checked."""
    content = disk.read(path)
    if "/wal/" in path:
        return _checked_in_log(disk, path)
    if path.endswith(".seg"):
        store_id = system_file.read(disk, ROOT)
        index = index_of(memoryview(content), store_seed(store_id))
        assert index is not None
        starts, sizes = index.offset.tolist(), index.stored_size.tolist()
        blocks = [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        footer = range(max(block.stop for block in blocks) + 7, len(content))
        return {*range(64), *(offset for block in blocks for offset in block), *footer}
    return set(range(len(content)))


def _checked_in_log(disk: SimDisk, path: str) -> set[int]:
    """The frames that the newest checkpoint does not cover, without padding, and their header."""
    root, _ = root_file.load(disk, f"{ROOT}/meta", system_file.read(disk, ROOT))
    checked: set[int] = set()
    for frame in frames_in(disk, path):
        if frame.lsn >= root.replay_lsn(0):
            padding = 8 if frame.kind == "batch" else 0
            checked.update(range(frame.offset, frame.offset + frame.size - padding))
    return checked | set(range(FILE_HEADER_SIZE)) if checked else checked


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
    small.append_many(
        [b"s-%s" % word.encode()] * 3, tags=[word, "x", None], nodes=["n1", None, "n2"]
    )
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
