"""Promise (V5): log files come and go under writers and readers, and nobody misses one.

A checkpoint drops files while appends begin new ones and reads find their way through both. Who
adds or drops a file holds the writer's lock; readers hold none, and look again when one is gone.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

import strandline
from strandline.config.settings import Settings, SpaceSettings, WalSettings
from strandline.log.wal.log_files import first_lsn_of
from strandline.store import Store
from strandline.testing.sim_disk import SimDisk

KIB = 1024
TINY_FILES = Settings(
    wal=WalSettings(file_size_first=4 * KIB, file_size_max=4 * KIB),
    space=SpaceSettings(free_bytes_soft=0, free_bytes_hard=0, ballast_bytes=0),
)
CHECKPOINTS = 15
APPENDS = 100
JOIN_S = 120


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns between almost any two steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class HookedDisk(SimDisk):
    """Calls somebody before it removes a checkpoint, which comes before log files are dropped."""

    before_removal: Callable[[], None] | None = None

    def remove(self, path: str) -> None:
        if self.before_removal is not None and "checkpoint-" in path:
            self.before_removal()
        super().remove(path)


class Crowd:
    """Threads that go on until they are told to stop; what went wrong in them."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, turn: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._loop, args=(turn,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        self.done.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        assert not any(thread.is_alive() for thread in self._threads), "somebody hangs"

    def _loop(self, turn: Callable[[], None]) -> None:
        try:
            while not self.done.is_set():
                turn()
        except BaseException as failure:  # noqa: BLE001 - the test shows whatever it was
            self.failures.append(failure)


def _payload(seq: int) -> bytes:
    return b"%08d" % seq * 16


def _read_somewhere(topic: strandline.Topic, dice: random.Random) -> None:
    after = dice.randrange(topic.head_seq + 1)
    page = topic.read(after, limit=50)
    seqs = [record.seq for record in page.records]
    assert seqs == list(range(after + 1, after + 1 + len(seqs)))
    assert page.data == [_payload(seq) for seq in seqs]


def _log_files(store: Store) -> tuple[list[int], list[int]]:
    """First lsns of the files that the store knows, and of those on the disk."""
    files = store._shards[0].writer.files
    names = map(first_lsn_of, store._disk.list_dir(files.directory))
    on_disk = sorted(lsn for lsn in names if lsn is not None)
    return [entry.first_lsn for entry in files.entries], on_disk


def test_reads_find_every_record_while_log_files_are_dropped_and_begun(data_dir, hasty_threads):
    crowd = Crowd()
    with strandline.open(data_dir, settings=TINY_FILES, start_jobs=False) as store:
        topic = store.topic("t")
        topic.append(_payload(1))
        allowed = threading.Semaphore(0)  # or the log grows faster than checkpoints can be made

        def append_one() -> None:
            if allowed.acquire(timeout=0.1):
                topic.append(_payload(topic.head_seq + 1))

        crowd.start(append_one)
        for seed in range(2):
            dice = random.Random(seed)
            crowd.start(lambda dice=dice: _read_somewhere(topic, dice))
        dropped = 0

        for _ in range(CHECKPOINTS):
            allowed.release(APPENDS)
            before = set(_log_files(store)[0])
            store.checkpoint()
            dropped += len(before - set(_log_files(store)[0]))
        crowd.stop()
        known, on_disk = _log_files(store)

    assert crowd.failures == []
    assert dropped > CHECKPOINTS
    assert known == on_disk
    with strandline.open(data_dir, settings=TINY_FILES) as again:
        topic = again.topic("t")
        assert topic.read(limit=1_000_000).data == [
            _payload(seq) for seq in range(1, topic.head_seq + 1)
        ]


def test_no_log_file_is_dropped_while_somebody_holds_the_writers_lock():
    disk = HookedDisk()
    store = strandline.open("/data", disk=disk, settings=TINY_FILES, start_jobs=False)
    topic = store.topic("t")
    for _ in range(3):
        topic.append_many([_payload(1)] * 100)
        store.checkpoint()
    writer = store._shards[0].writer

    def let_another_thread_take_the_lock() -> None:
        other = threading.Thread(target=writer.acquire)
        other.start()
        other.join()

    disk.before_removal = let_another_thread_take_the_lock
    checkpoint = threading.Thread(target=store.checkpoint)
    before = writer.files.entries

    checkpoint.start()
    checkpoint.join(0.1)  # it cannot end while the lock is taken
    during = writer.files.entries
    writer.release()
    checkpoint.join(JOIN_S)

    assert not checkpoint.is_alive()
    assert during == before
    assert len(writer.files.entries) < len(before)
    store.close()
