"""Promise (E9): a background thread that meets a bug does not die in silence.

Health turns red, whoever waits is answered, and nothing is acked that would need the dead one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

import strandline
from strandline.platform.disk import DurableFile, LogFile, OsDisk, OsLogFile
from tests.crash.real.quick_clock import QuickClock

WAIT_S_MAX = 20.0
KIB = 1024
SETTINGS = strandline.Settings(
    wal=strandline.WalSettings(file_size_first=64 * KIB, file_size_max=64 * KIB),
    segment=strandline.SegmentSettings(checkpoint_bytes=32 * KIB),
)


class Bug(Exception):
    """Nothing that the store knows how to answer."""


class BuggyDisk(OsDisk):
    """The real disk until a call is said to have a bug."""

    def __init__(self) -> None:
        self.broken = ""

    def meet(self, call: str) -> None:
        if call == self.broken:
            raise Bug(call)

    def open_log(self, path: str) -> LogFile:
        disk = self

        class BuggyLogFile(OsLogFile):
            def sync(self) -> None:
                disk.meet("sync")
                super().sync()

        return BuggyLogFile(path)

    def prepare(self, path: str, size: int) -> None:
        self.meet("prepare")
        super().prepare(path, size)

    def create(self, path: str, *, aside: str | None = None) -> DurableFile:
        self.meet("create")
        return super().create(path, aside=aside)

    def free_bytes(self, path: str) -> int:
        self.meet("free_bytes")
        return super().free_bytes(path)


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not happened():
        assert time.monotonic() < deadline, f"not within {WAIT_S_MAX} s: {what}"
        time.sleep(0.001)


def append_until_refused(topic: strandline.Topic, answers: list[BaseException]) -> None:
    try:
        while True:
            topic.append(b"x" * 200)
    except BaseException as error:  # noqa: BLE001 - any answer is an answer, the test looks at it
        answers.append(error)


def test_the_death_of_the_sync_job_turns_health_red_and_ends_all_acks(data_dir: str):
    disk = BuggyDisk()
    with strandline.open(data_dir, settings=SETTINGS, disk=disk, clock=QuickClock()) as store:
        topic = store.topic("disk")
        answers: list[BaseException] = []
        appender = threading.Thread(target=append_until_refused, args=(topic, answers))
        appender.start()

        disk.broken = "sync"

        wait_until(lambda: store.health().status == "red", "health turns red")
        appender.join(WAIT_S_MAX)
        assert isinstance(answers[0], strandline.StoreFailed | Bug)  # it may have synced for itself
        assert "sync-0" in " ".join(store.health().reasons)
        for durability in ("disk", "fsync", "memory"):
            with pytest.raises(strandline.StoreFailed, match="close and reopen"):
                store.topic(durability, durability=durability).append(b"too late")
        head = topic.head_seq
        assert topic.read(head - 1, 1).next == head
    disk.broken = ""
    with strandline.open(data_dir, settings=SETTINGS) as again:
        assert again.topic("disk").head_seq == head


@pytest.mark.parametrize(
    ("call", "jobs"),
    [
        ("prepare", ["prepare-0", "space"]),  # the next log file, or the ballast: who comes first
        ("create", ["checkpoint"]),
        ("free_bytes", ["space"]),
    ],
)
def test_the_death_of_another_job_turns_health_red_and_takes_no_ack_back(
    data_dir: str, call: str, jobs: list[str]
):
    disk = BuggyDisk()
    with strandline.open(data_dir, settings=SETTINGS, disk=disk, clock=QuickClock()) as store:
        topic = store.topic("fsync", durability="fsync")
        disk.broken = call

        def is_red() -> bool:
            topic.append([b"x" * 200] * 20)
            return store.health().status == "red"

        wait_until(is_red, "health turns red")

        died = " ".join(store.health().reasons)
        assert any(f"the {job} job died" in died for job in jobs)
        head = topic.append(b"still acked").first_seq
        disk.broken = ""
    with strandline.open(data_dir, settings=SETTINGS) as again:
        assert again.topic("fsync").read(head - 1, 1).data == [b"still acked"]


def test_all_who_wait_are_answered_when_the_sync_job_dies(data_dir: str):
    disk = BuggyDisk()
    with strandline.open(data_dir, disk=disk) as store:
        fsync = store.topic("fsync", durability="fsync")
        fsync.append(b"before")
        head = fsync.head_seq
        disk.broken = "sync"
        answers: list[BaseException] = []

        async def one() -> None:
            await fsync.append_nowait(b"from a coroutine").durable()

        def ask(call: Callable[[], object]) -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - as above
                answers.append(error)

        calls: list[Callable[[], object]] = [
            lambda: asyncio.run(one()),
            lambda: fsync.wait_for(head),
            lambda: list(fsync.follow(head)),
        ]
        threads = [threading.Thread(target=ask, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S_MAX)

        assert not any(thread.is_alive() for thread in threads), "somebody was never answered"
        assert {type(error) for error in answers} == {strandline.StoreFailed}
        assert fsync.head_seq == head
        disk.broken = ""


def test_an_append_that_meets_a_bug_in_its_own_sync_is_not_acked_by_a_later_one(data_dir: str):
    """The bug is over when the next sync comes: it must cover all that the first one should."""
    disk = BuggyDisk()
    synced: list[str] = []
    with strandline.open(data_dir, settings=SETTINGS, disk=disk, start_jobs=False) as store:
        topic = store.topic("fsync", durability="fsync")
        topic.append(b"before")
        pending = [topic.append_nowait(b"x" * 3000) for _ in range(40)]  # more than one file
        disk.broken = "sync"
        with pytest.raises(Bug):
            pending[-1].wait()
        disk.broken = ""
        disk.meet = synced.append  # type: ignore[method-assign]  # it listens now

        pending[0].wait()

        assert len(synced) >= 2, "the files that the failed round had taken were forgotten"
        assert topic.head_seq == 41
